"""SQL that reads the points of many series at once: a page of curves is a handful of statements, not some per curve."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.features.telemetry.repo.metrics import _COLUMNS, BLOCKS, CHUNKS, SERIES, Chunk, Series

AT_ONCE = 500  # values in one IN, below every database's limit of parameters

type Steps = tuple[int, int]
"""First and last step wanted."""


class Block(NamedTuple):
    """`data` is `domain.series_codec`'s."""

    block: int
    data: bytes


class Rollup(NamedTuple):
    """`places`: of the points within the block, as `merging.encode_places` writes them."""

    block: int
    count: int
    places: bytes
    data: bytes


async def series_of_runs(
    session: AsyncSession,
    job_ids: Sequence[str],
    *,
    rank: int | None,
    names: Sequence[str] | None,
    attempt: int | None = None,
) -> dict[str, list[Series]]:
    """run -> its series by name and attempt (and rank, when `rank` is None); runs without any are missing."""
    found: defaultdict[str, list[Series]] = defaultdict(list)
    for some in _portions(job_ids):
        query = select(SERIES.c.job_id, *_COLUMNS).where(SERIES.c.job_id.in_(some))
        if rank is not None:
            query = query.where(SERIES.c.rank == rank)
        if names is not None:
            query = query.where(SERIES.c.name.in_(names))
        if attempt is not None:
            query = query.where(SERIES.c.attempt == attempt)
        query = query.order_by(SERIES.c.job_id, SERIES.c.name, SERIES.c.attempt, SERIES.c.rank)
        for job_id, *values in await session.execute(query):
            found[job_id].append(Series(*values))
    return found


async def blocks_in(session: AsyncSession, series_ids: Sequence[int], steps: Steps) -> dict[int, int]:
    """series -> how many of its blocks have points in the range; series without any are missing."""
    counts: dict[int, int] = {}
    for some in _portions(series_ids):
        query = (
            select(BLOCKS.c.series_id, func.count())
            .where(BLOCKS.c.series_id.in_(some), *_overlap(BLOCKS, steps))
            .group_by(BLOCKS.c.series_id)
        )
        counts |= dict((await session.execute(query)).all())
    return counts


async def chunks_of(
    session: AsyncSession, series_ids: Sequence[int], steps: Steps | None = None
) -> dict[int, list[Chunk]]:
    """series -> its loose points in the order of their seqs."""
    columns = [CHUNKS.c[name] for name in Chunk._fields]
    order = (CHUNKS.c.series_id, CHUNKS.c.seq_first, CHUNKS.c.position, CHUNKS.c.part)
    return await _rows(session, CHUNKS, columns, order, series_ids, steps, Chunk)


async def blocks_of(
    session: AsyncSession, series_ids: Sequence[int], steps: Steps | None = None
) -> dict[int, list[Block]]:
    columns = [BLOCKS.c.block, BLOCKS.c.data]
    return await _rows(session, BLOCKS, columns, (BLOCKS.c.series_id, BLOCKS.c.block), series_ids, steps, Block)


async def blocks_from(session: AsyncSession, series_id: int, block: int, limit: int) -> list[Block]:
    """At most `limit` blocks of a series from number `block` on."""
    query = (
        select(BLOCKS.c.block, BLOCKS.c.data)
        .where(BLOCKS.c.series_id == series_id, BLOCKS.c.block >= block)
        .order_by(BLOCKS.c.block)
        .limit(limit)
    )
    return [Block(*row) for row in await session.execute(query)]


async def rollups_of(
    session: AsyncSession, series_ids: Sequence[int], steps: Steps | None = None
) -> dict[int, list[Rollup]]:
    columns = [BLOCKS.c.block, BLOCKS.c.rollup_count, BLOCKS.c.rollup_places, BLOCKS.c.rollup]
    return await _rows(session, BLOCKS, columns, (BLOCKS.c.series_id, BLOCKS.c.block), series_ids, steps, Rollup)


async def _rows[Row](
    session: AsyncSession,
    table: Any,
    columns: Sequence[Any],
    order: Sequence[Any],
    series_ids: Sequence[int],
    steps: Steps | None,
    make: Callable[..., Row],
) -> dict[int, list[Row]]:
    found: defaultdict[int, list[Row]] = defaultdict(list)
    for some in _portions(series_ids):
        query = select(table.c.series_id, *columns).where(table.c.series_id.in_(some)).order_by(*order)
        if steps is not None:
            query = query.where(*_overlap(table, steps))
        for series_id, *values in await session.execute(query):
            found[series_id].append(make(*values))
    return found


def _overlap(table: Any, steps: Steps) -> tuple[ColumnElement[bool], ...]:
    return table.c.step_max >= steps[0], table.c.step_min <= steps[1]


def _portions[Value](values: Sequence[Value]) -> Iterator[Sequence[Value]]:
    for start in range(0, len(values), AT_ONCE):
        yield values[start : start + AT_ONCE]
