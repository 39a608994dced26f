"""A console as `tuneplane-server serve` runs it, which writes down how long the looks of its roles take: `python -m benchmarks.nodes_console
TICKS.json`, settings from the environment. A tick is one look of a role: which rows are due, and the claims of those that are.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections import defaultdict
from pathlib import Path

from tuneplane_server.background.loop import SupervisedLoop
from tuneplane_server.serving import serve_console
from tuneplane_server.settings import load_settings


def measure(file: Path) -> None:
    """From now on every tick of every role is in `file`, written once a second: role -> [[Unix time, milliseconds]]."""
    ticks: dict[str, list[list[float]]] = defaultdict(list)
    tick = SupervisedLoop.tick
    written = [time.monotonic()]

    async def measured(self: SupervisedLoop) -> None:
        wall = time.perf_counter()
        await tick(self)
        ticks[self.role.name].append([time.time(), (time.perf_counter() - wall) * 1000])
        if time.monotonic() - written[0] >= 1:
            written[0] = time.monotonic()
            partial = file.with_suffix(".part")
            partial.write_text(json.dumps(ticks))
            partial.replace(file)

    SupervisedLoop.tick = measured


if __name__ == "__main__":
    gc.disable()  # as `tuneplane-server serve` does it
    measure(Path(sys.argv[1]))
    serve_console(load_settings(), print)
