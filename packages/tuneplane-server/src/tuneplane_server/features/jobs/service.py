"""Jobs: submit, look, cancel. Rules are in `admission/` and `domain/`; rows are written by the ledger alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane.contract.digests import digest_json
from tuneplane.contract.jobspec import JobSpec
from tuneplane.contract.names import is_run_id
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _
from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.domain.transitions import Event
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.audit.service import AuditEntry, AuditService
from tuneplane_server.features.jobs import repo
from tuneplane_server.features.jobs.admission.context import AdmissionContext
from tuneplane_server.features.jobs.admission.rules import admit
from tuneplane_server.features.jobs.jobspec_input import parse_jobspec
from tuneplane_server.features.jobs.ledger import Ledger
from tuneplane_server.features.jobs.planning import Planner
from tuneplane_server.features.jobs.query import JobQuery
from tuneplane_server.features.jobs.runtimes import ResolvedRuntime
from tuneplane_server.features.jobs.tables import AttemptRow, IdempotencyRow, JobEventRow, JobRow
from tuneplane_server.features.projects.service import ProjectService
from tuneplane_server.wakeups import Wakeups
from tuneplane_server.web.problems import not_found, refused

MAX_KEY = 200
type JobRows = list[JobRow]  # inside the service, `list` is its own method


@dataclass(frozen=True)
class DryRun:
    refusals: list[Refusal]
    plan: dict[str, Any]


class JobService:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        planner: Planner,
        ledger: Ledger,
        projects: ProjectService,
        audit: AuditService,
        wakeups: Wakeups,
    ) -> None:
        self._database, self._clock, self._planner, self._ledger = database, clock, planner, ledger
        self._projects, self._audit, self._wakeups = projects, audit, wakeups

    # --- submit ---------------------------------------------------------------------------------------------------

    async def submit(
        self, principal: Principal, raw: Any, *, key: str | None, ingest_address: str, address: str = ""
    ) -> JobRow:
        """Admit a JobSpec and queue it. Raises `RefusedError` with every refusal; nothing is written then.

        The same `key` of the same user gets the first answer again; with another JobSpec it is refused.
        """
        if key is not None and not 0 < len(key) <= MAX_KEY:
            raise refused("request-invalid", _("an Idempotency-Key has 1 to 200 characters"), field="Idempotency-Key")
        spec = _parsed(raw)
        digest = _digest(spec)
        first = await self._first_answer(principal, key, digest)
        if first is not None:
            return first
        context = await self._planner.context(spec, principal, ingest_address, dry_run=False)
        refusals = admit(context)
        if refusals:
            raise RefusedError(refusals)
        simulated = await self._planner.hardware.simulated(context.pools)
        try:
            async with self._database.begin() as session:
                row = await self._insert(session, principal, context, simulated)
                if key is not None:
                    session.add(_idempotency(principal, key, digest, row))
                entry = AuditEntry(principal.username, "job.submit", row.id, address, {"experiment": row.experiment})
                self._audit.record(session, entry)
        except IntegrityError:  # the same key came in twice at once; the other one was first
            first = await self._first_answer(principal, key, digest)
            if first is None:
                raise
            return first
        self._wakeups.notify("launcher", "jobs")
        return row

    async def dry_run(self, principal: Principal, raw: Any, *, ingest_address: str) -> DryRun:
        """What `submit` would say, and what the job would get. Changes nothing."""
        spec = _parsed(raw)
        context = await self._planner.context(spec, principal, ingest_address, dry_run=True)
        return DryRun(admit(context), self._planner.preview(context, principal.username))

    async def _first_answer(self, principal: Principal, key: str | None, digest: str) -> JobRow | None:
        if key is None:
            return None
        async with self._database.session() as session:
            known = await repo.idempotent(session, principal.user_id, key)
            if known is None:
                return None
            if known.request_digest != digest:
                raise refused(
                    "idempotency-conflict",
                    _("this Idempotency-Key was used for another submission"),
                    _("use a new key for a new submission"),
                )
            return await repo.get(session, known.job_id)

    async def _insert(
        self, session: AsyncSession, principal: Principal, context: AdmissionContext, simulated: bool
    ) -> JobRow:
        spec, now = context.spec, self._clock.now()
        assert isinstance(context.runtime, ResolvedRuntime)
        project = await self._projects.get_or_create(session, principal, spec.metadata.project)
        row = JobRow(
            id=self._clock.new_id(),
            owner_id=principal.user_id,
            project_id=project.id,
            owner=principal.username,
            project=spec.metadata.project,
            experiment=spec.metadata.name,
            display_name=spec.metadata.display_name,
            recipe=spec.spec.recipe.name,
            recipe_version=spec.spec.recipe.version,
            framework=spec.spec.framework.kind,
            spec=spec.to_json(),
            package_digest=spec.provenance.package_digest,
            runtime=context.runtime.to_json(),
            simulated=simulated,
            demand=[vars(pool) for pool in context.pools],
            priority=spec.spec.priority,
            max_seconds=spec.spec.limits.max_duration,
            desired="run",
            paused=False,
            approval="none",
            phase="queued",
            phase_since=now,
            conditions=[],
            cleanup="none",
            attempt=1,
            version=1,
            created_at=now,
        )
        session.add(row)
        await session.flush()
        session.add(AttemptRow(job_id=row.id, n=1, phase="queued", placement=[], created_at=now))
        session.add(
            JobEventRow(
                job_id=row.id,
                seq=1,
                time=now,
                kind="submitted",
                attempt=1,
                from_phase="",
                to_phase="queued",
                ignored=False,
                data={"actor": principal.username},
            )
        )
        return row

    # --- look -----------------------------------------------------------------------------------------------------

    async def get(self, principal: Principal, job_id: str) -> JobRow:
        """The job, if it is the caller's to see; `not-found` otherwise, which does not tell whether it exists."""
        async with self._database.session() as session:
            row = await repo.get_readable(session, principal, job_id) if is_run_id(job_id) else None
        if row is None:
            raise not_found(_("there is no run {id}").format(id=job_id[:40]), _("tp job ls lists the runs you may see"))
        return row

    async def list(
        self, principal: Principal, query: JobQuery, *, before: str | None = None, limit: int = 50
    ) -> tuple[JobRows, str | None]:
        """(jobs newest first, the id to go on from or None at the end)."""
        async with self._database.session() as session:
            rows = await repo.list_readable(
                session,
                principal,
                query,
                before=before,
                limit=limit + 1,
            )
        return rows[:limit], rows[limit - 1].id if len(rows) > limit else None

    async def counts(self, principal: Principal, query: JobQuery) -> dict[str, int]:
        """Phase -> number of jobs that match the query, whatever phases it names."""
        async with self._database.session() as session:
            return await repo.count_readable(session, principal, query)

    async def phase_counts(self) -> dict[str, int]:
        """Phase -> number of all jobs; for the console's own metrics, which name nobody."""
        async with self._database.session() as session:
            return await repo.count_all(session)

    async def attempts(self, job_ids: Sequence[str]) -> Mapping[str, Sequence[AttemptRow]]:
        """Attempts of jobs that the caller was already shown."""
        async with self._database.session() as session:
            return await repo.attempts_of(session, job_ids)

    async def events(
        self, principal: Principal, job_id: str, *, after: int = 0, limit: int = 100
    ) -> tuple[Sequence[JobEventRow], int | None]:
        """(events in order, the seq to go on from or None at the end)."""
        await self.get(principal, job_id)
        async with self._database.session() as session:
            rows = await repo.events(session, job_id, after, limit + 1)
        return rows[:limit], rows[limit - 1].seq if len(rows) > limit else None

    async def desired(self, job_id: str, attempt: int) -> str:
        """What is desired of an attempt now, for its heartbeat: `cancel` also for one that is not the job's current one."""
        async with self._database.session() as session:
            row = await repo.get(session, job_id)
        if row is None or row.attempt != attempt or row.stop_cause is not None:
            return "cancel"
        return row.desired

    # --- cancel ---------------------------------------------------------------------------------------------------

    async def cancel(self, principal: Principal, job_id: str, *, address: str = "") -> JobRow:
        """Write that the job is not desired any more. Repeating it, or cancelling what has ended, changes nothing."""
        await self.get(principal, job_id)
        evidence = self._ledger.evidence(data={"actor": principal.username})
        await self._ledger.apply(job_id, Event.CANCEL, evidence)
        await self._audit.record_alone(AuditEntry(principal.username, "job.cancel", job_id, address))
        return await self.get(principal, job_id)


def _parsed(raw: Any) -> JobSpec:
    spec, refusals = parse_jobspec(raw)
    if spec is None:
        raise RefusedError(refusals)
    return spec


def _digest(spec: JobSpec) -> str:
    try:
        return digest_json(spec.to_json())
    except ValueError:
        return ""  # admission refuses it; a digest is needed only for what is admitted


def _idempotency(principal: Principal, key: str, digest: str, row: JobRow) -> IdempotencyRow:
    return IdempotencyRow(
        owner_id=principal.user_id, key=key, request_digest=digest, job_id=row.id, created_at=row.created_at
    )
