"""What the queue reads of jobs: a few columns and never a spec, and only of those that have changed since the last look, so
that thousands of waiting jobs cost a tick little.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import ColumnElement, Select, String, and_, cast, func, or_, select, type_coerce
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.domain.line import Waiting
from tuneplane_server.domain.placement import PoolRequest
from tuneplane_server.features.jobs.tables import AttemptRow, JobRow

type _Known[T] = dict[str, tuple[int, T]]  # run -> its version, what was made of it

# Tables, not mapped classes: rows of the former cost half as much.
_JOBS: Any = JobRow.__table__.c
_ATTEMPTS: Any = AttemptRow.__table__.c
_IS_WAITING = _JOBS.phase == "queued"
_IS_LIVE = or_(_JOBS.phase.in_(("starting", "running", "finishing")), _JOBS.cleanup == "pending")
_IS_ACTIVE = _JOBS.phase.in_(("queued", "starting", "running", "finishing"))  # an index has all that is asked of these
_WAITING = select(
    _JOBS.version,
    _JOBS.id,
    _JOBS.attempt,
    _JOBS.owner_id,
    _JOBS.project_id,
    type_coerce(_JOBS.demand, String),
    _JOBS.priority,
    _JOBS.created_at,
    _JOBS.max_seconds,
    _JOBS.paused,
    _JOBS.approval,
    _JOBS.not_before,
).where(_IS_WAITING)
_LIVE = (
    select(
        _JOBS.version, _JOBS.id, _JOBS.attempt, _JOBS.owner, _JOBS.max_seconds, _JOBS.phase_since, _ATTEMPTS.started_at
    )
    .join(AttemptRow.__table__, and_(_ATTEMPTS.job_id == _JOBS.id, _ATTEMPTS.n == _JOBS.attempt))
    .where(_IS_LIVE)
)
ROWS_AT_ONCE = 250  # what one statement brings is worked on without a break
_NAMES = select(JobRow.id, JobRow.owner, JobRow.project, JobRow.experiment, JobRow.display_name)


@dataclass(frozen=True, slots=True)
class LiveAttempt:
    """An attempt that may hold something. `phase_since` is when it was placed as long as it has not started."""

    job_id: str
    attempt: int
    owner: str
    max_seconds: int | None
    phase_since: datetime
    started_at: datetime | None


@dataclass(frozen=True, slots=True)
class QueuedNames:
    job_id: str
    owner: str
    project: str
    experiment: str
    display_name: str | None


class QueueJobs:
    """Every job in the queue or out there, as it is now; remembers what it has read, by the `version` of the row."""

    def __init__(self) -> None:
        self._waiting: _Known[Waiting] = {}
        self._live: _Known[LiveAttempt] = {}

    async def waiting(self, session: AsyncSession) -> list[Waiting]:
        """Every queued job, in no order."""
        self._waiting = await _read(session, self._waiting, _IS_WAITING, _WAITING, _waiting_of)
        return [job for _version, job in self._waiting.values()]

    async def live(self, session: AsyncSession) -> list[LiveAttempt]:
        """Every attempt that is out there, or was and is not proved gone."""
        self._live = await _read(session, self._live, _IS_LIVE, _LIVE, lambda values: LiveAttempt(*values))
        return [attempt for _version, attempt in self._live.values()]


async def mark(session: AsyncSession) -> tuple[object, ...]:
    """Another one whenever a job that is queued or out there has changed, has come to be so or has ceased to be. The database
    makes it of thousands of rows and their versions, so that who looks whether there is anything new reads none of them.
    """
    version = _JOBS.id + ":" + cast(_JOBS.version, String)
    if session.get_bind().dialect.name == "sqlite":
        of_all: ColumnElement[Any] = func.group_concat(version)
    else:  # in any order, and short
        of_all = func.sum(func.hashtextextended(version, 0))
    parts = (select(of_all).where(wanted).scalar_subquery() for wanted in (_IS_ACTIVE, _JOBS.cleanup == "pending"))
    return tuple((await session.execute(select(*parts))).one())


async def _read[T](
    session: AsyncSession,
    known: _Known[T],
    wanted: ColumnElement[bool],
    rows: Select[Any],
    make: Callable[[Sequence[Any]], T],
) -> _Known[T]:
    """`known` as of now: what is wanted at the version it has now. `rows`: the version, the id, and what `make` takes after the version."""
    now: _Known[T] = {}
    missing: list[str] = []
    for job_id, version in await session.execute(select(_JOBS.id, _JOBS.version).where(wanted)):
        found = known.get(job_id)
        if found is not None and found[0] == version:
            now[job_id] = found
        else:
            missing.append(job_id)
    for start in range(0, len(missing), ROWS_AT_ONCE):
        some = rows.where(_JOBS.id.in_(missing[start : start + ROWS_AT_ONCE]))
        for version, *values in await session.execute(some):
            now[values[0]] = (version, make(values))
    return now


def _waiting_of(values: Sequence[Any]) -> Waiting:
    job_id, attempt, owner_id, project_id, demand, priority, created_at, max_seconds, paused, approval, not_before = (
        values
    )
    held_back = "paused" if paused else "awaiting-approval" if approval == "pending" else None
    pools = pools_of(demand)
    return Waiting(
        job_id, attempt, owner_id, project_id, pools, priority, created_at, max_seconds, held_back, not_before
    )


async def names(session: AsyncSession, job_ids: Sequence[str]) -> dict[str, QueuedNames]:
    """Whose these jobs are, and what they are called."""
    return {row[0]: QueuedNames(*row) for row in await session.execute(_NAMES.where(JobRow.id.in_(job_ids)))}


@lru_cache(maxsize=4096)
def pools_of(demand: str) -> tuple[PoolRequest, ...]:
    """`JobRow.demand` as it is stored. Most jobs ask for one of a few shapes, and equal ones share an object."""
    return tuple(PoolRequest(**pool) for pool in json.loads(demand))
