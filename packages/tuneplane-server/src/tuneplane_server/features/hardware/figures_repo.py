"""SQL of the hardware figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import bindparam, delete, func, insert, select, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.db.lists import among
from tuneplane_server.features.hardware.tables import FigureBlockRow, FigureSeriesRow, GpuHoldRow

NO_RUN = ""  # the node's own

type Key = tuple[str, int, str, str]
"""(run, attempt, node, part)"""

_SERIES: Any = FigureSeriesRow.__table__
_BLOCKS: Any = FigureBlockRow.__table__


class KnownSeries(NamedTuple):
    """What a further moment of a series is added to."""

    id: int
    count: int
    blocks: int
    last_time: float
    idle_since: datetime | None
    open: bytes


_KNOWN = tuple(_SERIES.c[name] for name in KnownSeries._fields)


async def holders_on_nodes(session: AsyncSession, nodes: Sequence[str]) -> dict[tuple[str, int], tuple[str, int]]:
    """(node, card) -> (run, attempt) that holds it."""
    gpu: Any = GpuHoldRow.__table__.c
    query = select(gpu.node, gpu.gpu_index, gpu.job_id, gpu.attempt).where(among(session, gpu.node, nodes))
    return {(node, index): (job_id, attempt) for node, index, job_id, attempt in await session.execute(query)}


async def of_nodes_now(session: AsyncSession, nodes: Sequence[str], job_ids: Sequence[str]) -> dict[Key, KnownSeries]:
    """The own series of these nodes, and those of these runs on them."""
    found: dict[Key, KnownSeries] = {}
    query = select(_SERIES.c.job_id, _SERIES.c.attempt, _SERIES.c.node, _SERIES.c.part, *_KNOWN)
    some = among(session, _SERIES.c.node, nodes)
    own = query.where(_SERIES.c.job_id == NO_RUN, _SERIES.c.attempt == 0, some)
    for statement in (own, query.where(among(session, _SERIES.c.job_id, job_ids), some)):
        for job_id, attempt, node, part, *known in await session.execute(statement):
            found[job_id, attempt, node, part] = KnownSeries(*known)
    return found


class Newest(NamedTuple):
    """The newest figures of a part of a node."""

    node: str
    part: str
    figures: Mapping[str, float]
    seen_at: datetime


async def newest_of_nodes(session: AsyncSession, nodes: Sequence[str] | None = None) -> list[Newest]:
    """Of these nodes' own parts (None: of every node's)."""
    query = select(_SERIES.c.node, _SERIES.c.part, _SERIES.c.last, _SERIES.c.seen_at)
    query = query.where(_SERIES.c.job_id == NO_RUN, _SERIES.c.attempt == 0).order_by(_SERIES.c.node, _SERIES.c.part)
    if nodes is not None:
        query = query.where(among(session, _SERIES.c.node, nodes))
    return [Newest(*row) for row in await session.execute(query)]


async def of_run(session: AsyncSession, job_id: str, attempt: int | None) -> list[FigureSeriesRow]:
    row = FigureSeriesRow
    query = select(row).where(row.job_id == job_id).order_by(row.attempt, row.node, row.part)
    return list(await session.scalars(query if attempt is None else query.where(row.attempt == attempt)))


class CardsOfRun(NamedTuple):
    """`working`: cards that are not idle; `last_idle`: when the last one of the idle ones became so."""

    job_id: str
    attempt: int
    measured: int
    working: int
    last_idle: datetime | None


async def cards_of_runs(session: AsyncSession, job_ids: Sequence[str], since: datetime) -> list[CardsOfRun]:
    """Of these runs' attempts, counting cards that were measured since. The database counts: of five hundred runs with eight cards
    each it would else bring four thousand rows, at every look of two roles."""
    key = (_SERIES.c.job_id, _SERIES.c.attempt)
    working = func.count() - func.count(_SERIES.c.idle_since)
    query = select(*key, func.count(), working, func.max(_SERIES.c.idle_since)).group_by(*key)
    mine = (among(session, _SERIES.c.job_id, job_ids), _SERIES.c.part.like("gpu%"), _SERIES.c.seen_at >= since)
    return [CardsOfRun(*row) for row in await session.execute(query.where(*mine))]


async def blocks(session: AsyncSession, series_id: int, *, thin: bool) -> list[tuple[int, bytes]]:
    """(block, its data or only its rollup), in order."""
    column = _BLOCKS.c.rollup if thin else _BLOCKS.c.data
    query = select(_BLOCKS.c.block, column).where(_BLOCKS.c.series_id == series_id).order_by(_BLOCKS.c.block)
    return [(row[0], row[1]) for row in await session.execute(query)]


async def add_series(session: AsyncSession, rows: Sequence[dict[str, Any]]) -> None:
    """One that is there already stays as it is: another console measured the same moment."""
    if rows:
        dialect = sqlite if session.get_bind().dialect.name == "sqlite" else postgresql
        await session.execute(dialect.insert(FigureSeriesRow).on_conflict_do_nothing(), list(rows))


async def write_series(session: AsyncSession, series_id: int, count: int, values: dict[str, Any]) -> bool:
    """Replace what changed; False when the series does not hold `count` moments any more."""
    statement = update(_SERIES).where(_SERIES.c.id == series_id, _SERIES.c.count == count).values(**values)
    result: Any = await session.execute(statement)
    return result.rowcount == 1


async def write_many(session: AsyncSession, changes: Sequence[tuple[int, int, dict[str, Any]]]) -> None:
    """As `write_series`, of many at once: (series, count it holds, values). One that has changed meanwhile stays as it is."""
    if not changes:
        return
    names = list(changes[0][2])
    mine = (_SERIES.c.id == bindparam("series"), _SERIES.c.count == bindparam("held"))
    statement = update(_SERIES).where(*mine).values({name: bindparam(f"new_{name}") for name in names})
    rows = [
        {"series": series_id, "held": count, **{f"new_{name}": values[name] for name in names}}
        for series_id, count, values in changes
    ]
    await session.execute(statement, rows)


async def add_block(session: AsyncSession, row: dict[str, Any]) -> None:
    await session.execute(insert(FigureBlockRow), [row])


async def held(session: AsyncSession, job_ids: Sequence[str]) -> set[str]:
    query = select(FigureSeriesRow.job_id).where(among(session, FigureSeriesRow.job_id, job_ids)).distinct()
    return set(await session.scalars(query))


async def forget_run(session: AsyncSession, job_id: str) -> None:
    mine = select(_SERIES.c.id).where(_SERIES.c.job_id == job_id)
    await session.execute(delete(_BLOCKS).where(_BLOCKS.c.series_id.in_(mine)))
    await session.execute(delete(_SERIES).where(_SERIES.c.job_id == job_id))


async def prune_nodes(session: AsyncSession, before: float, limit: int) -> int:
    """Delete at most `limit` blocks of nodes, and series of parts that are gone, older than `before` (Unix seconds); how many."""
    nodes = select(_SERIES.c.id).where(_SERIES.c.job_id == NO_RUN)
    old = (
        select(_BLOCKS.c.series_id, _BLOCKS.c.block)
        .where(_BLOCKS.c.series_id.in_(nodes), _BLOCKS.c.last_time < before)
        .limit(limit)
    )
    keys = [tuple(row) for row in await session.execute(old)]
    for series_id, block in keys:
        await session.execute(delete(_BLOCKS).where(_BLOCKS.c.series_id == series_id, _BLOCKS.c.block == block))
    gone = select(_SERIES.c.id).where(_SERIES.c.job_id == NO_RUN, _SERIES.c.last_time < before)
    await session.execute(delete(_BLOCKS).where(_BLOCKS.c.series_id.in_(gone)))
    await session.execute(delete(_SERIES).where(_SERIES.c.job_id == NO_RUN, _SERIES.c.last_time < before))
    return len(keys)
