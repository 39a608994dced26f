"""How roles read jobs and write events: every write is guarded by the role's lease and by the attempt it is about."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any

from tuneplane_server.background.leases import Lease, still_held
from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.domain.phases import StopCause, Verdict
from tuneplane_server.domain.transitions import Change, Event, Evidence
from tuneplane_server.features.jobs import repo
from tuneplane_server.features.jobs.known import KnownJobs
from tuneplane_server.features.jobs.ledger import Also, Guard, Ledger
from tuneplane_server.features.jobs.tables import AttemptRow, JobRow

HANDLER_FAILING = "handler-failing"


class RoleWriter:
    def __init__(self, database: Database, clock: Clock, ledger: Ledger) -> None:
        self._database, self._clock, self._ledger = database, clock, ledger
        self._to_watch = KnownJobs(database, repo.versions_to_watch)

    def now(self) -> datetime:
        return self._clock.now()

    async def jobs_to_launch(self) -> list[JobRow]:
        """Placed ones that are not launched, and those whose launch nobody saw the end of."""
        async with self._database.session() as session:
            return await repo.to_launch(session)

    async def jobs_to_watch(self) -> list[JobRow]:
        """Without their specs."""
        return await self._to_watch.look()

    async def jobs_to_reap(self) -> list[JobRow]:
        async with self._database.session() as session:
            return await repo.to_reap(session)

    async def job(self, job_id: str) -> JobRow | None:
        async with self._database.session() as session:
            return await repo.get(session, job_id)

    async def standings(self, job_ids: Sequence[str]) -> dict[str, repo.Standing]:
        """How far these jobs are; those that the ledger does not know are missing."""
        async with self._database.session() as session:
            return await repo.standings(session, job_ids)

    async def attempts(self, job_id: str) -> list[AttemptRow]:
        async with self._database.session() as session:
            return await repo.attempts(session, job_id)

    async def attempt(self, row: JobRow) -> AttemptRow:
        """The job's current attempt."""
        return next(item for item in await self.attempts(row.id) if item.n == row.attempt)

    async def attempts_to_hash(self, limit: int) -> list[AttemptRow]:
        async with self._database.session() as session:
            return await repo.unhashed(session, limit)

    async def write_attempt(self, row: JobRow, values: dict[str, Any]) -> None:
        """Note what was done for the job's current attempt."""
        await self.write_attempt_of(row.id, row.attempt, values)

    async def write_attempt_of(self, job_id: str, attempt: int, values: dict[str, Any]) -> None:
        async with self._database.begin() as session:
            await repo.write_attempt(session, job_id, attempt, values)

    async def apply(
        self,
        row: JobRow,
        lease: Lease,
        event: Event,
        *,
        verdict: Verdict | None = None,
        handle: dict[str, Any] | None = None,
        condition: str = "",
        data: dict[str, Any] | None = None,
        stop_cause: StopCause | None = None,
        not_before: datetime | None = None,
        also: Also | None = None,
    ) -> bool:
        """Apply an event about the attempt that `row` is at; True when it changed the job."""
        evidence = Evidence(self.now(), handle, verdict, condition, stop_cause, not_before, data or {})
        result = await self._ledger.apply(row.id, event, evidence, guard=guard_of(row, lease), also=also)
        return isinstance(result, Change)

    async def set_condition(self, row: JobRow, lease: Lease, condition: str, data: dict[str, Any]) -> None:
        if not has_condition(row, condition):
            await self.apply(row, lease, Event.CONDITION, condition=condition, data=data)

    async def clear_condition(self, row: JobRow, lease: Lease, condition: str) -> None:
        if has_condition(row, condition):
            await self.apply(row, lease, Event.CONDITION_CLEARED, condition=condition)

    async def show_failure(self, row: JobRow, lease: Lease, error: Exception) -> None:
        """The handler of this row raised: its readers see that the console has a problem with it."""
        await self.set_condition(row, lease, HANDLER_FAILING, {"error": type(error).__name__})

    async def show_works_again(self, row: JobRow, lease: Lease) -> None:
        await self.clear_condition(row, lease, HANDLER_FAILING)


def guard_of(row: JobRow, lease: Lease) -> Guard:
    return Guard(row.attempt, partial(still_held, lease=lease))


def condition_of(row: JobRow, condition: str) -> dict[str, Any] | None:
    """{type, since, data} of a condition that the row has."""
    return next((item for item in row.conditions if item["type"] == condition), None)


def has_condition(row: JobRow, condition: str) -> bool:
    return condition_of(row, condition) is not None
