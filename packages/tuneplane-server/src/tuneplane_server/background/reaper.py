"""The reaper: stops what is not to run, proves that it is gone, brings home what it left, and ends it or begins a further
attempt. Each step is done once, is recorded when done, and is taken up again after a crash.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.background.launching import WIND_UP, TokenIssuer, planned_handle
from tuneplane_server.background.leases import Lease
from tuneplane_server.background.leftovers import LeftoverShipper
from tuneplane_server.background.loop import BackOffError, Work
from tuneplane_server.background.writing import RoleWriter
from tuneplane_server.domain.checkpoints import FoundCheckpoint, newest_complete, next_start
from tuneplane_server.domain.phases import Cleanup, Phase
from tuneplane_server.domain.retries import Again, Ended, Enough, decide
from tuneplane_server.domain.transitions import PAUSED, Event
from tuneplane_server.executors.port import CleanupState, Executor, ExecutorUnreachableError, Handle
from tuneplane_server.features.hardware.service import HardwareService
from tuneplane_server.features.jobs.state import reason_json, state_of
from tuneplane_server.features.jobs.tables import AttemptRow, JobRow
from tuneplane_server.wakeups import Wakeups

CLEANUP_DELAYED, LOGS_DELAYED, RETRY_PENDING = "cleanup-delayed", "logs-delayed", "retry-pending"
# How long a run stays in finishing for its last telemetry; after that it is settled with what is missing told.
SETTLE_SECONDS = 600.0


class ArtifactKeeper(Protocol):
    """What the reaper asks of the artifacts feature."""

    async def register(self, job_id: str, attempt: int, out_dir: Path | None = None) -> None:
        """Read or make the index of an ended attempt; may be repeated."""
        ...

    async def checkpoints(self, job_id: str) -> Sequence[FoundCheckpoint]:
        """Of every attempt that is registered."""
        ...


class ReportReader(Protocol):
    """What the reaper asks of the evaluation feature."""

    async def register(self, job: JobRow, out_dir: Path) -> None:
        """Read the evaluation report that the job's attempt left, if it left one; may be repeated, never fails for what is in it."""
        ...


class Progress(Protocol):
    """What the reaper asks of telemetry."""

    async def last_steps(self, job_id: str) -> Mapping[int, int]:
        """Attempt -> the last step that its main rank reported; attempts that reported none are missing."""
        ...


class Reaper:
    name = "reaper"
    topics = ("reaper",)

    def __init__(
        self,
        writer: RoleWriter,
        executor: Executor,
        hardware: HardwareService,
        tokens: TokenIssuer,
        leftovers: LeftoverShipper,
        artifacts: ArtifactKeeper,
        evaluations: ReportReader,
        progress: Progress,
        wakeups: Wakeups,
        *,
        interval: float,
    ) -> None:
        self._writer, self._executor, self._hardware = writer, executor, hardware
        self._tokens, self._leftovers, self._artifacts = tokens, leftovers, artifacts
        self._evaluations, self._progress = evaluations, progress
        self._wakeups, self.interval = wakeups, interval

    async def due(self) -> Sequence[Work]:
        return [Work(row.id, row) for row in await self._writer.jobs_to_reap()]

    async def failed(self, work: Work, lease: Lease, error: Exception) -> None:
        await self._writer.show_failure(work.item, lease, error)

    async def handle(self, work: Work, lease: Lease) -> None:
        row: JobRow = work.item
        await self._writer.show_works_again(row, lease)
        if row.cleanup == Cleanup.NONE:
            await self._stop(row, lease)
            return
        gone = await self._clean(row, lease)
        if row.phase == Phase.FINISHING:
            await self._conclude(row, lease, gone)
        if not gone:
            raise BackOffError

    async def _stop(self, row: JobRow, lease: Lease) -> None:
        """Tell it to stop; returns when it has ended, so the observer is woken to see it."""
        if row.stop_cause is None or row.handle is None:
            return
        grace = timedelta(seconds=row.spec["spec"].get("limits", {}).get("grace", 30)) + WIND_UP
        try:
            await self._executor.stop(Handle.from_json(row.handle), grace)
        except ExecutorUnreachableError:
            raise BackOffError from None  # `desired` stays: it is told again
        self._wakeups.notify("observer")

    async def _clean(self, row: JobRow, lease: Lease) -> bool:
        """Whether it is proved that nothing is left; then its cards are free, in the same transaction."""
        if row.cleanup == Cleanup.CONFIRMED:
            return True
        handle = Handle.from_json(row.handle) if row.handle else planned_handle(await self._writer.attempt(row))
        if await self._executor.cleanup(handle) is not CleanupState.CONFIRMED:
            await self._writer.set_condition(row, lease, CLEANUP_DELAYED, {})
            return False

        async def release(session: AsyncSession, job: JobRow) -> None:
            await self._hardware.release(session, job.id, row.attempt)

        await self._writer.clear_condition(row, lease, CLEANUP_DELAYED)
        await self._writer.apply(row, lease, Event.CLEANED, also=release)
        return True

    async def _conclude(self, row: JobRow, lease: Lease, gone: bool) -> None:
        overdue = (self._writer.now() - row.phase_since).total_seconds() > SETTLE_SECONDS
        if not gone and not overdue:
            return  # a runner that may live still writes its spool
        attempt = await self._writer.attempt(row)
        missing = await self._bring_home(row, attempt, lease)
        if missing and not overdue:
            await self._writer.set_condition(row, lease, LOGS_DELAYED, {})
            raise BackOffError
        await self._writer.clear_condition(row, lease, LOGS_DELAYED)
        out_dir = self._leftovers.storage.attempt(row.owner, row.project, row.id, row.attempt).out
        try:
            await self._artifacts.register(row.id, row.attempt, out_dir)
            await self._evaluations.register(row, out_dir)
        except OSError:  # the storage root is away
            if not overdue:
                raise
        decision = await self._decide(row)
        if isinstance(decision, Again):
            await self._again(row, lease, decision, gone)
            return
        data = _known(missing_records=missing, repeated=decision.repeated, attempts=decision.attempts)
        if await self._writer.apply(row, lease, Event.SETTLED, data=data):
            await self._tokens.revoke(row.id, row.attempt)
            self._wakeups.notify("hasher")

    async def _bring_home(self, row: JobRow, attempt: AttemptRow, lease: Lease) -> int:
        """Send what the runner left in its spool; returns how many records are still missing."""
        if attempt.spool_shipped_at is not None:
            return 0
        missing = await self._leftovers.ship(row)
        if not missing:
            await self._writer.write_attempt(row, {"spool_shipped_at": self._writer.now()})
        return missing

    async def _decide(self, row: JobRow) -> Again | Enough:
        """Whether a further attempt begins. One that was stopped for a pause is always followed by another."""
        verdict = state_of(row).verdict
        assert verdict is not None
        if row.desired != "run" or verdict.reason is None:
            return Enough()
        if verdict.reason.code == PAUSED:
            return Again(timedelta())
        ends = await self._ends(row, verdict.reason.code)
        return decide(verdict, ends, row.spec["spec"].get("limits", {}).get("retries", {}), row.id)

    async def _ends(self, row: JobRow, code: str) -> list[Ended]:
        """How the attempts ended up to this one, without those that were stopped for a pause."""
        steps = await self._progress.last_steps(row.id)
        checkpoints = await self._artifacts.checkpoints(row.id)
        ends = []
        for item in await self._writer.attempts(row.id):
            reason = code if item.n == row.attempt else (item.reason or {}).get("code", PAUSED)
            if reason == PAUSED:
                continue
            newest = newest_complete(found for found in checkpoints if found.attempt == item.n)
            ends.append(Ended(reason, steps.get(item.n), newest.step if newest else None))
        return ends

    async def _again(self, row: JobRow, lease: Lease, decision: Again, gone: bool) -> None:
        """Queue a further attempt, once this one is proved gone."""
        if not gone:
            await self._writer.set_condition(row, lease, RETRY_PENDING, {})
            return
        verdict = state_of(row).verdict
        assert verdict is not None
        assert verdict.reason is not None
        data: dict[str, object] = {
            "resume_from": await self._resume_point(row, (await self._writer.attempt(row)).resume_from)
        }
        if verdict.reason.code == PAUSED:
            applied = await self._writer.apply(row, lease, Event.PARKED, data=data)
        else:
            not_before = self._writer.now() + decision.rest if decision.rest else None
            data |= {"reason": reason_json(verdict.reason), "seconds": round(decision.rest.total_seconds())}
            applied = await self._writer.apply(row, lease, Event.RETRIED, data=data, not_before=not_before)
        if applied:
            await self._tokens.revoke(row.id, row.attempt)

    async def _resume_point(self, row: JobRow, started_from: str | None) -> str | None:
        found = next_start(await self._artifacts.checkpoints(row.id), row.attempt, started_from)
        if not isinstance(found, FoundCheckpoint):
            return found
        paths = self._leftovers.storage.attempt(row.owner, row.project, row.id, found.attempt)
        return str(paths.out / found.path)


def _known(**figures: int) -> dict[str, Any]:
    """Those that are not 0."""
    return {name: figure for name, figure in figures.items() if figure}
