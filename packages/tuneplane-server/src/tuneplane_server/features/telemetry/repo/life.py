"""SQL of what shows that runs live: many runs in a few statements."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import func, or_, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.db.lists import among
from tuneplane_server.features.telemetry.tables import MetricSeriesRow, RunEventRow, RunTelemetryRow

LARGEST = sys.float_info.max  # what is larger is infinite


class Last(NamedTuple):
    """When something of a kind came last, on the console's clock."""

    job_id: str
    log: datetime | None
    metric: datetime | None
    sample: datetime | None
    event: datetime | None


class Loss(NamedTuple):
    """The newest point of a loss. `value` None stands for NaN, as in the table; `count`: its points so far."""

    job_id: str
    attempt: int
    rank: int
    name: str
    count: int
    last_step: int
    value: float | None


async def last(session: AsyncSession, job_ids: Sequence[str]) -> list[Last]:
    row = RunTelemetryRow
    query = select(row.job_id, row.last_log_at, row.last_metric_at, row.last_sample_at, row.last_event_at)
    rows = await session.execute(query.where(among(session, row.job_id, job_ids)))
    return [Last(*values) for values in rows]


async def bad_losses(session: AsyncSession, job_ids: Sequence[str]) -> list[Loss]:
    """Of every attempt and rank: `loss` and what ends in `/loss`, where the last value is NaN or infinite."""
    row = MetricSeriesRow
    bad = or_(row.last_value.is_(None), row.last_value > LARGEST, row.last_value < -LARGEST)
    named = or_(row.name == "loss", row.name.like("%/loss"))
    query = select(row.job_id, row.attempt, row.rank, row.name, row.count, row.last_step, row.last_value)
    rows = await session.execute(query.where(among(session, row.job_id, job_ids), named, bad))
    return [Loss(*values) for values in rows]


async def newest_events(session: AsyncSession, job_ids: Sequence[str], name: str) -> list[RunEventRow]:
    """The newest event of that name of each run that has one."""
    row = RunEventRow
    newest = select(row.job_id, func.max(row.n)).where(among(session, row.job_id, job_ids), row.event == name)
    query = select(row).where(tuple_(row.job_id, row.n).in_(newest.group_by(row.job_id)))
    return list(await session.scalars(query))
