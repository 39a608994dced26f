"""Submitting: a JobSpec is admitted and queued, once for each Idempotency-Key. Also of a run that follows an earlier one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane.contract.digests import digest_json
from tuneplane.contract.jobspec import JobSpec
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _
from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.audit.service import AuditEntry, AuditService
from tuneplane_server.features.jobs import repo
from tuneplane_server.features.jobs.admission.approval import needs_approval
from tuneplane_server.features.jobs.admission.context import AdmissionContext
from tuneplane_server.features.jobs.admission.duration import longest_run
from tuneplane_server.features.jobs.admission.quota import queue_full
from tuneplane_server.features.jobs.admission.rules import admit
from tuneplane_server.features.jobs.jobspec_input import parse_jobspec
from tuneplane_server.features.jobs.ledger import Also
from tuneplane_server.features.jobs.outlook import approval_view, waiting_as_if
from tuneplane_server.features.jobs.planning import Planner
from tuneplane_server.features.jobs.tables import AttemptRow, IdempotencyRow, JobEventRow, JobRow
from tuneplane_server.features.projects.service import ProjectService
from tuneplane_server.features.queue.service import QueueService
from tuneplane_server.features.queue.views import WaitingView
from tuneplane_server.features.runtimes.resolving import ResolvedRuntime
from tuneplane_server.wakeups import Wakeups
from tuneplane_server.web.problems import refused

MAX_KEY = 200


@dataclass(frozen=True)
class DryRun:
    """`approval`, `waiting`: what would come of it (`outlook.py`); None where nothing would, or it is refused."""

    refusals: list[Refusal]
    plan: dict[str, Any]
    approval: dict[str, Any] | None
    waiting: WaitingView | None


@dataclass(frozen=True)
class Origin:
    """The run that a new one follows. `resume_from`: absolute path of the checkpoint its first attempt starts from, None: from scratch.

    `step`: the checkpoint that was asked for, None: the newest. `asked`: what the JobSpec was made of, for who asks with one key again.
    """

    job_id: str
    kind: Literal["retry", "resume", "export"]
    resume_from: str | None = None
    step: int | None = None
    asked: dict[str, Any] | None = None


@dataclass(frozen=True)
class Request:
    """Who asks, with what. `owner`: whose run it will be, whose quota counts and who must be allowed to read what it names."""

    principal: Principal
    owner: Principal
    key: str | None
    ingest_address: str
    address: str = ""


class Submissions:
    def __init__(
        self,
        database: Database,
        clock: Clock,
        planner: Planner,
        projects: ProjectService,
        audit: AuditService,
        queue: QueueService,
        wakeups: Wakeups,
    ) -> None:
        self._database, self._clock, self._planner, self._queue = database, clock, planner, queue
        self._projects, self._audit, self._wakeups = projects, audit, wakeups

    async def submit(
        self, request: Request, raw: Any, origin: Origin | None = None, *, also: Also | None = None
    ) -> JobRow:
        """Admit a JobSpec and queue it. Raises `RefusedError` with every refusal; nothing is written then.

        The same `key` of the same user gets the first answer again; with another JobSpec or origin it is refused. `also` runs in
        the transaction that makes the job: what it raises takes the job back.
        """
        if request.key is not None and not 0 < len(request.key) <= MAX_KEY:
            raise refused("request-invalid", _("an Idempotency-Key has 1 to 200 characters"), field="Idempotency-Key")
        spec = _parsed(raw)
        digest = _digest(spec, origin)
        first = await self._first_answer(request, digest)
        if first is not None:
            return first
        context = await self._planner.context(spec, request.owner, request.ingest_address, dry_run=False)
        refusals = admit(context)
        if refusals:
            raise RefusedError(refusals)
        simulated = await self._planner.hardware.simulated(context.pools)
        try:
            async with self._database.begin() as session:
                row = await self._insert(session, request, context, simulated, origin)
                if request.key is not None:
                    session.add(_idempotency(request.principal, request.key, digest, row))
                self._audit.record(session, _audited(request, row, origin))
                if also is not None:
                    await also(session, row)
        except IntegrityError:  # the same key came in twice at once; the other one was first
            first = await self._first_answer(request, digest)
            if first is None:
                raise
            return first
        self._wakeups.notify("placer", "jobs")
        if origin is not None:
            self._wakeups.notify(f"job:{origin.job_id}")  # its readers see who follows it
        return row

    async def dry_run(self, principal: Principal, raw: Any, *, ingest_address: str) -> DryRun:
        """What `submit` would say, and what the job would get. Changes nothing."""
        spec = _parsed(raw)
        context = await self._planner.context(spec, principal, ingest_address, dry_run=True)
        refusals, plan = admit(context), self._planner.preview(context, principal.username)
        if refusals:
            return DryRun(refusals, plan, None, None)
        waiting = await waiting_as_if(self._queue, context, principal, self._clock.now())
        return DryRun([], plan, approval_view(context), waiting)

    async def considered(
        self, principal: Principal, raw: Any, *, ingest_address: str, dry_run: bool
    ) -> tuple[AdmissionContext, list[Refusal]]:
        """What admission looks at and what it says, for who submits more than one job. Raises when it is no JobSpec."""
        context = await self._planner.context(_parsed(raw), principal, ingest_address, dry_run=dry_run)
        return context, admit(context)

    async def _first_answer(self, request: Request, digest: str) -> JobRow | None:
        if request.key is None:
            return None
        async with self._database.session() as session:
            known = await repo.idempotent(session, request.principal.user_id, request.key)
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
        self,
        session: AsyncSession,
        request: Request,
        context: AdmissionContext,
        simulated: bool,
        origin: Origin | None,
    ) -> JobRow:
        project = await self._projects.get_or_create(session, request.owner, context.spec.metadata.project)
        await self._check_queue(session, request.owner, project.id, context)
        row = self._job_row(request.owner, project.id, context, simulated, origin)
        session.add(row)
        await session.flush()
        session.add(
            AttemptRow(
                job_id=row.id,
                n=1,
                phase="queued",
                placement=[],
                created_at=row.created_at,
                resume_from=origin.resume_from if origin else None,
            )
        )
        session.add(_first_event(request.principal, row, origin))
        return row

    async def _check_queue(
        self, session: AsyncSession, owner: Principal, project_id: str, context: AdmissionContext
    ) -> None:
        """Whether there is still room in the queue, counted where the job is inserted: two that were admitted at once may have
        seen the same last place. Raises as admission does.
        """
        limited = [item for item in context.standings.of if item.account.limits.queued_jobs is not None]
        if not limited:
            return
        await repo.lock_queue_of(session, owner.user_id)
        refusals: list[Refusal] = []
        for standing in limited:
            mine = {"owner_id": owner.user_id} if standing.account.scope == "user" else {"project_id": project_id}
            queued = await repo.count_queued(session, repo.ids_of(**mine))
            refusals += queue_full(context, replace(standing, queued=queued))
        if refusals:
            raise RefusedError(refusals)

    def _job_row(
        self, owner: Principal, project_id: str, context: AdmissionContext, simulated: bool, origin: Origin | None
    ) -> JobRow:
        spec, now = context.spec, self._clock.now()
        assert isinstance(context.runtime, ResolvedRuntime)
        return JobRow(
            id=self._clock.new_id(),
            owner_id=owner.user_id,
            project_id=project_id,
            owner=owner.username,
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
            max_seconds=longest_run(context),
            origin_id=origin.job_id if origin else None,
            origin_kind=origin.kind if origin else None,
            desired="run",
            paused=False,
            approval="pending" if needs_approval(context) else "none",
            phase="queued",
            phase_since=now,
            conditions=[],
            cleanup="none",
            attempt=1,
            version=1,
            created_at=now,
        )


def _parsed(raw: Any) -> JobSpec:
    spec, refusals = parse_jobspec(raw)
    if spec is None:
        raise RefusedError(refusals)
    return spec


def _digest(spec: JobSpec, origin: Origin | None) -> str:
    """Of what was asked for, not of what it came to: the same question may find another checkpoint later."""
    asked = spec.to_json()
    if origin is not None:
        wanted = asked if origin.asked is None else origin.asked
        asked = {"spec": wanted, origin.kind: origin.job_id, "step": origin.step}
    try:
        return digest_json(asked)
    except ValueError:
        return ""  # admission refuses it; a digest is needed only for what is admitted


def _first_event(actor: Principal, row: JobRow, origin: Origin | None) -> JobEventRow:
    data: dict[str, Any] = {"actor": actor.username}
    if origin is not None:
        data |= {"origin": origin.job_id, "resume_from": origin.resume_from}
    return JobEventRow(
        job_id=row.id,
        seq=1,
        time=row.created_at,
        kind="submitted" if origin is None else f"submitted-{origin.kind}",
        attempt=1,
        from_phase="",
        to_phase="queued",
        ignored=False,
        data={name: value for name, value in data.items() if value is not None},
    )


def _audited(request: Request, row: JobRow, origin: Origin | None) -> AuditEntry:
    data = {"experiment": row.experiment} | ({"origin": origin.job_id, "owner": row.owner} if origin else {})
    action = "submit" if origin is None else origin.kind
    return AuditEntry(request.principal.username, f"job.{action}", row.id, request.address, data)


def _idempotency(principal: Principal, key: str, digest: str, row: JobRow) -> IdempotencyRow:
    return IdempotencyRow(
        owner_id=principal.user_id, key=key, request_digest=digest, job_id=row.id, created_at=row.created_at
    )
