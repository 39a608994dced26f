"""The follower: after a run that succeeded it submits what the run asked for (`spec.lifecycle.on_success`)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from tuneplane_server.background.leases import Lease
from tuneplane_server.background.loop import BackOffError, Work
from tuneplane_server.clock import Clock
from tuneplane_server.features.jobs.follow_ups import AT_ONCE, FollowUps, FollowUpWaitsError

LOOKED_BACK = timedelta(days=7)  # by a console that has just started
OVERLAP = timedelta(minutes=10)  # a run's end is written by a console whose clock may be another


class Follower:
    name = "follower"
    topics = ("jobs",)

    def __init__(self, follow_ups: FollowUps, clock: Clock, *, interval: float) -> None:
        self._follow_ups, self._clock, self.interval = follow_ups, clock, interval
        self._since: datetime | None = None

    async def due(self) -> Sequence[Work]:
        """Only what ended lately is looked through; a run that waits keeps the mark where it ended."""
        now = self._clock.now()
        found = await self._follow_ups.due(self._since or now - LOOKED_BACK)
        if len(found) < AT_ONCE:
            self._since = min([now - OVERLAP, *(ended for _run, ended in found)])
        return [Work(run, run) for run, _ended in found]

    async def handle(self, work: Work, lease: Lease) -> None:
        try:
            await self._follow_ups.make(work.row_id)
        except FollowUpWaitsError as error:
            raise BackOffError(str(error)) from error

    async def failed(self, work: Work, lease: Lease, error: Exception) -> None:
        """The loop has logged it and lets the run rest; it is over, so nothing of it changes."""
