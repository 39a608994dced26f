"""The points of one series as they are stored (blocks or their rollups, and loose chunks), thinned to one curve."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.domain import downsample, series_codec
from tuneplane_server.domain.series_codec import Columns, Packed, json_numbers
from tuneplane_server.features.telemetry.merging import decode_places
from tuneplane_server.features.telemetry.repo import curves as repo
from tuneplane_server.features.telemetry.repo.curves import Block, Rollup, Steps
from tuneplane_server.features.telemetry.repo.metrics import Chunk, Series
from tuneplane_server.features.telemetry.tables import BLOCK_POINTS


class Stored(NamedTuple):
    """All rows of one series that matter: blocks or only their rollups, and the loose chunks."""

    series: Series
    blocks: list[Block]
    rollups: list[Rollup]
    chunks: list[Chunk]

    @property
    def points(self) -> int:
        """How many points have to be decoded."""
        rolled = sum(rollup.count for rollup in self.rollups)
        return rolled + len(self.blocks) * BLOCK_POINTS + sum(chunk.count for chunk in self.chunks)


async def load(session: AsyncSession, found: Sequence[Series], max_points: int, steps: Steps | None) -> list[Stored]:
    """`steps`: only what has points in that range. Rollups stand for blocks wherever the curve will be no finer than they."""
    ids = [_id(series) for series in found if series.blocks]
    inside = dict.fromkeys(ids, 0) if steps is None else await repo.blocks_in(session, ids, steps)
    thin: list[int] = []
    whole: list[int] = []
    for series in found:
        if not series.blocks or (steps is not None and _id(series) not in inside):
            continue
        count = series.count if steps is None else inside[_id(series)] * BLOCK_POINTS
        coarse = downsample.bucket_width(count, max_points, has_nan=False) >= downsample.ROLLUP_WIDTH
        (thin if coarse else whole).append(_id(series))
    blocks = await repo.blocks_of(session, whole, steps) if whole else {}
    rollups = await repo.rollups_of(session, thin, steps) if thin else {}
    loose = [_id(series) for series in found if series.loose]
    chunks = await repo.chunks_of(session, loose, steps) if loose else {}
    return [
        Stored(series, blocks.get(_id(series), []), rollups.get(_id(series), []), chunks.get(_id(series), []))
        for series in found
    ]


def curve(stored: Stored, max_points: int, steps: Steps | None = None) -> dict[str, Any]:
    """`{attempt, step, time, value, epoch?, count, replaced_from}`; `count` before thinning. `steps`: only that range, and one
    point on either side of it, so that a line leads out of the picture."""
    pieces = _pieces(stored)
    if steps is not None:
        return _stretch(stored.series, pieces, max_points, steps)
    # Only values decide what is kept: the other columns are unpacked where something was.
    values = array("d")
    for piece in pieces:
        values.extend(piece.data.value)
    total = sum(piece.span for piece in pieces)
    width = downsample.bucket_width(total, max_points, has_nan=downsample.has_nan(values))
    chosen = downsample.choose_within(values, _buckets(pieces, width)) if width > 1 else list(range(len(values)))
    return entry(stored.series, _taken(pieces, chosen), total)


class _Piece(NamedTuple):
    """Consecutive points of a curve, or those of them that a rollup keeps. `start`: place of the first in the whole curve.
    `places`: of the kept ones, from `start`; None when all are there. `span`: how many points it stands for."""

    data: Packed
    start: int
    places: array[int] | None
    span: int


def _pieces(stored: Stored) -> list[_Piece]:
    found = [
        _Piece(Packed(block.data, BLOCK_POINTS), block.block * BLOCK_POINTS, None, BLOCK_POINTS)
        for block in stored.blocks
    ]
    found += [
        _Piece(Packed(one.data, one.count), one.block * BLOCK_POINTS, decode_places(one.places), BLOCK_POINTS)
        for one in stored.rollups
    ]
    start = stored.series.blocks * BLOCK_POINTS
    for chunk in stored.chunks:
        found.append(_Piece(Packed(chunk.data, chunk.count), start, None, chunk.count))
        start += chunk.count
    return found


def _buckets(pieces: Sequence[_Piece], width: int) -> Iterator[tuple[int, int]]:
    """The buckets as ranges of indices into the points of all pieces, found without looking at each point."""
    start = index = 0
    current: int | None = None
    for piece in pieces:
        first, last = piece.start // width, (piece.start + piece.span - 1) // width
        for bucket in range(first, last + 1):
            edge = max(0, bucket * width - piece.start)
            place = index + (edge if piece.places is None else bisect_left(piece.places, edge))
            if bucket != current and place > start:
                yield start, place
                start = place
            current = bucket
        index += piece.data.count
    if index > start:
        yield start, index


def _taken(pieces: Sequence[_Piece], chosen: Sequence[int]) -> Columns:
    """The points of these ascending indices."""
    parts: list[Columns] = []
    index = first = 0
    for piece in pieces:
        end = bisect_left(chosen, index + piece.data.count, first)
        if end > first:
            data = piece.data
            whole = Columns(data.step, data.time, data.value, data.epoch)
            parts.append(whole.take(one - index for one in chosen[first:end]))
        index, first = index + piece.data.count, end
    return series_codec.joined(parts)


def _stretch(series: Series, pieces: Sequence[_Piece], max_points: int, steps: Steps) -> dict[str, Any]:
    data = series_codec.joined(
        [Columns(one.data.step, one.data.time, one.data.value, one.data.epoch) for one in pieces]
    )
    positions = array("q")
    for piece in pieces:
        places = range(piece.data.count) if piece.places is None else piece.places
        positions.extend(piece.start + place for place in places)
    inside = _inside(data.step, steps)
    data, positions = data.take(inside), array("q", [positions[index] for index in inside])
    total = positions[-1] - positions[0] + 1 if positions else 0
    width = downsample.bucket_width(total, max_points, has_nan=downsample.has_nan(data.value))
    return entry(series, data.take(downsample.choose(data.value, width, positions)), total)


def entry(series: Series, data: Columns, total: int | None = None) -> dict[str, Any]:
    """The JSON shape of points; without `total` they are what is new, not a curve."""
    found: dict[str, Any] = {
        "attempt": series.attempt,
        "step": data.step.tolist(),
        "time": json_numbers(data.time),
        "value": json_numbers(data.value),
    }
    if data.epoch is not None:
        found["epoch"] = json_numbers(data.epoch)
    if total is not None:
        found |= {"count": total, "replaced_from": None}
    return found


def _inside(steps: Sequence[int], wanted: Steps) -> list[int]:
    kept = [index for index, step in enumerate(steps) if wanted[0] <= step <= wanted[1]]
    if not kept:
        return []
    before, after = [kept[0] - 1] if kept[0] else [], [kept[-1] + 1] if kept[-1] + 1 < len(steps) else []
    return [*before, *kept, *after]


def _id(series: Series) -> int:
    assert series.id is not None
    return series.id
