"""What people do with a job besides looking and cancelling: pause, resume, retry, approve, reject.

What does not fit the job's phase is refused with the phase named, and changes nothing. A run that is over stays as it is: to
resume or retry it makes a new run of the same JobSpec, which goes through admission like any other.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.domain.phases import Phase
from tuneplane_server.domain.transitions import Change, Event
from tuneplane_server.features.accounts.principal import SCOPES, Principal
from tuneplane_server.features.audit.service import AuditEntry, AuditService
from tuneplane_server.features.jobs import misfits, repo
from tuneplane_server.features.jobs.ledger import Also, Ledger
from tuneplane_server.features.jobs.resume_points import ResumePoints
from tuneplane_server.features.jobs.service import JobService
from tuneplane_server.features.jobs.submission import Origin, Request, Submissions
from tuneplane_server.features.jobs.tables import JobRow
from tuneplane_server.web.problems import ProblemError


@dataclass(frozen=True)
class Asked:
    """Who asks for runs that may follow (retry, resume, a sweep), and with what; as for a submission."""

    principal: Principal
    key: str | None
    ingest_address: str
    address: str = ""


class JobSteering:
    def __init__(
        self, jobs: JobService, ledger: Ledger, submissions: Submissions, points: ResumePoints, audit: AuditService
    ) -> None:
        self._jobs, self._ledger, self._submissions = jobs, ledger, submissions
        self._points, self._audit = points, audit

    # --- pause and resume -----------------------------------------------------------------------------------------

    async def pause(self, principal: Principal, job_id: str, *, address: str = "") -> JobRow:
        """Hold a queued job back, or stop a live one with its grace so that it waits. Repeating it changes nothing."""
        row = await self._jobs.get(principal, job_id)
        _raise(misfits.of_pause(row))
        if not row.paused:
            row = await self._apply(principal, row, Event.PAUSE, address)
            _raise(misfits.of_pause(row))  # it ended, or was cancelled, between our look and our write
        return row

    async def resume(self, asked: Asked, job_id: str, *, step: int | None = None) -> JobRow:
        """Let a paused job go on, or make the run that goes on from one that is over: the row's id tells which.

        `step`: start from that checkpoint, not from the newest. Raises `checkpoint-missing`, `checkpoint-incomplete`.
        """
        row = await self._jobs.get(asked.principal, job_id)
        if not Phase(row.phase).terminal:
            return await self._go_on(asked, row, step)
        start = await self._points.choose(row, step)
        origin = Origin(row.id, "resume", str(start.path), step)
        return await self._submissions.submit(request_of(asked, row), row.spec, origin)

    async def _go_on(self, asked: Asked, row: JobRow, step: int | None) -> JobRow:
        _raise(misfits.of_resume(row))
        also: Also | None = None
        data: dict[str, str] = {}
        if step is not None:
            _raise(misfits.of_choice(row))
            chosen = str((await self._points.choose(row, step)).path)
            data = {"resume_from": chosen}

            async def also(session: AsyncSession, job: JobRow) -> None:
                await repo.write_attempt(session, job.id, job.attempt, {"resume_from": chosen})

        else:
            await self._points.check_start(row)
        row = await self._apply(asked.principal, row, Event.RESUME, asked.address, data, also)
        if Phase(row.phase).terminal:
            _raise(misfits.of_resume(row))
        return row

    # --- retry ----------------------------------------------------------------------------------------------------

    async def retry(self, asked: Asked, job_id: str) -> JobRow:
        """A new run of the same JobSpec from scratch. Raises `conflict` while the job is not over."""
        row = await self._jobs.get(asked.principal, job_id)
        _raise(misfits.of_retry(row))
        return await self._submissions.submit(request_of(asked, row), row.spec, Origin(row.id, "retry"))

    # --- approval -------------------------------------------------------------------------------------------------

    async def approve(self, principal: Principal, job_id: str, *, address: str = "") -> JobRow:
        """Let a job run that waits for it; for administrators."""
        row = await self._jobs.get(principal, job_id)
        _raise(misfits.of_approval(row))
        return await self._apply(principal, row, Event.APPROVE, address)

    async def reject(self, principal: Principal, job_id: str, why: str, *, address: str = "") -> JobRow:
        """End a job that waits for approval; its owner reads `why`."""
        row = await self._jobs.get(principal, job_id)
        _raise(misfits.of_approval(row))
        return await self._apply(principal, row, Event.REJECT, address, {"why": why})

    # --- shared ---------------------------------------------------------------------------------------------------

    async def _apply(
        self,
        principal: Principal,
        row: JobRow,
        event: Event,
        address: str,
        data: dict[str, str] | None = None,
        also: Also | None = None,
    ) -> JobRow:
        """The event and its line in the audit log, both or neither; the row as it is afterwards."""

        async def with_audit(session: AsyncSession, job: JobRow) -> None:
            if also is not None:
                await also(session, job)
            self._audit.record(
                session, AuditEntry(principal.username, f"job.{event}", job.id, address, {"attempt": job.attempt})
            )

        evidence = self._ledger.evidence(data={"actor": principal.username, **(data or {})})
        result = await self._ledger.apply(row.id, event, evidence, also=with_audit)
        now = await self._jobs.get(principal, row.id)
        if not isinstance(result, Change) and event in (Event.APPROVE, Event.REJECT):
            _raise(misfits.of_approval(now))  # somebody else was first
        return now


def request_of(asked: Asked, row: JobRow) -> Request:
    """The run that follows is the owner's, whoever asks for it: it stays in its project and counts against its quota."""
    owner = asked.principal
    if owner.user_id != row.owner_id:
        owner = Principal(row.owner_id, row.owner, False, frozenset(SCOPES))
    return Request(asked.principal, owner, asked.key, asked.ingest_address, asked.address)


def _raise(problem: ProblemError | None) -> None:
    if problem is not None:
        raise problem
