"""SQL of what shows that runs live: many runs in a few statements."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import NamedTuple

from sqlalchemy import func, or_, select, tuple_
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.features.telemetry.tables import MetricSeriesRow, RunEventRow, RunTelemetryRow

LARGEST = sys.float_info.max  # what is larger is infinite
AT_ONCE = 500  # runs in one statement, below every database's limit of parameters


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
    found: list[Last] = []
    for some in _portions(job_ids):
        query = select(row.job_id, row.last_log_at, row.last_metric_at, row.last_sample_at, row.last_event_at)
        found += [Last(*values) for values in await session.execute(query.where(row.job_id.in_(some)))]
    return found


async def bad_losses(session: AsyncSession, job_ids: Sequence[str]) -> list[Loss]:
    """Of every attempt and rank: `loss` and what ends in `/loss`, where the last value is NaN or infinite."""
    row = MetricSeriesRow
    found: list[Loss] = []
    bad = or_(row.last_value.is_(None), row.last_value > LARGEST, row.last_value < -LARGEST)
    for some in _portions(job_ids):
        query = select(row.job_id, row.attempt, row.rank, row.name, row.count, row.last_step, row.last_value)
        named = or_(row.name == "loss", row.name.like("%/loss"))
        found += [Loss(*values) for values in await session.execute(query.where(row.job_id.in_(some), named, bad))]
    return found


async def newest_events(session: AsyncSession, job_ids: Sequence[str], name: str) -> list[RunEventRow]:
    """The newest event of that name of each run that has one."""
    row = RunEventRow
    found: list[RunEventRow] = []
    for some in _portions(job_ids):
        newest = select(row.job_id, func.max(row.n)).where(row.job_id.in_(some), row.event == name)
        query = select(row).where(tuple_(row.job_id, row.n).in_(newest.group_by(row.job_id)))
        found += await session.scalars(query)
    return found


def _portions(job_ids: Sequence[str]) -> Iterator[Sequence[str]]:
    for start in range(0, len(job_ids), AT_ONCE):
        yield job_ids[start : start + AT_ONCE]
