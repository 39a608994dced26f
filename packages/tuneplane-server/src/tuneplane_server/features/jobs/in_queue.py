"""What the queue reads of jobs: a few columns and never a spec, so that thousands of waiting jobs cost a tick little."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any

from sqlalchemy import String, and_, or_, select, type_coerce
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.domain.placement import PoolRequest
from tuneplane_server.domain.queue import Waiting
from tuneplane_server.features.jobs.tables import AttemptRow, JobRow

# Tables, not mapped classes: rows of the former cost half as much.
_JOBS: Any = JobRow.__table__.c
_ATTEMPTS: Any = AttemptRow.__table__.c
_WAITING = select(
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
).where(_JOBS.phase == "queued")
_LIVE = (
    select(_JOBS.id, _JOBS.attempt, _JOBS.owner, _JOBS.max_seconds, _JOBS.phase_since, _ATTEMPTS.started_at)
    .join(AttemptRow.__table__, and_(_ATTEMPTS.job_id == _JOBS.id, _ATTEMPTS.n == _JOBS.attempt))
    .where(or_(_JOBS.phase.in_(("starting", "running", "finishing")), _JOBS.cleanup == "pending"))
)
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


async def waiting(session: AsyncSession) -> list[Waiting]:
    """Every queued job, in no order."""
    return [
        Waiting(
            job_id,
            attempt,
            owner_id,
            project_id,
            pools_of(demand),
            priority,
            created_at,
            max_seconds,
            "paused" if paused else "awaiting-approval" if approval == "pending" else None,
            not_before,
        )
        for (
            job_id, attempt, owner_id, project_id, demand, priority, created_at, max_seconds, paused, approval, not_before,
        ) in await session.execute(_WAITING)
    ]  # fmt: skip


async def live(session: AsyncSession) -> list[LiveAttempt]:
    """Every attempt that is out there, or was and is not proved gone."""
    return [LiveAttempt(*row) for row in await session.execute(_LIVE)]


async def names(session: AsyncSession, job_ids: Sequence[str]) -> dict[str, QueuedNames]:
    """Whose these jobs are, and what they are called."""
    return {row[0]: QueuedNames(*row) for row in await session.execute(_NAMES.where(JobRow.id.in_(job_ids)))}


@lru_cache(maxsize=4096)
def pools_of(demand: str) -> tuple[PoolRequest, ...]:
    """`JobRow.demand` as it is stored. Most jobs ask for one of a few shapes, and equal ones share an object."""
    return tuple(PoolRequest(**pool) for pool in json.loads(demand))
