"""A console as `tuneplane-server serve` runs it, which writes down how long the looks of its roles take: `python -m benchmarks.nodes_console
TICKS.json`, settings from the environment. A tick is one turn of a role: which rows are due, the claims of those that are, and the begin
of their work.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections import defaultdict, deque
from pathlib import Path

from tuneplane_server.background.leases import Lease
from tuneplane_server.background.loop import SupervisedLoop, Work
from tuneplane_server.serving import serve_console
from tuneplane_server.settings import load_settings

KEPT = 4000  # of each role: the console's own memory is measured


def measure(file: Path) -> None:
    """From now on `file` has, written once a second, role -> [[Unix time, milliseconds]] of its `ticks` and of its `works`: of each
    piece of work the time from its begin by the loop, places in the line included, to its end.
    """
    ticks: defaultdict[str, deque[list[float]]] = defaultdict(lambda: deque(maxlen=KEPT))
    works: defaultdict[str, deque[list[float]]] = defaultdict(lambda: deque(maxlen=KEPT))
    tick, do = SupervisedLoop.tick, SupervisedLoop._work
    written = [time.monotonic()]

    async def measured(self: SupervisedLoop) -> None:
        wall = time.perf_counter()
        await tick(self)
        ticks[self.role.name].append([time.time(), (time.perf_counter() - wall) * 1000])
        if time.monotonic() - written[0] >= 1:
            written[0] = time.monotonic()
            partial = file.with_suffix(".part")
            found = {"ticks": ticks, "works": works}
            partial.write_text(
                json.dumps({name: {role: [*seen] for role, seen in of.items()} for name, of in found.items()})
            )
            partial.replace(file)

    async def timed(self: SupervisedLoop, work: Work, lease: Lease) -> None:
        wall = time.perf_counter()
        await do(self, work, lease)
        works[self.role.name].append([time.time(), (time.perf_counter() - wall) * 1000])

    SupervisedLoop.tick, SupervisedLoop._work = measured, timed


if __name__ == "__main__":
    gc.disable()  # as `tuneplane-server serve` does it
    measure(Path(sys.argv[1]))
    serve_console(load_settings(), print)
