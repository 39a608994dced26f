"""Which runs have ended lately, for who tells people: a few columns by their own index, whatever the number of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.domain.phases import TERMINAL
from tuneplane_server.features.jobs.tables import JobRow


class EndedJob(NamedTuple):
    id: str
    owner_id: str
    owner: str
    project_id: str
    project: str
    experiment: str
    display_name: str | None
    phase: str
    reason: dict[str, Any] | None
    finished_at: datetime


async def ended_since(session: AsyncSession, since: datetime, limit: int) -> Sequence[EndedJob]:
    """The newest first."""
    columns = [getattr(JobRow, name) for name in EndedJob._fields]
    query = select(*columns).where(JobRow.finished_at >= since, JobRow.phase.in_([str(phase) for phase in TERMINAL]))
    rows = await session.execute(query.order_by(JobRow.finished_at.desc()).limit(limit))
    return [EndedJob(*row) for row in rows]
