"""SQL of the newest values of chosen metrics over many runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.db.lists import among
from tuneplane_server.features.telemetry.tables import MetricSeriesRow


class Newest(NamedTuple):
    """Of one attempt's main rank. A value is None for NaN; `low` and `high` over all that are numbers."""

    job_id: str
    attempt: int
    name: str
    count: int
    step: int
    value: float | None
    low: float | None
    high: float | None


async def newest(session: AsyncSession, job_ids: Sequence[str], names: Sequence[str]) -> list[Newest]:
    """By attempt: the newest comes last."""
    row = MetricSeriesRow
    columns = (
        row.job_id, row.attempt, row.name, row.count, row.last_step, row.last_value, row.min_value, row.max_value,
    )  # fmt: skip
    if not names:
        return []
    some = among(session, row.job_id, job_ids)
    query = select(*columns).where(some, row.rank == 0, row.name.in_(names)).order_by(row.attempt)
    return [Newest(*values) for values in await session.execute(query)]
