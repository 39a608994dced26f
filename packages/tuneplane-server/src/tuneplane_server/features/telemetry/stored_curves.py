"""The points of one series as they are stored (blocks or their rollups, and loose chunks), thinned to one curve."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.domain import downsample, series_codec
from tuneplane_server.domain.series_codec import Columns, json_numbers
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
    parts = [series_codec.decode(block.data, BLOCK_POINTS) for block in stored.blocks]
    parts += [series_codec.decode(rollup.data, rollup.count) for rollup in stored.rollups]
    parts += [series_codec.decode(chunk.data, chunk.count) for chunk in stored.chunks]
    data = series_codec.joined(parts)
    positions = _positions(stored, steps)
    total = len(data.step) if positions is None else len(data.step) + _left_out(stored)
    if steps is not None:
        inside = _inside(data.step, steps)
        data = data.take(inside)
        assert positions is not None
        positions = array("q", [positions[index] for index in inside])
        total = positions[-1] - positions[0] + 1 if positions else 0
    width = downsample.bucket_width(total, max_points, has_nan=downsample.has_nan(data.value))
    return entry(stored.series, data.take(downsample.choose(data.value, width, positions)), total)


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


def _positions(stored: Stored, steps: Steps | None) -> array[int] | None:
    """The place of every decoded point in the whole curve; None when they are all of it, in order."""
    if steps is None and not stored.rollups:
        return None
    found = array("q")
    for block in stored.blocks:
        found.extend(range(block.block * BLOCK_POINTS, (block.block + 1) * BLOCK_POINTS))
    for rollup in stored.rollups:
        found.extend(rollup.block * BLOCK_POINTS + place for place in decode_places(rollup.places))
    start = stored.series.blocks * BLOCK_POINTS
    found.extend(range(start, start + sum(chunk.count for chunk in stored.chunks)))
    return found


def _left_out(stored: Stored) -> int:
    return len(stored.rollups) * BLOCK_POINTS - sum(rollup.count for rollup in stored.rollups)


def _inside(steps: Sequence[int], wanted: Steps) -> list[int]:
    kept = [index for index, step in enumerate(steps) if wanted[0] <= step <= wanted[1]]
    if not kept:
        return []
    before, after = [kept[0] - 1] if kept[0] else [], [kept[-1] + 1] if kept[-1] + 1 < len(steps) else []
    return [*before, *kept, *after]


def _id(series: Series) -> int:
    assert series.id is not None
    return series.id
