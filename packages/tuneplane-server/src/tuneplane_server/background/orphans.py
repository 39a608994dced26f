"""Finds what is out there and should not be: attempts that the ledger knows to be over and proved gone. A launch that was
paused past its lease can leave one. What the ledger does not know at all is left alone and told.
"""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from tuneplane_server.background.leases import Lease
from tuneplane_server.background.loop import Work
from tuneplane_server.background.writing import RoleWriter
from tuneplane_server.domain.phases import Cleanup
from tuneplane_server.executors.port import Executor, ExecutorUnreachableError, Handle

log = structlog.get_logger(__name__)


class OrphanSweeper:
    name = "orphans"
    topics = ()
    interval = 60.0

    def __init__(self, writer: RoleWriter, executor: Executor) -> None:
        self._writer, self._executor = writer, executor
        self._told: set[str] = set()

    async def due(self) -> Sequence[Work]:
        try:
            owned = await self._executor.owned()
        except ExecutorUnreachableError:
            return []
        return [Work(f"{handle.job_id}-{handle.attempt}", handle) for handle in owned if await self._is_orphan(handle)]

    async def failed(self, work: Work, lease: Lease, error: Exception) -> None:
        """The loop's log says it; there is no row to show it on."""

    async def handle(self, work: Work, lease: Lease) -> None:
        log.warning("removing an orphan", job=work.item.job_id, attempt=work.item.attempt)
        await self._executor.cleanup(work.item)

    async def _is_orphan(self, handle: Handle) -> bool:
        row = await self._writer.job(handle.job_id)
        if row is None:
            if handle.job_id not in self._told:
                self._told.add(handle.job_id)
                log.warning("a container of an unknown run is left alone", job=handle.job_id, attempt=handle.attempt)
            return False
        if handle.attempt != row.attempt:
            return handle.attempt < row.attempt
        over = row.cleanup == Cleanup.CONFIRMED or (row.phase == "cancelled" and row.handle is None)
        return over and row.cleanup != Cleanup.PENDING
