"""What this process counts of its own work, for `/metrics` and OpenTelemetry. Plain numbers: counting costs nothing where nobody reads.

Labels are a handful of fixed words; nothing here grows with runs, people or metrics.
"""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from starlette.exceptions import HTTPException

LATENCY_BOUNDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
STORED, DUPLICATE, DENIED, REFUSED, CROWDED, UNAVAILABLE, FAILED = OUTCOMES = (
    "stored",
    "duplicate",
    "denied",
    "refused",
    "crowded",
    "unavailable",
    "failed",
)
_OF_STATUS = {401: DENIED, 403: DENIED, 429: CROWDED, 503: UNAVAILABLE, 507: UNAVAILABLE}
LAG_EVERY, LAG_KEPT = 0.5, 120  # a minute of looks


@dataclass
class Histogram:
    """Seconds. `counts` has one more place than `LATENCY_BOUNDS`: what was slower than all of them."""

    counts: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_BOUNDS) + 1))
    total: float = 0.0

    def note(self, seconds: float) -> None:
        self.counts[bisect_left(LATENCY_BOUNDS, seconds)] += 1
        self.total += seconds


@dataclass
class Batch:
    """Filled in by who handles a batch; whether it was stored decides the outcome when nothing is raised."""

    size: int = 0
    accepted: int = 0
    duplicate: int = 0
    points: int = 0


@dataclass
class Meters:
    """Of this process, since it started."""

    batches: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    points: int = 0
    records: Counter[str] = field(default_factory=Counter)
    writes: Histogram = field(default_factory=Histogram)

    @contextmanager
    def batch(self) -> Iterator[Batch]:
        """Around one batch of ingest, whatever becomes of it."""
        seen = Batch()
        outcome = FAILED
        try:
            yield seen
            outcome = STORED if seen.accepted or not seen.duplicate else DUPLICATE
        except HTTPException as error:
            outcome = _OF_STATUS.get(error.status_code, REFUSED if error.status_code < 500 else FAILED)
            raise
        finally:
            self.batches[outcome] += 1
            self.bytes += seen.size
            self.points += seen.points
            self.records["accepted"] += seen.accepted
            self.records["duplicate"] += seen.duplicate

    @contextmanager
    def write(self) -> Iterator[None]:
        """Around one transaction of telemetry, the wait for its turn included."""
        begun = time.monotonic()
        try:
            yield
        finally:
            self.writes.note(time.monotonic() - begun)


class LoopLag:
    """How late the event loop is: what sleeps half a second and wakes later was held up by something that did not let go."""

    def __init__(self) -> None:
        self._late: deque[float] = deque(maxlen=LAG_KEPT)
        self._task: asyncio.Task[None] | None = None

    @property
    def worst(self) -> float:
        """Seconds, the worst of the last minute; 0 before the first look."""
        return max(self._late, default=0.0)

    def start(self) -> None:
        self._task = asyncio.create_task(self._look(), name="loop-lag")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    async def _look(self) -> None:
        while True:
            due = time.monotonic() + LAG_EVERY
            await asyncio.sleep(LAG_EVERY)
            self._late.append(max(0.0, time.monotonic() - due))
