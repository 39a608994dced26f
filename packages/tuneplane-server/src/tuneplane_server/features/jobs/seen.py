"""How jobs are, in a few columns, for who waits for many of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.features.jobs.repo import JOBS_AT_ONCE
from tuneplane_server.features.jobs.tables import JobRow


class SeenJob(NamedTuple):
    id: str
    phase: str
    desired: str
    stop_cause: str | None
    attempt: int
    reason: dict[str, Any] | None
    finished_at: datetime | None


async def seen(session: AsyncSession, job_ids: Sequence[str]) -> Mapping[str, SeenJob]:
    """Those of the jobs that there are."""
    columns = [getattr(JobRow, name) for name in SeenJob._fields]
    found: dict[str, SeenJob] = {}
    for start in range(0, len(job_ids), JOBS_AT_ONCE):
        some = select(*columns).where(JobRow.id.in_(job_ids[start : start + JOBS_AT_ONCE]))
        found |= {row[0]: SeenJob(*row) for row in await session.execute(some)}
    return found
