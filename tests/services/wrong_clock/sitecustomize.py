"""Gives a Python process a wrong clock that a test can set while it runs: `time.time` is off by the seconds in TUNEPLANE_TEST_CLOCK.

A time namespace moves only the monotonic clocks, and libfaketime makes the sleeps of CPython 3.14 fail; the node reads the time of day with
`time.time` alone, so this is enough for it. Put the folder on PYTHONPATH.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

_file = Path(os.environ.get("TUNEPLANE_TEST_CLOCK", ""))
_time, _time_ns = time.time, time.time_ns


def _off() -> float:
    try:
        return float(_file.read_text())
    except OSError:  # nobody has set it
        return 0.0


vars(time).update(time=lambda: _time() + _off(), time_ns=lambda: _time_ns() + int(_off() * 1e9))
