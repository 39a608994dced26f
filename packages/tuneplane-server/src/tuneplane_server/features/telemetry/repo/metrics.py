"""SQL of metric series, their chunks and blocks.

What writes takes a `Connection` inside a transaction (see `transactions`); what only reads takes a session.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy import Connection, bindparam, delete, func, insert, literal_column, select, update
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.features.telemetry.tables import BLOCK_POINTS, MetricBlockRow, MetricChunkRow, MetricSeriesRow

SERIES: Any = MetricSeriesRow.__table__
CHUNKS: Any = MetricChunkRow.__table__
BLOCKS: Any = MetricBlockRow.__table__
_NAMES_AT_ONCE = 1000


@dataclass(slots=True)
class Series:
    """A row of `metric_series`; `id` None when it is not stored yet. A NaN is None, as in the table."""

    id: int | None
    attempt: int
    rank: int
    name: str
    position: int = 0
    count: int = 0
    blocks: int = 0
    loose: int = 0
    min_value: float | None = None
    max_value: float | None = None
    last_seq: int = 0
    last_step: int = 0
    last_time: float = 0.0
    last_value: float | None = None


_COLUMNS = [SERIES.c[name] for name in Series.__slots__]
_CHANGING = (
    "position", "count", "blocks", "loose", "min_value", "max_value", "last_seq", "last_step", "last_time", "last_value",
)  # fmt: skip
_UPDATE = (
    update(SERIES).where(SERIES.c.id == bindparam("key")).values({name: bindparam(f"new_{name}") for name in _CHANGING})
)


class ChunkHead(NamedTuple):
    """A chunk without its points."""

    position: int
    part: int
    seq_first: int
    seq_last: int
    count: int


class Chunk(NamedTuple):
    """Columns of `metric_chunks` that reading needs; `data` is `domain.series_codec`'s."""

    position: int
    part: int
    seq_first: int
    seq_last: int
    count: int
    data: bytes


_BY_NAME = select(*_COLUMNS).where(
    SERIES.c.job_id == bindparam("job"),
    SERIES.c.attempt == bindparam("attempt"),
    SERIES.c.rank == bindparam("rank"),
    SERIES.c.name.in_(bindparam("names", expanding=True)),
)
_COUNT_NAMES = (
    select(func.count())
    .select_from(SERIES)
    .where(
        SERIES.c.job_id == bindparam("job"),
        SERIES.c.attempt == bindparam("attempt"),
        SERIES.c.rank == bindparam("rank"),
    )
)
_ADD_SERIES = insert(SERIES).returning(SERIES.c.id, SERIES.c.name)
_ADD_CHUNKS = insert(CHUNKS)
_ADD_BLOCKS = insert(BLOCKS)
_BY_IDS = select(*_COLUMNS).where(SERIES.c.id.in_(bindparam("ids", expanding=True))).order_by(SERIES.c.id)
_TO_MERGE = (
    select(SERIES.c.id, SERIES.c.job_id)
    .where(SERIES.c.loose >= literal_column(str(BLOCK_POINTS)), SERIES.c.id > bindparam("after"))
    .order_by(SERIES.c.id)
    .limit(bindparam("most"))
)
_FIRST_CHUNKS = (
    select(*(CHUNKS.c[name] for name in ChunkHead._fields))
    .where(CHUNKS.c.series_id == bindparam("series"))
    .order_by(CHUNKS.c.seq_first, CHUNKS.c.position, CHUNKS.c.part)
    .limit(bindparam("most"))
)
_CHUNK_DATA = select(CHUNKS.c.position, CHUNKS.c.part, CHUNKS.c.data).where(
    CHUNKS.c.series_id == bindparam("series"), CHUNKS.c.position.in_(bindparam("positions", expanding=True))
)
_REMOVE_CHUNK = delete(CHUNKS).where(
    CHUNKS.c.series_id == bindparam("series"),
    CHUNKS.c.position == bindparam("key_position"),
    CHUNKS.c.part == bindparam("key_part"),
)


def series_by_name(
    connection: Connection, job_id: str, attempt: int, rank: int, names: Sequence[str]
) -> dict[str, Series]:
    place = {"job": job_id, "attempt": attempt, "rank": rank}
    found: dict[str, Series] = {}
    for start in range(0, len(names), _NAMES_AT_ONCE):
        for row in connection.execute(_BY_NAME, place | {"names": names[start : start + _NAMES_AT_ONCE]}):
            found[row.name] = Series(*row)
    return found


def count_names(connection: Connection, job_id: str, attempt: int, rank: int) -> int:
    return connection.scalar(_COUNT_NAMES, {"job": job_id, "attempt": attempt, "rank": rank}) or 0


def add_series(connection: Connection, job_id: str, new: Sequence[Series]) -> None:
    """Store new series of one attempt and rank; fills in their ids."""
    by_name = {one.name: one for one in new}
    rows = [
        {"job_id": job_id, "attempt": one.attempt, "rank": one.rank, "name": one.name}
        | {name: getattr(one, name) for name in _CHANGING}
        for one in new
    ]
    for row in connection.execute(_ADD_SERIES, rows):
        by_name[row.name].id = row.id


def save_series(connection: Connection, changed: Iterable[Series]) -> None:
    rows = [{"key": one.id} | {f"new_{name}": getattr(one, name) for name in _CHANGING} for one in changed]
    connection.execute(_UPDATE, rows)


def add_chunks(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """`rows`: the columns of `metric_chunks`."""
    connection.execute(_ADD_CHUNKS, rows)


def series_to_merge(connection: Connection, after: int, limit: int) -> list[tuple[int, str]]:
    """(id, run) of series with an id beyond `after` that have a block's worth of loose points."""
    return [(row.id, row.job_id) for row in connection.execute(_TO_MERGE, {"after": after, "most": limit})]


def series_by_ids(connection: Connection, series_ids: Sequence[int]) -> list[Series]:
    return [Series(*row) for row in connection.execute(_BY_IDS, {"ids": list(series_ids)})]


def first_chunks(connection: Connection, series_id: int, limit: int) -> list[ChunkHead]:
    """The first chunks of a series in the order of their seqs, without their points."""
    return [ChunkHead(*row) for row in connection.execute(_FIRST_CHUNKS, {"series": series_id, "most": limit})]


def chunk_data(connection: Connection, series_id: int, positions: Sequence[int]) -> dict[tuple[int, int], bytes]:
    """(position, part) -> the points of those chunks."""
    found: dict[tuple[int, int], bytes] = {}
    wanted = sorted(set(positions))
    for start in range(0, len(wanted), _NAMES_AT_ONCE):
        few = {"series": series_id, "positions": wanted[start : start + _NAMES_AT_ONCE]}
        found |= {(row[0], row[1]): row[2] for row in connection.execute(_CHUNK_DATA, few)}
    return found


def add_blocks(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """`rows`: the columns of `metric_blocks`."""
    connection.execute(_ADD_BLOCKS, rows)


def remove_chunks(connection: Connection, keys: Sequence[tuple[int, int, int]]) -> None:
    """`keys`: (series, position, part)."""
    rows = [{"series": series, "key_position": position, "key_part": part} for series, position, part in keys]
    connection.execute(_REMOVE_CHUNK, rows)


async def series_of_run(
    session: AsyncSession,
    job_id: str,
    *,
    rank: int | None = None,
    names: Sequence[str] | None = None,
    attempt: int | None = None,
    after: int | None = None,
) -> list[Series]:
    """Series by name and attempt. `after`: only those with points newer than that position."""
    query = select(*_COLUMNS).where(SERIES.c.job_id == job_id).order_by(SERIES.c.name, SERIES.c.attempt, SERIES.c.rank)
    if rank is not None:
        query = query.where(SERIES.c.rank == rank)
    if names is not None:
        query = query.where(SERIES.c.name.in_(names))
    if attempt is not None:
        query = query.where(SERIES.c.attempt == attempt)
    if after is not None:
        query = query.where(SERIES.c.position > after)
    return [Series(*row) for row in await session.execute(query)]


async def last_steps(session: AsyncSession, job_id: str) -> dict[int, int]:
    """Attempt -> the last step of its main rank; what the machines report of themselves has no steps of the training."""
    query = (
        select(SERIES.c.attempt, func.max(SERIES.c.last_step))
        .where(SERIES.c.job_id == job_id, SERIES.c.rank == 0, SERIES.c.name.not_like("system/%"))
        .group_by(SERIES.c.attempt)
    )
    return dict((await session.execute(query)).all())


async def latest_of_runs(
    session: AsyncSession, job_ids: Sequence[str], rank: int, names: int
) -> list[tuple[str, Series]]:
    """(run, series) by attempt, of at most `names` names of each run: those that come first in the alphabet."""
    place = func.dense_rank().over(partition_by=SERIES.c.job_id, order_by=SERIES.c.name).label("place")
    found = (
        select(SERIES.c.job_id, *_COLUMNS, place).where(SERIES.c.job_id.in_(job_ids), SERIES.c.rank == rank).subquery()
    )
    query = select(found).where(found.c.place <= names).order_by(found.c.attempt)
    return [(row[0], Series(*row[1:-1])) for row in await session.execute(query)]


async def chunks(session: AsyncSession, series_id: int, *, after: int | None = None) -> list[Chunk]:
    """The loose points of a series in the order of their seqs. `after`: only of batches newer than that position."""
    query = _chunks(series_id)
    if after is not None:
        query = query.where(CHUNKS.c.position > after)
    return [Chunk(*row) for row in await session.execute(query)]


async def newest_block_position(session: AsyncSession, series_id: int) -> int:
    query = select(func.max(BLOCKS.c.position_last)).where(BLOCKS.c.series_id == series_id)
    return (await session.scalar(query)) or 0


def _chunks(series_id: int) -> Any:
    return (
        select(*(CHUNKS.c[name] for name in Chunk._fields))
        .where(CHUNKS.c.series_id == series_id)
        .order_by(CHUNKS.c.seq_first, CHUNKS.c.position, CHUNKS.c.part)
    )
