"""The placer: makes a plan of the queue and carries it out, a transaction for each placement.

One console places at a time (the lease row `queue`); a plan is only a proposal all the same. Each placement is checked again
where it is written: the job is still queued at that attempt, its quotas still allow it, and nobody holds its cards.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime
from time import perf_counter

import structlog
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.background.leases import BACKOFF_FIRST, BACKOFF_MOST, Lease
from tuneplane_server.background.loop import Work
from tuneplane_server.background.writing import RoleWriter
from tuneplane_server.domain.executor_queue import queue_name
from tuneplane_server.domain.line import Placement
from tuneplane_server.domain.placement import Assignment
from tuneplane_server.domain.quotas import Want, blocked
from tuneplane_server.domain.transitions import Event
from tuneplane_server.features.hardware.service import HardwareService, Holder
from tuneplane_server.features.jobs import repo
from tuneplane_server.features.jobs.tables import JobRow
from tuneplane_server.features.queue.service import PlanOf, QueueService, Quotas
from tuneplane_server.wakeups import Wakeups

log = structlog.get_logger(__name__)

ROW = "queue"
# A plan over a long queue takes a while: between two of them others get their turn, whatever happens how often.
IDLE_SHARE, MOST_IDLE_SECONDS = 4.0, 1.0


class _GoneError(Exception):
    """Undoes the transaction of a placement: what the plan counted on is not there any more."""


class Placer:
    name = "placer"
    topics = ("placer",)

    def __init__(
        self,
        writer: RoleWriter,
        queue: QueueService,
        hardware: HardwareService,
        quotas: Quotas,
        wakeups: Wakeups,
        *,
        interval: float,
    ) -> None:
        self._writer, self._queue, self._hardware = writer, queue, hardware
        self._quotas, self._wakeups, self.interval = quotas, wakeups, interval
        self._resting: dict[
            str, tuple[int, datetime]
        ] = {}  # jobs whose placing failed: how often, and until when they rest

    async def due(self) -> Sequence[Work]:
        return [Work(ROW, None)]

    async def failed(self, work: Work, lease: Lease, error: Exception) -> None:
        """There is no job to show it on: `/healthz` and the log do."""

    async def handle(self, work: Work, lease: Lease) -> None:
        begun = perf_counter()
        made = await self._queue.current()
        now = self._writer.now()
        self._resting = {job_id: rest for job_id, rest in self._resting.items() if job_id in made.waiting}
        for placement in made.plan.placements:
            failures, until = self._resting.get(placement.job_id, (0, now))
            if until <= now:
                await self._carry_out(made, placement, lease, failures)
        await asyncio.sleep(min(MOST_IDLE_SECONDS, IDLE_SHARE * (perf_counter() - begun)))

    async def _carry_out(self, made: PlanOf, placement: Placement, lease: Lease, failures: int) -> None:
        try:
            await self._place(made, placement, lease)
        except Exception as error:  # one bad job rests alone
            log.error("placing failed", job=placement.job_id, exc_info=error)
            rest = min(BACKOFF_MOST, BACKOFF_FIRST * 2 ** min(failures, 10))
            self._resting[placement.job_id] = (failures + 1, self._writer.now() + rest)
            await self._show(placement, lease, error)

    async def _place(self, made: PlanOf, placement: Placement, lease: Lease) -> None:
        row = await self._writer.job(placement.job_id)
        if row is None or row.attempt != placement.attempt:
            return

        async def hold(session: AsyncSession, job: JobRow) -> None:
            await self._hardware.lock_placement(session)
            await self._check_quota(session, job, placement)
            holder = Holder(job.id, placement.attempt, job.owner_id, job.project_id, job.max_seconds)
            if not await self._hardware.hold(session, holder, placement.assignments, made.nodes):
                raise _GoneError
            values = {"placement": placement_json(placement.assignments)}
            await repo.write_attempt(session, job.id, placement.attempt, values)

        try:
            if await self._writer.apply(row, lease, Event.PLACED, data=self._where(placement), also=hold):
                await self._writer.show_works_again(row, lease)
        except (_GoneError, IntegrityError):  # another plan, made from what this one did not know yet
            self._wakeups.notify("placer")

    def _where(self, placement: Placement) -> dict[str, str]:
        if self._hardware.own_queue:
            return {"queue": queue_name(self._hardware.own_queue)}
        return {"nodes": ", ".join(sorted({item.node for item in placement.assignments}))}

    async def _check_quota(self, session: AsyncSession, job: JobRow, placement: Placement) -> None:
        now = self._writer.now()
        want = Want(sum(len(item.gpus) for item in placement.assignments), job.max_seconds)
        accounts = await self._quotas.accounts(session, {job.owner_id}, {job.project_id}, now)
        if any(blocked(account, want, now) for account in accounts.values()) or await self._quotas.drained(session):
            raise _GoneError

    async def _show(self, placement: Placement, lease: Lease, error: Exception) -> None:
        row = await self._writer.job(placement.job_id)
        if row is not None:
            await self._writer.show_failure(row, lease, error)


def placement_json(placed: Sequence[Assignment]) -> list[dict[str, object]]:
    """Machine rank is the position in the list."""
    return [
        {
            "pool": item.pool,
            "node": item.node,
            "gpus": list(item.gpus),
            "cpus": item.cpus,
            "memory_gb": item.memory_gb,
        }
        for item in placed
    ]
