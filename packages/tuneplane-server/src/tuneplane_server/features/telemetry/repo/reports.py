"""SQL of samples and events."""

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


async def samples(
    session: AsyncSession,
    job_id: str,
    *,
    limit: int,
    after: int | None = None,
    before: int | None = None,
    kind: str | None = None,
    step: int | None = None,
    attempt: int | None = None,
    rank: int | None = None,
    after_position: int | None = None,
) -> list[SampleRow]:
    """Samples with n > `after` ascending, or, with `before` (0: from the end), n < `before` descending."""
    query = select(SampleRow).where(SampleRow.job_id == job_id).limit(limit)
    if before is None:
        query = query.where(SampleRow.n > (after or 0)).order_by(SampleRow.n)
    else:
        query = query.order_by(SampleRow.n.desc())
        if before:
            query = query.where(SampleRow.n < before)
    for column, value in (
        (SampleRow.kind, kind),
        (SampleRow.step, step),
        (SampleRow.attempt, attempt),
        (SampleRow.rank, rank),
    ):
        if value is not None:
            query = query.where(column == value)
    if after_position is not None:
        query = query.where(SampleRow.position > after_position)
    return list(await session.scalars(query))


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
