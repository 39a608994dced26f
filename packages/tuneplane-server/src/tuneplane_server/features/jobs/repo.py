"""SQL of the ledger. `readable` is in every query that answers a person: a user sees only own jobs."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Select, String, and_, func, or_, select, true, type_coerce, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import defer

from tuneplane.contract.words import TERMINAL_PHASES
from tuneplane_server.db.guards import changed_one
from tuneplane_server.db.lists import among
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.jobs.query import JobQuery
from tuneplane_server.features.jobs.tables import AttemptRow, IdempotencyRow, JobEventRow, JobRow

JOBS_AT_ONCE = 500  # in one statement, below every database's limit of parameters
QUEUE_LOCK = 728_641  # first half of the key of advisory locks by owner
SEARCHED_FIRST, SEARCHED_TIMES = 4_000, 4  # rows that a text is looked for in, and how many times more the next time
ROWS_AT_ONCE = 100  # made of what one statement brought: others get their turn before the next ones
_LIVE = ("starting", "running", "finishing")
# A spec may be large, and of many jobs at once nobody needs it; whoever reads it all the same learns so from an exception.
_NO_SPEC = defer(JobRow.spec, raiseload=True)


def readable(principal: Principal) -> ColumnElement[bool]:
    return true() if principal.acts_as_admin else JobRow.owner_id == principal.user_id


async def get_readable(session: AsyncSession, principal: Principal, job_id: str) -> JobRow | None:
    return await session.scalar(select(JobRow).where(JobRow.id == job_id, readable(principal)))


async def list_readable(
    session: AsyncSession, principal: Principal, query: JobQuery, *, before: str | None, limit: int
) -> list[JobRow]:
    """Newest first; ids sort by time. Without their specs."""
    return list(
        await session.scalars(_listing(select(JobRow).options(_NO_SPEC), principal, query, before).limit(limit))
    )


async def page_readable(
    session: AsyncSession, principal: Principal, query: JobQuery, *, before: str | None, limit: int
) -> list[tuple[JobRow, str]]:
    """As `list_readable`, each with its JobSpec as it is stored, of which a listing shows a part."""
    statement = select(JobRow, type_coerce(JobRow.spec, String)).options(_NO_SPEC)
    found: list[Any] = []
    async for oldest, newest in _windows(session, principal, query, before):
        some = _listing(statement, principal, query, newest)
        if oldest is not None:
            some = some.where(JobRow.id >= oldest)
        found += await session.execute(some.limit(limit - len(found)))
        if len(found) == limit:
            break
    return [(row, spec) for row, spec in found]


async def _windows(
    session: AsyncSession, principal: Principal, query: JobQuery, before: str | None
) -> AsyncIterator[tuple[str | None, str | None]]:
    """(from this id, up to and without that one), newest first: where to look for a page. More than one only for a text on Postgres,
    which takes any text for a rare one: it reads and sorts every row of the table for a page that its newest rows would fill.
    """
    if not query.text or session.get_bind().dialect.name == "sqlite":
        yield None, before
        return
    rest, size = replace(query, text=None), SEARCHED_FIRST
    while True:
        last = _listing(select(JobRow.id), principal, rest, before).offset(size - 1).limit(1)
        oldest = await session.scalar(last)
        yield oldest, before
        if oldest is None:
            return
        before, size = oldest, size * SEARCHED_TIMES


async def followers(session: AsyncSession, principal: Principal, job_id: str) -> list[JobRow]:
    statement = select(JobRow).where(readable(principal), JobRow.origin_id == job_id)
    return list(await session.scalars(statement.order_by(JobRow.id)))


async def to_follow_up(session: AsyncSession, since: datetime, kind: str, limit: int) -> Sequence[tuple[str, datetime]]:
    """(run, when it ended) of those that have succeeded since, name steps for that and bear no event of `kind`; the oldest first."""
    noted = select(JobEventRow.job_id).where(JobEventRow.job_id == JobRow.id, JobEventRow.kind == kind).exists()
    query = select(JobRow.id, JobRow.finished_at).where(
        JobRow.finished_at >= since,
        JobRow.phase == "succeeded",
        type_coerce(JobRow.spec, String).contains('"lifecycle":{"on_success":[{', autoescape=True),
        ~noted,
    )
    rows = await session.execute(query.order_by(JobRow.finished_at).limit(limit))
    return [(job_id, ended) for job_id, ended in rows if ended is not None]


async def count_readable(session: AsyncSession, principal: Principal, query: JobQuery) -> dict[str, int]:
    """Phase -> count, whatever phases the query names."""
    statement = select(JobRow.phase, func.count()).where(readable(principal), *_matching(query)).group_by(JobRow.phase)
    return dict((await session.execute(statement)).all())


def ids_of(*, owner_id: str | None = None, project_id: str | None = None) -> Select[str]:
    """Ids of a user's or a project's runs, as a subquery for what counts by run."""
    wanted = [
        column == value
        for column, value in ((JobRow.owner_id, owner_id), (JobRow.project_id, project_id))
        if value is not None
    ]
    return select(JobRow.id).where(*wanted)


async def waiting_for_approval(
    session: AsyncSession, principal: Principal, *, after: str | None, limit: int
) -> list[JobRow]:
    """The oldest first."""
    statement = select(JobRow).where(
        readable(principal), JobRow.phase == "queued", JobRow.approval == "pending", JobRow.desired == "run"
    )
    if after is not None:
        statement = statement.where(JobRow.id > after)
    return list(await session.scalars(statement.order_by(JobRow.id).limit(limit)))


async def ended(session: AsyncSession, project_id: str) -> Sequence[tuple[str, datetime]]:
    query = select(JobRow.id, JobRow.finished_at).where(
        JobRow.project_id == project_id,
        JobRow.phase.in_(TERMINAL_PHASES),
        JobRow.cleanup != "pending",
        JobRow.finished_at.is_not(None),
    )
    rows = await session.execute(query.order_by(JobRow.finished_at, JobRow.id))
    return [(job_id, finished_at) for job_id, finished_at in rows if finished_at is not None]


async def count_queued(session: AsyncSession, ids: Select[str]) -> int:
    return await session.scalar(select(func.count()).where(JobRow.id.in_(ids), JobRow.phase == "queued")) or 0


async def lock_queue_of(session: AsyncSession, owner_id: str) -> None:
    """Of several submissions of a user, one after the other; until the transaction ends. SQLite has one writer anyway."""
    if session.get_bind().dialect.name != "sqlite":
        await session.execute(select(func.pg_advisory_xact_lock(QUEUE_LOCK, func.hashtext(owner_id))))


async def count_all(session: AsyncSession) -> dict[str, int]:
    statement = select(JobRow.phase, func.count()).group_by(JobRow.phase)
    return dict((await session.execute(statement)).all())


def _listing[*Columns](
    statement: Select[*Columns], principal: Principal, query: JobQuery, before: str | None
) -> Select[*Columns]:
    statement = statement.where(readable(principal), *_matching(query))
    if query.phases:
        statement = statement.where(JobRow.phase.in_(query.phases))
    if before is not None:
        statement = statement.where(JobRow.id < before)
    return statement.order_by(JobRow.id.desc())


def _matching(query: JobQuery) -> list[ColumnElement[bool]]:
    filters = {JobRow.owner: query.owner, JobRow.project: query.project, JobRow.experiment: query.experiment}
    conditions: list[ColumnElement[bool]] = [column == value for column, value in filters.items() if value is not None]
    if query.text:
        columns = (JobRow.id, JobRow.experiment, JobRow.display_name, JobRow.project, JobRow.recipe)
        conditions.append(or_(*(column.icontains(query.text, autoescape=True) for column in columns)))
    return conditions


async def get(session: AsyncSession, job_id: str) -> JobRow | None:
    return await session.get(JobRow, job_id)


class Standing(NamedTuple):
    """How far a job is; `launched`: its attempt has a handle."""

    attempt: int
    phase: str
    cleanup: str
    launched: bool


async def standings(session: AsyncSession, job_ids: Sequence[str]) -> dict[str, Standing]:
    query = select(JobRow.id, JobRow.attempt, JobRow.phase, JobRow.cleanup, JobRow.handle.is_not(None))
    rows = await session.execute(query.where(among(session, JobRow.id, job_ids)))
    return {job_id: Standing(attempt, phase, cleanup, launched) for job_id, attempt, phase, cleanup, launched in rows}


async def desired(session: AsyncSession, job_ids: Sequence[str]) -> dict[tuple[str, int], str]:
    """(job, its current attempt) -> what is desired of it, of those that nothing is to stop."""
    query = select(JobRow.id, JobRow.attempt, JobRow.desired).where(JobRow.id.in_(job_ids), JobRow.stop_cause.is_(None))
    return {(job_id, attempt): wish for job_id, attempt, wish in await session.execute(query)}


async def lock(session: AsyncSession, job_id: str) -> JobRow | None:
    """The row, locked until the transaction ends (SQLite's one writer is the lock there)."""
    return await session.get(JobRow, job_id, with_for_update=True, populate_existing=True)


async def write(session: AsyncSession, job_id: str, version: int, values: dict[str, Any]) -> bool:
    """Change the row if it is still at `version`; the version goes up by one."""
    guarded = update(JobRow).where(JobRow.id == job_id, JobRow.version == version)
    return await changed_one(session, guarded.values({**values, "version": version + 1}))


async def lock_in_phases(session: AsyncSession, phases: Sequence[str]) -> list[JobRow]:
    """As `lock`, for all jobs in these phases; in the order of their ids, so that two who do it wait for each other."""
    query = select(JobRow).where(JobRow.phase.in_(phases)).order_by(JobRow.id).with_for_update()
    return list(await session.scalars(query.execution_options(populate_existing=True)))


async def raise_versions(session: AsyncSession, job_ids: Sequence[str]) -> None:
    """Of locked rows to which an event is recorded that changes no other column."""
    for start in range(0, len(job_ids), JOBS_AT_ONCE):
        some = update(JobRow).where(JobRow.id.in_(job_ids[start : start + JOBS_AT_ONCE]))
        await session.execute(some.values(version=JobRow.version + 1).execution_options(synchronize_session=False))


async def attempts(session: AsyncSession, job_id: str) -> list[AttemptRow]:
    return list(await session.scalars(select(AttemptRow).where(AttemptRow.job_id == job_id).order_by(AttemptRow.n)))


async def attempts_of(session: AsyncSession, job_ids: Sequence[str]) -> dict[str, list[AttemptRow]]:
    found: dict[str, list[AttemptRow]] = {job_id: [] for job_id in job_ids}
    query = select(AttemptRow).where(AttemptRow.job_id.in_(job_ids)).order_by(AttemptRow.job_id, AttemptRow.n)
    for row in await session.scalars(query):
        found[row.job_id].append(row)
    return found


class BriefAttempt(NamedTuple):
    """What a listing shows of an attempt; the names are those of `AttemptRow`."""

    job_id: str
    n: int
    phase: str
    reason: dict[str, Any] | None
    resume_from: str | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


# The table, not the mapped class: its rows cost half as much, and of a listing there are many.
_ATTEMPTS: Any = AttemptRow.__table__.c
_BRIEF = select(*(_ATTEMPTS[name] for name in BriefAttempt._fields)).order_by(_ATTEMPTS.job_id, _ATTEMPTS.n)


async def brief_attempts_of(session: AsyncSession, job_ids: Sequence[str]) -> dict[str, list[BriefAttempt]]:
    found: dict[str, list[BriefAttempt]] = {job_id: [] for job_id in job_ids}
    for row in await session.execute(_BRIEF.where(_ATTEMPTS.job_id.in_(job_ids))):
        found[row[0]].append(BriefAttempt(*row))
    return found


async def specs_as_text(session: AsyncSession, job_ids: Sequence[str]) -> Sequence[tuple[str, Any]]:
    """(id, JobSpec as it is stored)."""
    query = select(JobRow.id, type_coerce(JobRow.spec, String)).where(JobRow.id.in_(job_ids))
    return [(job_id, text) for job_id, text in await session.execute(query)]


async def write_attempt(session: AsyncSession, job_id: str, n: int, values: dict[str, Any]) -> None:
    await session.execute(update(AttemptRow).where(AttemptRow.job_id == job_id, AttemptRow.n == n).values(values))


async def events(session: AsyncSession, job_id: str, after: int, limit: int) -> list[JobEventRow]:
    query = select(JobEventRow).where(JobEventRow.job_id == job_id, JobEventRow.seq > after)
    return list(await session.scalars(query.order_by(JobEventRow.seq).limit(limit)))


async def times_of(session: AsyncSession, job_id: str, kind: str) -> Sequence[datetime]:
    """When events of this kind changed the job, in order."""
    query = select(JobEventRow.time).where(
        JobEventRow.job_id == job_id, JobEventRow.kind == kind, JobEventRow.ignored.is_(False)
    )
    return (await session.scalars(query.order_by(JobEventRow.seq))).all()


async def idempotent(session: AsyncSession, owner_id: str, key: str) -> IdempotencyRow | None:
    return await session.get(IdempotencyRow, (owner_id, key))


# --- what the roles look for ------------------------------------------------------------------------------------------


async def live_versions(session: AsyncSession) -> Sequence[tuple[str, int]]:
    """(id, version) of the jobs that are neither queued nor over."""
    query = select(JobRow.id, JobRow.version).where(JobRow.phase.in_(_LIVE)).order_by(JobRow.id)
    return [(job_id, version) for job_id, version in await session.execute(query)]


async def versions_to_watch(session: AsyncSession) -> Sequence[tuple[str, int]]:
    """(id, version) of the jobs that are launched and not known to have ended: what the observer looks at."""
    query = select(JobRow.id, JobRow.version).where(
        JobRow.phase.in_(_LIVE), JobRow.cleanup == "none", JobRow.handle.is_not(None)
    )
    return [(job_id, version) for job_id, version in await session.execute(query.order_by(JobRow.id))]


async def without_specs(session: AsyncSession, job_ids: Sequence[str]) -> AsyncIterator[JobRow]:
    """These rows, in no order; `spec` is not there to be read."""
    for start in range(0, len(job_ids), ROWS_AT_ONCE):
        some = select(JobRow).options(_NO_SPEC).where(JobRow.id.in_(job_ids[start : start + ROWS_AT_ONCE]))
        for row in await session.scalars(some):
            yield row


async def to_launch(session: AsyncSession) -> list[JobRow]:
    """Starting without a handle: its launch has not begun, or nobody saw the end of it."""
    query = select(JobRow).where(JobRow.phase == "starting", JobRow.handle.is_(None), JobRow.cleanup == "none")
    return list(await session.scalars(query.order_by(JobRow.phase_since, JobRow.id)))


async def to_reap(session: AsyncSession) -> list[JobRow]:
    """What is to be stopped, cleaned up, settled or tried again."""
    stopping = and_(JobRow.stop_cause.is_not(None), JobRow.cleanup == "none", JobRow.phase.not_in(TERMINAL_PHASES))
    ended = and_(JobRow.phase == "finishing", JobRow.cleanup == "confirmed")
    query = select(JobRow).where(or_(stopping, JobRow.cleanup == "pending", ended))
    return list(await session.scalars(query.order_by(JobRow.id)))


async def unhashed(session: AsyncSession, limit: int) -> list[AttemptRow]:
    """Attempts whose artifacts wait to be hashed, of jobs whose cards are free."""
    query = (
        select(AttemptRow)
        .join(JobRow, JobRow.id == AttemptRow.job_id)
        .where(AttemptRow.finished_at.is_not(None), AttemptRow.hashed_at.is_(None))
        .where(or_(JobRow.attempt > AttemptRow.n, JobRow.cleanup != "pending"))
        .order_by(AttemptRow.finished_at)
        .limit(limit)
    )
    return list(await session.scalars(query))
