"""The rows of an export, read some at a time; no session stays open while they are written."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec

from tuneplane_server.db.engine import Database
from tuneplane_server.domain import series_codec
from tuneplane_server.domain.series_codec import Columns
from tuneplane_server.features.telemetry.exports.columns import Part
from tuneplane_server.features.telemetry.repo import curves as repo
from tuneplane_server.features.telemetry.repo.metrics import Series
from tuneplane_server.features.telemetry.repo.samples import SampleFilter
from tuneplane_server.features.telemetry.sample_reader import SampleItem, SampleReader
from tuneplane_server.features.telemetry.snapshots import snapshot
from tuneplane_server.features.telemetry.tables import BLOCK_POINTS

SERIES_AT_ONCE = 100  # short ones
BLOCKS_AT_ONCE = 16


async def metric_rows(
    database: Database, job_id: str, *, names: Sequence[str] | None, attempt: int | None, rank: int | None
) -> AsyncIterator[Part]:
    """Every point of the series, by name, attempt and rank, in the order they were reported."""
    async with database.session() as session:
        found = await repo.series_of_runs(session, [job_id], rank=rank, names=names, attempt=attempt)
    series = found.get(job_id, [])
    short: list[Series] = []
    for one in series:
        if not one.blocks and len(short) < SERIES_AT_ONCE:
            short.append(one)
            continue
        async for part in _short_series(database, short):
            yield part
        short = [] if one.blocks else [one]
        if one.blocks:
            async for part in _long_series(database, one):
                yield part
    async for part in _short_series(database, short):
        yield part


async def sample_rows(reader: SampleReader, job_id: str, wanted: SampleFilter, text: str) -> AsyncIterator[Part]:
    """The samples that fit, oldest first."""
    async for items in reader.every(job_id, wanted, text):
        rows = [_sample(item) for item in items]
        if rows:
            yield Part(list(zip(*rows, strict=True)), len(rows))


async def _short_series(database: Database, some: Sequence[Series]) -> AsyncIterator[Part]:
    ids = [_id(one) for one in some]
    if not ids:
        return
    async with snapshot(database) as session:
        chunks = await repo.chunks_of(session, ids)
        blocks = await repo.blocks_of(session, ids)  # made since the series were listed
    for one in some:
        packed = [(block.data, BLOCK_POINTS) for block in blocks.get(_id(one), [])]
        packed += [(chunk.data, chunk.count) for chunk in chunks.get(_id(one), [])]
        if packed:
            yield await asyncio.to_thread(_part, one, packed)


async def _long_series(database: Database, series: Series) -> AsyncIterator[Part]:
    """Blocks never change; what was loose at the end is read together with the last of them."""
    block = 0
    while True:
        async with snapshot(database) as session:
            blocks = await repo.blocks_from(session, _id(series), block, BLOCKS_AT_ONCE)
            last = len(blocks) < BLOCKS_AT_ONCE
            chunks = (await repo.chunks_of(session, [_id(series)])).get(_id(series), []) if last else []
        packed = [(one.data, BLOCK_POINTS) for one in blocks] + [(chunk.data, chunk.count) for chunk in chunks]
        if packed:
            yield await asyncio.to_thread(_part, series, packed)
        if last:
            return
        block = blocks[-1].block + 1


def _part(series: Series, packed: Sequence[tuple[bytes, int]]) -> Part:
    pieces = [series_codec.decode(data, count) for data, count in packed]
    return _table(series, pieces)


def _table(series: Series, pieces: Sequence[Columns]) -> Part:
    epochs: list[float | None] = []
    for piece in pieces:
        epochs += [None] * len(piece.step) if piece.epoch is None else piece.epoch
    data = series_codec.joined([piece._replace(epoch=None) for piece in pieces])
    rows = len(data.step)
    same = ([series.attempt] * rows, [series.rank] * rows, [series.name] * rows)
    return Part([*same, data.step, data.time, epochs, data.value], rows)


def _sample(item: SampleItem) -> tuple[Any, ...]:
    texts = (_text(item.data.get(name)) for name in ("prompt", "completion", "chosen", "rejected"))
    data = msgspec.json.encode(item.data).decode()
    return (item.id, item.attempt, item.rank, item.step, item.time, item.kind, item.reward, *texts, data)


def _text(value: Any) -> str | None:
    """A text as it is, anything else (a chat, for one) as JSON."""
    return value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()


def _id(series: Series) -> int:
    assert series.id is not None
    return series.id
