"""SQL of log chunks. `place` arguments are (run, attempt, rank)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, and_, insert, or_, select
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.features.telemetry.tables import MARKER_FD, LogChunkRow

CHUNKS: Any = LogChunkRow.__table__

_ADD = insert(CHUNKS)

type Place = tuple[str, int, int]


class Chunk(NamedTuple):
    """`data` is `domain.log_codec`'s."""

    seq_first: int
    seq_last: int
    fd: int
    raw_bytes: int
    data: bytes


class ChunkSize(NamedTuple):
    seq_first: int
    seq_last: int
    raw_bytes: int
    newlines: int


def add(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """`rows`: the columns of `log_chunks`."""
    connection.execute(_ADD, rows)


def exists(connection: Connection, place: Place, seq_first: int, fd: int) -> bool:
    query = select(CHUNKS.c.fd).where(*_at(place), CHUNKS.c.seq_first == seq_first, CHUNKS.c.fd == fd)
    return connection.scalar(query) is not None


def holds(connection: Connection, place: Place, seq: int) -> bool:
    """Whether the piece is stored."""
    within = (CHUNKS.c.seq_first <= seq, CHUNKS.c.seq_last >= seq, CHUNKS.c.fd != MARKER_FD)
    return connection.scalar(select(CHUNKS.c.fd).where(*_at(place), *within).limit(1)) is not None


async def forward(
    session: AsyncSession, place: Place, from_seq: int, limit: int, up_to: int | None, fd: int | None = None
) -> list[Chunk]:
    """Chunks that hold piece `from_seq` or later ones, by `seq_first`; `up_to`: the last piece wanted, and the remark after it."""
    run_first = (
        select(CHUNKS.c.run_first)
        .where(*_at(place), CHUNKS.c.seq_first <= from_seq, CHUNKS.c.fd != MARKER_FD)
        .order_by(CHUNKS.c.seq_first.desc())
        .limit(1)
    )
    start = await session.scalar(run_first)
    query = (
        select(*(CHUNKS.c[name] for name in Chunk._fields))
        .where(*_at(place), CHUNKS.c.seq_first >= (from_seq if start is None else start), CHUNKS.c.seq_last >= from_seq)
        .order_by(CHUNKS.c.seq_first, CHUNKS.c.fd)
        .limit(limit)
    )
    if up_to is not None:
        remark = and_(CHUNKS.c.fd == MARKER_FD, CHUNKS.c.seq_first == up_to + 1)
        query = query.where(or_(CHUNKS.c.seq_first <= up_to, remark))
    if fd is not None:
        query = query.where(CHUNKS.c.fd == fd)
    return [Chunk(*row) for row in await session.execute(query)]


async def backward(
    session: AsyncSession, place: Place, *, before: int | None = None, up_to: int | None = None, limit: int
) -> list[ChunkSize]:
    """Sizes of the chunks of output that begin before seq `before` (None: the last ones) and not after `up_to`, newest first."""
    query = (
        select(*(CHUNKS.c[name] for name in ChunkSize._fields))
        .where(*_at(place), CHUNKS.c.fd != MARKER_FD)
        .order_by(CHUNKS.c.seq_first.desc(), CHUNKS.c.fd.desc())
        .limit(limit)
    )
    if before is not None:
        query = query.where(CHUNKS.c.seq_first < before)
    if up_to is not None:
        query = query.where(CHUNKS.c.seq_first <= up_to)
    return [ChunkSize(*row) for row in await session.execute(query)]


class Ending(NamedTuple):
    """`ends_line`: the last byte of the chunk, whose last piece is `seq_last`, is a newline."""

    seq_first: int
    seq_last: int
    ends_line: bool


async def last_before(session: AsyncSession, place: Place, fd: int, seq: int) -> Ending | None:
    """How the last chunk of `fd` that begins before piece `seq` ends; None when there is none."""
    query = (
        select(*(CHUNKS.c[name] for name in Ending._fields))
        .where(*_at(place), CHUNKS.c.fd == fd, CHUNKS.c.seq_first < seq)
        .order_by(CHUNKS.c.seq_first.desc())
        .limit(1)
    )
    row = (await session.execute(query)).first()
    return None if row is None else Ending(*row)


async def data_of(session: AsyncSession, place: Place, fd: int, seq_first: int) -> bytes:
    query = select(CHUNKS.c.data).where(*_at(place), CHUNKS.c.fd == fd, CHUNKS.c.seq_first == seq_first)
    return (await session.execute(query)).scalar_one()


async def seq_at_time(session: AsyncSession, place: Place, time: float) -> int | None:
    """First seq of the chunk that was still being written at `time`; None when all ended before."""
    query = (
        select(CHUNKS.c.seq_first)
        .where(*_at(place), CHUNKS.c.time_last >= time)
        .order_by(CHUNKS.c.time_last, CHUNKS.c.seq_first)
        .limit(1)
    )
    return await session.scalar(query)


async def time_of(session: AsyncSession, place: Place, seq: int) -> float | None:
    """When the chunk that holds piece `seq` was first written to; None when there is no such piece."""
    query = (
        select(CHUNKS.c.time_first)
        .where(*_at(place), CHUNKS.c.seq_first <= seq, CHUNKS.c.seq_last >= seq)
        .order_by(CHUNKS.c.seq_first.desc())
        .limit(1)
    )
    return await session.scalar(query)


def _at(place: Place) -> tuple[ColumnElement[bool], ...]:
    job_id, attempt, rank = place
    return CHUNKS.c.job_id == job_id, CHUNKS.c.attempt == attempt, CHUNKS.c.rank == rank
