"""The hasher: completes the digests of artifacts once an attempt's cards are free. Hashing never holds GPUs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Protocol

from tuneplane_server.background.leases import Lease
from tuneplane_server.background.loop import Work
from tuneplane_server.background.writing import RoleWriter
from tuneplane_server.features.jobs.tables import AttemptRow

BATCH = 20


class DigestMaker(Protocol):
    async def complete_hashes(self, job_id: str, attempt: int | None = None) -> int: ...


class Hasher:
    name = "hasher"
    topics = ("hasher",)
    interval = 10.0

    def __init__(self, writer: RoleWriter, artifacts: DigestMaker) -> None:
        self._writer, self._artifacts = writer, artifacts

    async def due(self) -> Sequence[Work]:
        return [Work(f"{row.job_id}-{row.n}", row) for row in await self._writer.attempts_to_hash(BATCH)]

    async def failed(self, work: Work, lease: Lease, error: Exception) -> None:
        """The loop's log says it; the files stay listed without a digest until it works."""

    async def handle(self, work: Work, lease: Lease) -> None:
        row: AttemptRow = work.item
        await self._artifacts.complete_hashes(row.job_id, row.n)
        done: datetime = self._writer.now()
        await self._writer.write_attempt_of(row.job_id, row.n, {"hashed_at": done})
