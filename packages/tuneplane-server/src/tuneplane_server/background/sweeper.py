"""The sweeper: moves sweeps on. One sweep is one row: it is worked on by one console at a time, and a bad one rests alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from tuneplane_server.background.leases import Lease, still_held
from tuneplane_server.background.loop import Work
from tuneplane_server.features.sweeps.progress import SweepProgress


class Sweeper:
    name = "sweeper"
    topics = ("sweeper", "jobs")

    def __init__(self, progress: SweepProgress, *, interval: float) -> None:
        self._progress, self.interval = progress, interval

    async def due(self) -> Sequence[Work]:
        return [Work(sweep_id, sweep_id) for sweep_id in await self._progress.active()]

    async def handle(self, work: Work, lease: Lease) -> None:
        await self._progress.advance(work.row_id, partial(still_held, lease=lease))

    async def failed(self, work: Work, lease: Lease, error: Exception) -> None:
        """The loop has logged it and lets the sweep rest; its trials run on."""
