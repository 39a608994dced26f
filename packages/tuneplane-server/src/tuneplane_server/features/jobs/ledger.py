"""The only writer of job rows: an event goes through `transition`, and its result, its record and what must happen with
it are one transaction. What is not allowed is recorded as an ignored event and changes nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.domain.phases import LIVE, JobState, Phase
from tuneplane_server.domain.transitions import Change, Event, Evidence, Ignored, Result, transition
from tuneplane_server.features.jobs import repo
from tuneplane_server.features.jobs.state import columns_of, reason_json, state_of
from tuneplane_server.features.jobs.tables import AttemptRow, JobEventRow, JobRow
from tuneplane_server.wakeups import Wakeups

type Also = Callable[[AsyncSession, JobRow], Awaitable[None]]


@dataclass(frozen=True)
class Stale:
    """The writer's lease is gone, or the job is at another attempt than the evidence is about: nothing was written."""


@dataclass(frozen=True)
class Guard:
    """What must still be true for a write of a role: the attempt its evidence is about, and that its lease is `held`."""

    attempt: int
    held: Callable[[AsyncSession], Awaitable[bool]] | None = None


STALE = Stale()
# Events after which there is something to stop or to clear away.
_REAPED = frozenset(
    {Event.ENDED, Event.CLEANED, Event.OVERDUE, Event.CANCEL, Event.PAUSE, Event.TIME_LIMIT, Event.POLICY_STOP}
)


class Ledger:
    def __init__(self, database: Database, clock: Clock, wakeups: Wakeups) -> None:
        self._database, self._clock, self._wakeups = database, clock, wakeups

    def evidence(self, **known: Any) -> Evidence:
        return Evidence(self._clock.now(), **known)

    async def apply(
        self, job_id: str, event: Event, evidence: Evidence, *, guard: Guard | None = None, also: Also | None = None
    ) -> Result | Stale:
        """Apply one event. `also` runs in the same transaction, only when the event changed the job."""
        async with self._database.begin() as session:
            result = await self.apply_in(session, job_id, event, evidence, guard=guard, also=also)
        if isinstance(result, Change):
            self._wake(job_id, result)
        return result

    async def apply_in(
        self,
        session: AsyncSession,
        job_id: str,
        event: Event,
        evidence: Evidence,
        *,
        guard: Guard | None = None,
        also: Also | None = None,
    ) -> Result | Stale:
        """`apply` inside a transaction of the caller's, who wakes nobody."""
        row = await repo.lock(session, job_id)
        if row is None or (guard is not None and not await _holds(session, row, guard)):
            return STALE
        before = state_of(row)
        result = transition(before, event, evidence)
        if isinstance(result, Change):
            await self._write(session, row, before, result, evidence)
            if also is not None:
                await also(session, row)
        elif isinstance(result, Ignored):
            await repo.write(session, row.id, row.version, {})
            session.add(_event_row(row, before, before, event, evidence, ignored=result.why))
        return result

    async def note(self, session: AsyncSession, job_id: str, kind: str, data: dict[str, Any]) -> None:
        """Record something about a job that changes nothing of its state, in a transaction of the caller's."""
        row = await repo.lock(session, job_id)
        if row is not None:
            job = state_of(row)
            session.add(
                JobEventRow(
                    job_id=row.id,
                    seq=row.version + 1,
                    time=self._clock.now(),
                    kind=kind,
                    attempt=job.attempt,
                    from_phase=str(job.phase),
                    to_phase=str(job.phase),
                    ignored=False,
                    data=data,
                )
            )
            await repo.write(session, row.id, row.version, {})

    async def adopt(self) -> int:
        """Record on every live job that a console has found it; nothing else of it changes. Returns how many there are.

        A few statements whatever their number: a console with hundreds of live jobs is back in seconds.
        """
        evidence = self.evidence()
        async with self._database.begin() as session:
            rows = await repo.lock_in_phases(session, [str(phase) for phase in LIVE])
            states = [(row, state_of(row)) for row in rows]
            found = [
                (row, job)
                for row, job in states
                if transition(job, Event.ADOPTED, evidence) == Change(job, Event.ADOPTED)
            ]
            session.add_all(_event_row(row, job, job, Event.ADOPTED, evidence, ignored=None) for row, job in found)
            await repo.raise_versions(session, [row.id for row, _job in found])
        return len(found)

    async def _write(
        self, session: AsyncSession, row: JobRow, before: JobState, change: Change, evidence: Evidence
    ) -> None:
        written = await repo.write(session, row.id, row.version, columns_of(change.state))
        assert written, "the row is locked"
        session.add(_event_row(row, before, change.state, change.event, evidence, ignored=None))
        await _write_attempt(session, row, before, change, evidence)

    def _wake(self, job_id: str, change: Change) -> None:
        self._wakeups.notify(f"job:{job_id}", "jobs")
        if change.state.phase is Phase.QUEUED or change.event is Event.CLEANED:
            self._wakeups.notify("placer")
        if change.event is Event.PLACED:
            self._wakeups.notify("launcher")
        if change.event in _REAPED:
            self._wakeups.notify("reaper")
        if change.event is Event.LAUNCHED:
            self._wakeups.notify("observer")


async def _holds(session: AsyncSession, row: JobRow, guard: Guard) -> bool:
    if row.attempt != guard.attempt:
        return False
    return guard.held is None or await guard.held(session)


def _event_row(
    row: JobRow, before: JobState, after: JobState, event: Event, evidence: Evidence, *, ignored: str | None
) -> JobEventRow:
    data = dict(evidence.data)
    if evidence.condition:
        data["condition"] = evidence.condition
    if evidence.verdict is not None:
        data |= {"verdict": str(evidence.verdict.phase), "reason": reason_json(evidence.verdict.reason)}
    if ignored is not None:
        data["ignored"] = ignored
    return JobEventRow(
        job_id=row.id,
        seq=row.version + 1,
        time=evidence.time,
        kind=str(event),
        attempt=after.attempt,
        from_phase=str(before.phase),
        to_phase=str(after.phase),
        ignored=ignored is not None,
        data=data,
    )


async def _write_attempt(
    session: AsyncSession, row: JobRow, before: JobState, change: Change, evidence: Evidence
) -> None:
    """The attempt's own row follows the job's phase until it ends; its verdict stays when a further attempt begins."""
    after = change.state
    if change.event in (Event.RETRIED, Event.PARKED):
        assert before.verdict is not None
        values = {"phase": str(before.verdict.phase), "reason": reason_json(before.verdict.reason)}
        await repo.write_attempt(session, row.id, before.attempt, values)
        session.add(
            AttemptRow(
                job_id=row.id,
                n=after.attempt,
                phase=str(after.phase),
                placement=[],
                created_at=evidence.time,
                resume_from=evidence.data.get("resume_from"),
            )
        )
        return
    values = {"phase": str(after.phase)}
    if after.phase.terminal and not before.phase.terminal:
        values["reason"] = reason_json(after.reason)
    if before.phase is Phase.STARTING and after.phase in (Phase.RUNNING, Phase.FINISHING):
        values["started_at"] = evidence.time
    if change.event in (Event.ENDED, Event.OVERDUE) or (after.phase.terminal and before.phase is Phase.QUEUED):
        values["finished_at"] = evidence.time
    await repo.write_attempt(session, row.id, after.attempt, values)
