"""Jobs: look and cancel. Submitting is `submission.py`; what else people do with a job is `steering.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Select
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane.contract.names import is_run_id
from tuneplane.i18n import _
from tuneplane_server.db.engine import Database
from tuneplane_server.domain.phases import LIVE
from tuneplane_server.domain.transitions import Change, Event
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.audit.service import AuditEntry, AuditService
from tuneplane_server.features.jobs import misfits, repo
from tuneplane_server.features.jobs.ledger import Ledger
from tuneplane_server.features.jobs.query import JobQuery
from tuneplane_server.features.jobs.repo import BriefAttempt
from tuneplane_server.features.jobs.spec_parts import pools_of_spec
from tuneplane_server.features.jobs.submission import DryRun, Request, Submissions
from tuneplane_server.features.jobs.tables import AttemptRow, JobEventRow, JobRow
from tuneplane_server.grouping import Grouped
from tuneplane_server.web.problems import ProblemError, not_found

type JobRows = list[JobRow]  # inside the service, `list` is its own method
type Pools = Mapping[str, Sequence[dict[str, Any]]]


class JobService:
    def __init__(self, database: Database, submissions: Submissions, ledger: Ledger, audit: AuditService) -> None:
        self._database, self._submissions, self._ledger, self._audit = database, submissions, ledger, audit
        self._desired = Grouped(self._read_desired)

    # --- submit ---------------------------------------------------------------------------------------------------

    async def submit(
        self, principal: Principal, raw: Any, *, key: str | None, ingest_address: str, address: str = ""
    ) -> JobRow:
        """Admit a JobSpec and queue it for `principal`; see `Submissions.submit`."""
        return await self._submissions.submit(Request(principal, principal, key, ingest_address, address), raw)

    async def dry_run(self, principal: Principal, raw: Any, *, ingest_address: str) -> DryRun:
        """What `submit` would say, and what the job would get. Changes nothing."""
        return await self._submissions.dry_run(principal, raw, ingest_address=ingest_address)

    # --- look -----------------------------------------------------------------------------------------------------

    async def get(self, principal: Principal, job_id: str) -> JobRow:
        """The job, if it is the caller's to see; `not-found` otherwise, which does not tell whether it exists."""
        async with self._database.session() as session:
            row = await repo.get_readable(session, principal, job_id) if is_run_id(job_id) else None
        if row is None:
            raise not_found(_("there is no run {id}").format(id=job_id[:40]), _("tp job ls lists the runs you may see"))
        return row

    async def still_live(self, session: AsyncSession, job_id: str, attempt: int) -> bool:
        """Whether the job lives and is at that attempt; it stays so until the session's transaction ends."""
        row = await repo.lock(session, job_id)
        return row is not None and row.phase in LIVE and row.attempt == attempt

    async def list(
        self, principal: Principal, query: JobQuery, *, before: str | None = None, limit: int = 50
    ) -> tuple[JobRows, str | None]:
        """(jobs newest first, without their specs; the id to go on from or None at the end)."""
        async with self._database.session() as session:
            rows = await repo.list_readable(
                session,
                principal,
                query,
                before=before,
                limit=limit + 1,
            )
        return rows[:limit], rows[limit - 1].id if len(rows) > limit else None

    async def page(
        self, session: AsyncSession, principal: Principal, query: JobQuery, *, before: str | None, limit: int
    ) -> tuple[JobRows, Pools, str | None]:
        """(jobs as `list` gives them, run -> the pools of its JobSpec, the id to go on from or None at the end)."""
        found = await repo.page_readable(session, principal, query, before=before, limit=limit + 1)
        rows = [row for row, _spec in found[:limit]]
        pools = {row.id: pools_of_spec(spec) for row, spec in found[:limit]}
        return rows, pools, rows[-1].id if len(found) > limit else None

    async def counts(self, principal: Principal, query: JobQuery) -> dict[str, int]:
        """Phase -> number of jobs that match the query, whatever phases it names."""
        async with self._database.session() as session:
            return await repo.count_readable(session, principal, query)

    async def phase_counts(self) -> dict[str, int]:
        """Phase -> number of all jobs; for the console's own metrics, which name nobody."""
        async with self._database.session() as session:
            return await repo.count_all(session)

    async def waiting_for_approval(
        self, principal: Principal, *, after: str | None = None, limit: int = 50
    ) -> Sequence[JobRow]:
        """Jobs that the caller may see and that an administrator has to let run, the oldest first."""
        async with self._database.session() as session:
            return await repo.waiting_for_approval(session, principal, after=after, limit=limit)

    def runs_of(self, *, owner_id: str | None = None, project_id: str | None = None) -> Select[str]:
        """A query for the ids of a user's or a project's runs, for features that count by run."""
        return repo.ids_of(owner_id=owner_id, project_id=project_id)

    async def ended(self, project_id: str) -> Sequence[tuple[str, datetime]]:
        """(run, when it ended) of a project's runs that are over and cleared away, oldest first."""
        async with self._database.session() as session:
            return await repo.ended(session, project_id)

    async def count_queued(self, session: AsyncSession, runs: Select[str]) -> int:
        """How many of the runs wait, in the running transaction; also paused ones and those that wait for approval."""
        return await repo.count_queued(session, runs)

    async def attempts(self, job_ids: Sequence[str]) -> Mapping[str, Sequence[AttemptRow]]:
        """Attempts of jobs that the caller was already shown."""
        async with self._database.session() as session:
            return await repo.attempts_of(session, job_ids)

    async def brief_attempts(
        self, session: AsyncSession, job_ids: Sequence[str]
    ) -> Mapping[str, Sequence[BriefAttempt]]:
        """As `attempts`, what a listing shows of them."""
        return await repo.brief_attempts_of(session, job_ids)

    async def pools(self, session: AsyncSession, job_ids: Sequence[str]) -> Pools:
        """Run -> the pools of its JobSpec, of jobs that the caller was already shown."""
        return {job_id: pools_of_spec(text) for job_id, text in await repo.specs_as_text(session, job_ids)}

    async def followers(self, principal: Principal, job_id: str) -> Sequence[JobRow]:
        """The runs that repeat or go on from this one, oldest first; those that the caller may see."""
        async with self._database.session() as session:
            return await repo.followers(session, principal, job_id)

    async def events(
        self, principal: Principal, job_id: str, *, after: int = 0, limit: int = 100
    ) -> tuple[Sequence[JobEventRow], int | None]:
        """(events in order, the seq to go on from or None at the end)."""
        await self.get(principal, job_id)
        async with self._database.session() as session:
            rows = await repo.events(session, job_id, after, limit + 1)
        return rows[:limit], rows[limit - 1].seq if len(rows) > limit else None

    async def resumed_at(self, job_id: str) -> Sequence[datetime]:
        """When somebody let a paused job go on, of one that the caller was already shown."""
        async with self._database.session() as session:
            return await repo.times_of(session, job_id, str(Event.RESUME))

    async def desired(self, job_id: str, attempt: int) -> str:
        """What is desired of an attempt now, for its heartbeat: `cancel` also for one that is not the job's current one."""
        desired = await self._desired.ask((job_id, attempt))
        return "cancel" if desired is None else desired

    async def _read_desired(self, attempts: Sequence[tuple[str, int]]) -> Sequence[str | None]:
        async with self._database.session() as session:
            found = await repo.desired(session, sorted({job_id for job_id, _attempt in attempts}))
        return [found.get(attempt) for attempt in attempts]

    # --- cancel ---------------------------------------------------------------------------------------------------

    async def cancel(self, principal: Principal, job_id: str, *, address: str = "") -> JobRow:
        """Write that the job is not desired any more; to repeat that while it is being stopped changes nothing.

        Raises `conflict` for one that is over, with its phase and when it ended.
        """
        _raise(misfits.of_cancel(await self.get(principal, job_id)))
        evidence = self._ledger.evidence(data={"actor": principal.username})
        result = await self._ledger.apply(job_id, Event.CANCEL, evidence)
        row = await self.get(principal, job_id)
        if not isinstance(result, Change):
            _raise(misfits.of_cancel(row))  # it ended between our look and our write
        await self._audit.record_alone(AuditEntry(principal.username, "job.cancel", job_id, address))
        return row


def _raise(problem: ProblemError | None) -> None:
    if problem is not None:
        raise problem
