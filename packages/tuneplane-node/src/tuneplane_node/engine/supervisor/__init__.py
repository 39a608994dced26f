"""The watcher of one command in process mode: a program of its own (`watch.py`), standard library only.

The modules beside it are also imported by the engine.
"""

from __future__ import annotations

import sys
from pathlib import Path

_RUN = "import sys; sys.path[:0] = [sys.argv[1]]; import watch; watch.main(sys.argv[2])"


def supervisor_command(record: Path, folder: Path = Path(__file__).parent) -> list[str]:
    """How to run it over a record directory. By import, because then its bytecode is cached: each job starts one."""
    return [sys.executable, "-I", "-S", "-c", _RUN, str(folder), str(record)]
