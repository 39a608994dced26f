"""The launcher: what was placed is started. A launch nobody saw the end of is simply done again: the executor creates or gets."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.background.launching import LaunchPreparer, planned_handle
from tuneplane_server.background.leases import Lease
from tuneplane_server.background.loop import BackOffError, Work
from tuneplane_server.background.writing import RoleWriter
from tuneplane_server.domain.classify import Exit, classify
from tuneplane_server.domain.phases import Phase, Reason, StopCause, Verdict
from tuneplane_server.domain.transitions import LAUNCH_DELAYED, Event
from tuneplane_server.executors.port import (
    Executor,
    ExecutorUnreachableError,
    Handle,
    LaunchDelayedError,
    LaunchRefusedError,
)
from tuneplane_server.features.jobs import repo
from tuneplane_server.features.jobs.tables import JobRow
from tuneplane_server.wakeups import Wakeups

# How long an executor with a queue of its own may be away, or full: whoever would wait there anyway loses nothing by waiting here.
AWAY_SECONDS = 7 * 86_400.0


class Launcher:
    name = "launcher"
    topics = ("launcher",)

    def __init__(
        self,
        writer: RoleWriter,
        executor: Executor,
        preparer: LaunchPreparer,
        wakeups: Wakeups,
        *,
        interval: float,
        start_timeout: float,
    ) -> None:
        self._writer, self._executor = writer, executor
        self._preparer, self._wakeups = preparer, wakeups
        self.interval, self._start_timeout = interval, start_timeout

    async def due(self) -> Sequence[Work]:
        return [Work(row.id, row) for row in await self._writer.jobs_to_launch()]

    async def failed(self, work: Work, lease: Lease, error: Exception) -> None:
        await self._writer.show_failure(work.item, lease, error)

    async def handle(self, work: Work, lease: Lease) -> None:
        row: JobRow = work.item
        await self._writer.show_works_again(row, lease)
        await self._start(row, lease)

    async def _start(self, row: JobRow, lease: Lease) -> None:
        if row.stop_cause is not None:
            await self._stopped(row, lease, StopCause(row.stop_cause))
            return
        try:
            launched = await self._launch(row)
        except LaunchRefusedError as error:
            await self._end(row, lease, _failed(error.reason, error.data))
        except LaunchDelayedError as error:
            patience = AWAY_SECONDS if error.in_line else self._start_timeout
            await self._delay(row, lease, _failed(error.reason, error.data), patience)
        except ExecutorUnreachableError as error:
            patience = AWAY_SECONDS if self._executor.capabilities().own_queue else self._start_timeout
            await self._delay(row, lease, _failed(error.reason, {"detail": str(error)[:1000]}), patience)
        else:
            if launched is not None:
                await self._record(row, lease, *launched)

    async def _stopped(self, row: JobRow, lease: Lease, cause: StopCause) -> None:
        """Stopped before its launch was recorded. Perhaps one is out there that nobody saw the end of: if it has begun, it
        gets its grace and has its own word on how it ended, as any other. Else cleanup finds what is left by its name.
        """
        try:
            begun = await self._begun(row)
        except ExecutorUnreachableError:
            if not self._overdue(row, self._start_timeout):
                raise BackOffError from None
            begun = None
        if begun is None:
            await self._end(row, lease, classify(Exit(absent=True), None, cause))
        elif await self._writer.apply(row, lease, Event.LAUNCHED, handle=begun.to_json()):
            self._wakeups.notify("reaper")

    async def _begun(self, row: JobRow) -> Handle | None:
        """Where the attempt is, if a launch of it has got as far as starting it."""
        planned = planned_handle(await self._writer.attempt(row))
        for handle in await self._executor.owned(planned.nodes):
            if (handle.job_id, handle.attempt) == (row.id, row.attempt):
                seen = await self._executor.observe(handle)
                if seen.presence == "unknown":
                    raise ExecutorUnreachableError(seen.detail)
                return handle if seen.presence == "present" and seen.started else None
        return None

    async def _record(self, row: JobRow, lease: Lease, handle: Handle, capsule_digest: str) -> None:
        async def with_capsule(session: AsyncSession, job: JobRow) -> None:
            await repo.write_attempt(session, job.id, row.attempt, {"capsule_digest": capsule_digest})

        await self._writer.apply(row, lease, Event.LAUNCHED, handle=handle.to_json(), also=with_capsule)

    async def _launch(self, row: JobRow) -> tuple[Handle, str] | None:
        """(handle, digest of the capsule), or None when the job was cancelled meanwhile: a cancel need not wait for a pull."""
        attempt = await self._writer.attempt(row)
        plan = await self._preparer.prepare(row, attempt)
        over = asyncio.Event()
        with self._wakeups.listen(f"job:{row.id}") as changed:
            launching = asyncio.create_task(self._executor.launch(plan))
            watching = asyncio.create_task(self._until_stopped(row, changed, over))
            try:
                await asyncio.wait((launching, watching), return_when=asyncio.FIRST_COMPLETED)
                return (launching.result(), plan.capsule_digest) if launching.done() else None
            finally:
                launching.cancel()
                over.set()
                changed.set()  # it ends by itself: a query that is cancelled half-way costs its connection
                await asyncio.gather(launching, watching, return_exceptions=True)

    async def _until_stopped(self, row: JobRow, changed: asyncio.Event, over: asyncio.Event) -> None:
        while not over.is_set():
            changed.clear()
            now = await self._writer.job(row.id)
            if now is None or now.stop_cause is not None or now.attempt != row.attempt:
                return
            if not over.is_set():
                await changed.wait()

    async def _delay(self, row: JobRow, lease: Lease, verdict: Verdict, patience: float) -> None:
        """Try again later, until the deadline: then the attempt fails for what delayed it."""
        if self._overdue(row, patience):
            await self._end(row, lease, verdict)
            return
        assert verdict.reason is not None
        detail = str(verdict.reason.data.get("detail", verdict.reason.code))
        await self._writer.set_condition(row, lease, LAUNCH_DELAYED, {"detail": detail})
        raise BackOffError

    def _overdue(self, row: JobRow, patience: float) -> bool:
        return (self._writer.now() - row.phase_since).total_seconds() > patience

    async def _end(self, row: JobRow, lease: Lease, verdict: Verdict) -> None:
        await self._writer.apply(row, lease, Event.ENDED, verdict=verdict)


def _failed(reason: str, data: dict[str, object]) -> Verdict:
    return Verdict(Phase.FAILED, Reason(reason, data), from_outcome=False)
