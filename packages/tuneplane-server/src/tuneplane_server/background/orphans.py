"""Finds what is out there and should not be: attempts that the ledger knows to be over and proved gone. A launch that was
paused past its lease can leave one. What the ledger does not know at all is left alone and told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from tuneplane_server.background.leases import Lease
from tuneplane_server.background.loop import Work
from tuneplane_server.background.writing import RoleWriter
from tuneplane_server.domain.phases import Cleanup, Phase
from tuneplane_server.executors.port import Executor, ExecutorUnreachableError, Handle
from tuneplane_server.features.jobs.repo import Standing

log = structlog.get_logger(__name__)

EVERYWHERE = "all"
AT_ONCE = 8


class OrphanSweeper:
    name = "orphans"
    topics = ()
    interval = 60.0

    def __init__(self, writer: RoleWriter, executor: Executor) -> None:
        self._writer, self._executor = writer, executor
        self._told: set[str] = set()

    async def due(self) -> Sequence[Work]:
        """Always the same piece of work: to ask every machine takes longer than a look may."""
        return [Work(EVERYWHERE, None)]

    async def failed(self, work: Work, lease: Lease, error: Exception) -> None:
        """The loop's log says it; there is no row to show it on."""

    async def handle(self, work: Work, lease: Lease) -> None:
        try:
            owned = await self._executor.owned()
        except ExecutorUnreachableError:
            return
        known = await self._writer.standings(sorted({handle.job_id for handle in owned}))
        slots = asyncio.Semaphore(AT_ONCE)
        orphans = [handle for handle in owned if self._is_orphan(handle, known.get(handle.job_id))]
        await asyncio.gather(*(self._remove(handle, slots) for handle in orphans))

    async def _remove(self, orphan: Handle, slots: asyncio.Semaphore) -> None:
        """One that cannot be removed now is found again the next time, and is in nobody's way."""
        async with slots:
            log.warning("removing an orphan", job=orphan.job_id, attempt=orphan.attempt)
            try:
                await self._executor.cleanup(orphan)
            except Exception as error:  # whatever it is, the others go
                log.error("an orphan could not be removed", job=orphan.job_id, attempt=orphan.attempt, exc_info=error)

    def _is_orphan(self, handle: Handle, job: Standing | None) -> bool:
        if job is None:
            if handle.job_id not in self._told:
                self._told.add(handle.job_id)
                log.warning("a container of an unknown run is left alone", job=handle.job_id, attempt=handle.attempt)
            return False
        if handle.attempt != job.attempt:
            return handle.attempt < job.attempt
        over = job.cleanup == Cleanup.CONFIRMED or (job.phase == Phase.CANCELLED and not job.launched)
        return over and job.cleanup != Cleanup.PENDING
