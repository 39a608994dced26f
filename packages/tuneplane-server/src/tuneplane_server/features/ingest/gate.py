"""How many batches are worked on at once, so that one loud run delays only itself.

A run has one place: its batches come one after the other anyway, so what floods waits for itself and the others get their
turn between two batches of it. Places to read bodies bound memory, places to decode bound the load. Who would wait too long
is told to come back; the sender keeps everything meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

WAIT_SECONDS = 15.0  # less than the runner waits for an answer
WAITING_PER_RUN = 64
READING = 32
DECODING = 4


class CrowdedError(Exception):
    """`status` 429: this run sends too much at once; 503: the console has too much to do. `retry_after` in seconds."""

    def __init__(self, status: int, retry_after: int) -> None:
        super().__init__(f"try again in {retry_after} s")
        self.status, self.retry_after = status, retry_after


@dataclass
class _Run:
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    inside: int = 0


class Gate:
    def __init__(
        self, *, waiting_per_run: int = WAITING_PER_RUN, reading: int = READING, decoding: int = DECODING
    ) -> None:
        self._waiting_per_run = waiting_per_run
        self._reading, self._decoding = asyncio.Semaphore(reading), asyncio.Semaphore(decoding)
        self._runs: dict[str, _Run] = {}

    @property
    def waiting(self) -> int:
        """Batches that are inside or wait for their turn."""
        return sum(run.inside for run in self._runs.values())

    @asynccontextmanager
    async def turn(self, job_id: str) -> AsyncIterator[None]:
        """The run's own turn, and a place to read a body into memory. Raises `CrowdedError`."""
        run = self._runs.setdefault(job_id, _Run())
        if run.inside >= self._waiting_per_run:
            raise CrowdedError(429, 1)
        run.inside += 1
        try:
            await _acquire(run.turn, 429)
            try:
                await _acquire(self._reading, 503)
                try:
                    yield
                finally:
                    self._reading.release()
            finally:
                run.turn.release()
        finally:
            run.inside -= 1
            if run.inside == 0:
                del self._runs[job_id]

    @asynccontextmanager
    async def decoding(self) -> AsyncIterator[None]:
        """A place to decode. Raises `CrowdedError`."""
        await _acquire(self._decoding, 503)
        try:
            yield
        finally:
            self._decoding.release()


async def _acquire(place: asyncio.Lock | asyncio.Semaphore, status: int) -> None:
    try:
        async with asyncio.timeout(WAIT_SECONDS):
            await place.acquire()
    except TimeoutError:
        raise CrowdedError(status, 2) from None
