"""SQL that removes telemetry of runs that are over, a bounded number of rows at a time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, bindparam, delete, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.features.telemetry.tables import (
    LogChunkRow,
    MetricBlockRow,
    MetricChunkRow,
    MetricSeriesRow,
    RunTelemetryRow,
    SampleRow,
)

ROWS = 100  # of at most some 128 KiB each
SERIES_AT_ONCE = 50


async def held(session: AsyncSession, job_ids: Iterable[str]) -> list[tuple[str, int, int, int]]:
    """(run, bytes of output, bytes of samples, series) of those runs that have any."""
    run = RunTelemetryRow
    query = select(run.job_id, run.log_bytes, run.sample_bytes, run.series_count).where(
        run.job_id.in_(list(job_ids)), (run.log_bytes > 0) | (run.sample_bytes > 0) | (run.series_count > 0)
    )
    return [(row[0], row[1], row[2], row[3]) for row in await session.execute(query)]


def some_logs(connection: Connection, job_id: str) -> bool:
    """False when nothing is left; the run's figure of stored bytes is zero then."""
    if _some(connection, LogChunkRow, ("job_id", "attempt", "rank", "seq_first", "fd"), LogChunkRow.job_id == job_id):
        return True
    _settle(connection, job_id, log_bytes=0)
    return False


def some_samples(connection: Connection, job_id: str) -> bool:
    """As of logs."""
    if _some(connection, SampleRow, ("job_id", "n"), SampleRow.job_id == job_id):
        return True
    _settle(connection, job_id, sample_bytes=0)
    return False


def some_metrics(connection: Connection, job_id: str) -> bool:
    """As of logs: points first, then the series that have none."""
    of_run = select(MetricSeriesRow.id).where(MetricSeriesRow.job_id == job_id).limit(SERIES_AT_ONCE)
    series = list(connection.scalars(of_run))
    if not series:
        _settle(connection, job_id, series_count=0)
        return False
    for table, key in ((MetricBlockRow, ("series_id", "block")), (MetricChunkRow, ("series_id", "position", "part"))):
        if _some(connection, table, key, table.series_id.in_(series)):
            return True
    connection.execute(delete(MetricSeriesRow).where(MetricSeriesRow.id.in_(series)))
    return True


def _some(connection: Connection, table: Any, key: tuple[str, ...], which: Any) -> bool:
    """Delete up to `ROWS` rows; True when that many were there, so there may be more."""
    columns = [getattr(table, name) for name in key]
    rows = connection.execute(select(*columns).where(which).limit(ROWS)).all()
    if rows:
        by_key = [column == bindparam(f"key_{name}") for name, column in zip(key, columns, strict=True)]
        keys = [{f"key_{name}": value for name, value in zip(key, row, strict=True)} for row in rows]
        connection.execute(delete(table).where(*by_key), keys)
    return len(rows) == ROWS


def _settle(connection: Connection, job_id: str, **values: int) -> None:
    connection.execute(update(RunTelemetryRow).where(RunTelemetryRow.job_id == job_id).values(values))
