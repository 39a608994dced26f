"""Reads metrics: what there is, and the points of a few of them, thinned out so that nothing a reader looks for is lost."""

from __future__ import annotations

import asyncio
from array import array
from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.db.engine import Database
from tuneplane_server.domain import downsample, series_codec
from tuneplane_server.domain.series_codec import Columns, json_number, json_numbers
from tuneplane_server.features.telemetry.merging import decode_places
from tuneplane_server.features.telemetry.repo import metrics as repo
from tuneplane_server.features.telemetry.repo.metrics import Chunk, Rollup, Series
from tuneplane_server.features.telemetry.snapshots import snapshot
from tuneplane_server.features.telemetry.tables import BLOCK_POINTS

NAMES_AT_ONCE = 100
NAMES_SHOWN = 200  # of each run in a listing
LIVE_POINTS = 20_000  # more new points than this, and a live page had better read the curves again
INLINE_POINTS = 5_000  # more are worked on beside the event loop


class _Stored(NamedTuple):
    """All rows of one series: full blocks or only their rollups, and the loose chunks."""

    series: Series
    blocks: list[bytes]
    rollups: list[Rollup]
    chunks: list[Chunk]


class CurveReader:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def metrics(self, job_id: str, rank: int) -> dict[str, dict[str, Any]]:
        """name -> {latest: {step, value, time}, min, max, count, attempts}. Latest is of the newest attempt that has the
        metric; min and max are None when every value is NaN."""
        async with self._database.session() as session:
            rows = await repo.series_of_run(session, job_id, rank=rank)
        by_name: defaultdict[str, list[Series]] = defaultdict(list)
        for row in rows:
            by_name[row.name].append(row)
        return {name: _summary(attempts) for name, attempts in by_name.items()}

    async def latest(self, job_id: str, rank: int = 0) -> dict[str, dict[str, Any]]:
        """metric -> {step, value, time} of one run."""
        return (await self.latest_of([job_id], rank))[job_id]

    async def latest_of(self, job_ids: Sequence[str], rank: int = 0) -> dict[str, dict[str, dict[str, Any]]]:
        """run -> metric -> {step, value, time}, of the newest attempt that has the metric."""
        async with self._database.session() as session:
            rows = await repo.latest_of_runs(session, job_ids, rank, NAMES_SHOWN)
        result: dict[str, dict[str, dict[str, Any]]] = {job_id: {} for job_id in job_ids}
        for job_id, series in rows:  # by attempt: the newest comes last
            result[job_id][series.name] = _latest(series)
        return result

    async def last_steps(self, job_id: str) -> dict[int, int]:
        """Attempt -> the last step that its main rank reported; attempts that reported none are missing."""
        async with self._database.session() as session:
            return await repo.last_steps(session, job_id)

    async def curves(
        self, job_id: str, names: Sequence[str], *, max_points: int, attempt: int | None, rank: int
    ) -> dict[str, list[dict[str, Any]]]:
        """name -> one entry per attempt: {attempt, step, time, value, epoch?, count, replaced_from}. Names that are not
        there are left out. `replaced_from`: the step from which the next attempt reports anew, or None."""
        async with snapshot(self._database) as session:
            found = await repo.series_of_run(session, job_id, rank=rank, names=names, attempt=attempt)
            stored = [await _load(session, series, max_points) for series in found]

        def work() -> dict[str, list[dict[str, Any]]]:
            result: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
            for one in stored:
                result[one.series.name].append(_curve(one, max_points))
            for attempts in result.values():
                for earlier, later in pairwise(attempts):
                    earlier["replaced_from"] = later["step"][0] if later["step"] else None
            return result

        points = sum(min(one.series.count, 20 * max_points) for one in stored)
        return await asyncio.to_thread(work) if points > INLINE_POINTS else work()

    async def changes(self, job_id: str, after: int, rank: int = 0) -> dict[str, list[dict[str, Any]]] | None:
        """The points of batches newer than position `after`, in the shape of `curves`; None when the reader had better
        read the curves again: too many, or merged with older ones meanwhile."""
        result: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        points = 0
        async with snapshot(self._database) as session:
            for series in await repo.series_of_run(session, job_id, rank=rank, after=after):
                assert series.id is not None
                if series.blocks and await repo.newest_block_position(session, series.id) > after:
                    return None
                chunks = await repo.chunks(session, series.id, after=after)
                points += sum(chunk.count for chunk in chunks)
                if points > LIVE_POINTS:
                    return None
                if chunks:
                    data = series_codec.joined([series_codec.decode(chunk.data, chunk.count) for chunk in chunks])
                    result[series.name].append(_entry(series, data))
        return result


async def _load(session: AsyncSession, series: Series, max_points: int) -> _Stored:
    assert series.id is not None
    thin = downsample.bucket_width(series.count, max_points, has_nan=False) >= downsample.ROLLUP_WIDTH
    blocks = await repo.blocks(session, series.id) if series.blocks and not thin else []
    rollups = await repo.rollups(session, series.id) if series.blocks and thin else []
    return _Stored(series, blocks, rollups, await repo.chunks(session, series.id))


def _curve(stored: _Stored, max_points: int) -> dict[str, Any]:
    parts = [series_codec.decode(data, BLOCK_POINTS) for data in stored.blocks]
    parts += [series_codec.decode(rollup.data, rollup.count) for rollup in stored.rollups]
    places = [
        rollup.block * BLOCK_POINTS + place for rollup in stored.rollups for place in decode_places(rollup.places)
    ]
    parts += [series_codec.decode(chunk.data, chunk.count) for chunk in stored.chunks]
    data = series_codec.joined(parts)
    total = len(data.step)
    positions: array[int] | None = None
    if stored.rollups:
        loose = sum(chunk.count for chunk in stored.chunks)
        start = len(stored.rollups) * BLOCK_POINTS
        positions, total = array("q", [*places, *range(start, start + loose)]), start + loose
    width = downsample.bucket_width(total, max_points, has_nan=downsample.has_nan(data.value))
    return _entry(stored.series, data.take(downsample.choose(data.value, width, positions)), total)


def _entry(series: Series, data: Columns, total: int | None = None) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "attempt": series.attempt,
        "step": data.step.tolist(),
        "time": json_numbers(data.time),
        "value": json_numbers(data.value),
    }
    if data.epoch is not None:
        entry["epoch"] = json_numbers(data.epoch)
    if total is not None:
        entry |= {"count": total, "replaced_from": None}
    return entry


def _latest(series: Series) -> dict[str, Any]:
    value = "NaN" if series.last_value is None else json_number(series.last_value)
    return {"step": series.last_step, "value": value, "time": series.last_time}


def _summary(attempts: list[Series]) -> dict[str, Any]:
    lows = [one.min_value for one in attempts if one.min_value is not None]
    highs = [one.max_value for one in attempts if one.max_value is not None]
    return {
        "latest": _latest(attempts[-1]),
        "min": json_number(min(lows)) if lows else None,
        "max": json_number(max(highs)) if highs else None,
        "count": sum(one.count for one in attempts),
        "attempts": [one.attempt for one in attempts],
    }
