"""Whose turn it is: priority, then who has used less, then who has waited longer.

Use is counted in GPU-seconds that fade with a half-life, as Slurm's multifactor plugin does it (PriorityDecayHalfLife), so
that last month's big run does not push its owner back for ever. Every job that stands in the line counts for the jobs of its
owner behind it, so two owners who use equally much alternate and one who queues a thousand jobs does not fill the machines
at a stroke.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta

HALF_LIFE = timedelta(days=7)
# What a job without a limit counts for while it stands in the line.
UNKNOWN_LENGTH_SECONDS = 3600.0
# Use is compared in steps of one GPU-hour: between owners who are about even, the longer wait decides.
STEP_GPU_SECONDS = 3600.0


def faded_use(gpus: int, start: datetime, end: datetime, now: datetime) -> float:
    """GPU-seconds of a use from `start` to `end` (at most `now`), each second halved for every `HALF_LIFE` that it is ago."""
    rate = math.log(2) / HALF_LIFE.total_seconds()
    first, last = ((now - min(time, now)).total_seconds() for time in (start, end))
    return gpus * max(0.0, math.exp(-rate * last) - math.exp(-rate * first)) / rate


class Turn:
    """What the order needs to know of a waiting job."""

    __slots__ = ("created_at", "gpus", "job_id", "owner_id", "priority", "seconds")

    def __init__(
        self, job_id: str, owner_id: str, priority: int, created_at: datetime, gpus: int, seconds: float | None
    ) -> None:
        self.job_id, self.owner_id, self.priority = job_id, owner_id, priority
        self.created_at, self.gpus, self.seconds = created_at, gpus, seconds

    @property
    def charge(self) -> float:
        """GPU-seconds that it counts for in the line."""
        return self.gpus * (UNKNOWN_LENGTH_SECONDS if self.seconds is None else self.seconds)


def in_order(turns: Iterable[Turn], use: Mapping[str, float]) -> Iterator[str]:
    """Job ids, whose turn it is first. `use`: owner -> faded GPU-seconds; an owner who is missing has used nothing."""
    used = defaultdict(float, use)
    by_priority: defaultdict[int, list[Turn]] = defaultdict(list)
    for turn in turns:
        by_priority[turn.priority].append(turn)
    for priority in sorted(by_priority, reverse=True):
        yield from _alternating(by_priority[priority], used)


def _alternating(turns: list[Turn], used: defaultdict[str, float]) -> Iterator[str]:
    """One priority's jobs; adds what they count for to `used`."""
    lines: defaultdict[str, list[Turn]] = defaultdict(list)
    for turn in sorted(turns, key=lambda item: (item.created_at, item.job_id), reverse=True):
        lines[turn.owner_id].append(turn)  # the oldest is last
    heap = [_entry(line, used) for line in lines.values()]
    heapq.heapify(heap)
    while heap:
        _step, _created, job_id, owner = heap[0]
        yield job_id
        line = lines[owner]
        used[owner] += line.pop().charge
        if line:
            heapq.heapreplace(heap, _entry(line, used))
        else:
            heapq.heappop(heap)


def _entry(line: list[Turn], used: Mapping[str, float]) -> tuple[int, datetime, str, str]:
    first = line[-1]
    return int(used[first.owner_id] // STEP_GPU_SECONDS), first.created_at, first.job_id, first.owner_id
