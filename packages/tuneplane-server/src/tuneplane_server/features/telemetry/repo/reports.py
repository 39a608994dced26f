"""SQL of events, and what writes samples; reading those is `samples`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, insert, select
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.features.telemetry.tables import RunEventRow, SampleRow

SAMPLES: Any = SampleRow.__table__
EVENTS: Any = RunEventRow.__table__


def add_samples(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """`rows`: the columns of `samples`."""
    connection.execute(insert(SAMPLES), rows)


def add_events(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """`rows`: the columns of `run_events`."""
    connection.execute(insert(EVENTS), rows)


async def events(
    session: AsyncSession, job_id: str, *, names: Sequence[str], attempt: int | None = None, limit: int = 100
) -> list[RunEventRow]:
    """The newest events of these names, newest first."""
    query = (
        select(RunEventRow)
        .where(RunEventRow.job_id == job_id, RunEventRow.event.in_(names))
        .order_by(RunEventRow.n.desc())
        .limit(limit)
    )
    if attempt is not None:
        query = query.where(RunEventRow.attempt == attempt)
    return list(await session.scalars(query))
