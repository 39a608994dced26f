"""The run's row (lock, position, quotas) and the acknowledged seqs of its streams.

What writes takes a `Connection` inside a transaction (see `transactions`); what only reads takes a session.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Select, bindparam, delete, func, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.domain.acked import Acked, SeqRange
from tuneplane_server.features.telemetry import tables
from tuneplane_server.features.telemetry.tables import RunTelemetryRow, StreamAckRow

RUNS: Any = RunTelemetryRow.__table__
ACKS: Any = StreamAckRow.__table__

type StreamKey = tuple[int, str]
"""(rank, stream) of the attempt at hand."""


@dataclass(slots=True)
class Run:
    """A row of `run_telemetry`; see there."""

    job_id: str
    position: int = 0
    log_position: int = 0
    metric_position: int = 0
    sample_position: int = 0
    log_bytes: int = 0
    log_dropped_bytes: int = 0
    sample_count: int = 0
    sample_bytes: int = 0
    sample_dropped: int = 0
    event_count: int = 0
    series_count: int = 0
    refused_points: int = 0
    last_log_at: datetime | None = None
    last_metric_at: datetime | None = None
    last_sample_at: datetime | None = None
    last_event_at: datetime | None = None
    log_full_at: int | None = None


class StreamState:
    """Acknowledged seqs of one stream, and since when the hole in front of `acked.islands` is there."""

    __slots__ = ("acked", "gap_since")

    def __init__(self, acked: Acked = Acked(), gap_since: datetime | None = None) -> None:
        self.acked, self.gap_since = acked, gap_since


_COLUMNS = [RUNS.c[name] for name in Run.__slots__]
# SQLite has no FOR UPDATE and needs none: its write transactions are one after the other anyway.
_LOCK = select(*_COLUMNS).where(RUNS.c.job_id == bindparam("job")).with_for_update()
_SAVE = update(RUNS).where(RUNS.c.job_id == bindparam("job")).values({n: bindparam(n) for n in Run.__slots__[1:]})
_ACKS = select(ACKS.c.rank, ACKS.c.stream, ACKS.c.contiguous, ACKS.c.islands, ACKS.c.gap_since).where(
    ACKS.c.job_id == bindparam("job"),
    ACKS.c.attempt == bindparam("attempt"),
    ACKS.c.rank.in_(bindparam("ranks", expanding=True)),
)


def _upsert_ack(insert: Any) -> Any:
    new = insert.excluded
    return insert.on_conflict_do_update(
        index_elements=["job_id", "attempt", "rank", "stream"],
        set_={"contiguous": new.contiguous, "islands": new.islands, "gap_since": new.gap_since},
    )


_ADD = {
    "sqlite": sqlite.insert(RUNS).on_conflict_do_nothing(),
    "postgresql": postgresql.insert(RUNS).on_conflict_do_nothing(),
}
_SAVE_ACK = {"sqlite": _upsert_ack(sqlite.insert(ACKS)), "postgresql": _upsert_ack(postgresql.insert(ACKS))}


def lock(connection: Connection, job_id: str) -> Run:
    """The run's row, made when missing, locked until the transaction ends: batches of one run come one after the other."""
    found = connection.execute(_LOCK, {"job": job_id}).first()
    if found is None:
        connection.execute(_ADD[connection.dialect.name], asdict(Run(job_id)))
        found = connection.execute(_LOCK, {"job": job_id}).one()
    return Run(*found)


def save(connection: Connection, run: Run) -> None:
    connection.execute(_SAVE, {"job": run.job_id} | {name: getattr(run, name) for name in Run.__slots__[1:]})


def acks(connection: Connection, job_id: str, attempt: int, ranks: Iterable[int]) -> dict[StreamKey, StreamState]:
    """What is stored of every stream of these ranks."""
    rows = connection.execute(_ACKS, {"job": job_id, "attempt": attempt, "ranks": sorted(set(ranks))})
    return {
        (rank, stream): StreamState(Acked(contiguous, tuple(SeqRange(*island) for island in islands)), gap_since)
        for rank, stream, contiguous, islands, gap_since in rows
    }


def save_acks(connection: Connection, job_id: str, attempt: int, changed: dict[StreamKey, StreamState]) -> None:
    rows = [
        {
            "job_id": job_id,
            "attempt": attempt,
            "rank": rank,
            "stream": stream,
            "contiguous": state.acked.contiguous,
            "islands": state.acked.islands,
            "gap_since": state.gap_since,
        }
        for (rank, stream), state in sorted(changed.items())
    ]
    connection.execute(_SAVE_ACK[connection.dialect.name], rows)


def forget(connection: Connection, job_id: str) -> None:
    """Delete all telemetry of a run."""
    series = select(tables.MetricSeriesRow.id).where(tables.MetricSeriesRow.job_id == job_id)
    for points in (tables.MetricChunkRow, tables.MetricBlockRow):
        connection.execute(delete(points).where(points.series_id.in_(series)))
    for table in (
        tables.MetricSeriesRow,
        tables.LogChunkRow,
        tables.SampleRow,
        tables.RunEventRow,
        StreamAckRow,
        RunTelemetryRow,
    ):
        connection.execute(delete(table).where(table.job_id == job_id))


async def bytes_of(session: AsyncSession, job_ids: Select[str]) -> int:
    """Bytes of output and samples that are stored for all these runs."""
    query = select(func.sum(RUNS.c.log_bytes + RUNS.c.sample_bytes)).where(RUNS.c.job_id.in_(job_ids))
    return int(await session.scalar(query) or 0)


async def dropped(session: AsyncSession) -> tuple[int, int, int]:
    """(bytes of output, samples, points) that the quotas of all kept runs did not let in."""
    query = select(func.sum(RUNS.c.log_dropped_bytes), func.sum(RUNS.c.sample_dropped), func.sum(RUNS.c.refused_points))
    row = (await session.execute(query)).one()
    return int(row[0] or 0), int(row[1] or 0), int(row[2] or 0)


async def find(session: AsyncSession, job_id: str) -> Run | None:
    row = (await session.execute(select(*_COLUMNS).where(RUNS.c.job_id == job_id))).first()
    return None if row is None else Run(*row)


async def streams(session: AsyncSession, job_id: str, stream: str) -> Sequence[StreamAckRow]:
    """The acknowledgements of one stream over all attempts and ranks, in that order."""
    query = (
        select(StreamAckRow)
        .where(StreamAckRow.job_id == job_id, StreamAckRow.stream == stream)
        .order_by(StreamAckRow.attempt, StreamAckRow.rank)
    )
    return (await session.scalars(query)).all()
