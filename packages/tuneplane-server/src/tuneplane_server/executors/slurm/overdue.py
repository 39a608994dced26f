"""Jobs that Slurm calls RUNNING when their batch scripts have long seen all machines end.

A slurmctld that was killed before it wrote an end down takes the job for running, and asks its machines only much later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta

from tuneplane_server.executors.slurm.earlier import silent_since_end
from tuneplane_server.executors.slurm.handles import Attempt, Place

LOOK_SECONDS = 15.0  # apart, at the files of one attempt: hundreds of runs are looked at every other second


class Overdue:
    """`after`: how long a job may go on in Slurm after its script has seen it end. `clock`: monotonic."""

    def __init__(self, after: timedelta, clock: Callable[[], float]) -> None:
        self._after, self._clock = after.total_seconds(), clock
        self._looked: dict[Attempt, float] = {}

    async def has_ended(self, place: Place, machines: int) -> bool:
        """Whether the job has, and Slurm has had its time to say so. Raises OSError."""
        now = self._clock()
        if place.directory is None or now - self._looked.get(place.key, float("-inf")) < LOOK_SECONDS:
            return False
        self._looked = {key: at for key, at in self._looked.items() if now - at < LOOK_SECONDS} | {place.key: now}
        silent = await asyncio.to_thread(silent_since_end, place.directory, machines)
        return silent is not None and silent > self._after
