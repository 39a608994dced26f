"""Reads metrics: what there is, and the points of a few of them, thinned out so that nothing a reader looks for is lost."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.db.engine import Database
from tuneplane_server.domain import curve_axes, series_codec
from tuneplane_server.domain.curve_axes import TOKEN_METRICS
from tuneplane_server.domain.series_codec import json_number
from tuneplane_server.features.telemetry.repo import curves as repo
from tuneplane_server.features.telemetry.repo import metrics
from tuneplane_server.features.telemetry.repo.curves import Steps
from tuneplane_server.features.telemetry.repo.metrics import Series
from tuneplane_server.features.telemetry.snapshots import snapshot
from tuneplane_server.features.telemetry.stored_curves import Stored, curve, entry, load

NAMES_AT_ONCE = 100
NAMES_SHOWN = 200  # of each run in a listing
LIVE_POINTS = 20_000  # more new points than this, and a live page had better read the curves again
TOKEN_POINTS = 2_000  # of the count of tokens that other curves are laid over
INLINE_POINTS = 5_000  # more are worked on beside the event loop


@dataclass(frozen=True, kw_only=True)
class CurveQuery:
    """`axis`: of `domain.curve_axes.AXES`; when given, every part has a column `x`. `steps`: only points of that range."""

    names: Sequence[str]
    max_points: int = 500
    attempt: int | None = None
    rank: int = 0
    axis: str | None = None
    steps: Steps | None = None


type Curves = dict[str, list[dict[str, Any]]]
"""name -> one entry per attempt."""


class CurveReader:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def metrics(self, job_id: str, rank: int) -> dict[str, dict[str, Any]]:
        """name -> {latest: {step, value, time}, min, max, count, attempts}. Latest is of the newest attempt that has the
        metric; min and max are None when every value is NaN."""
        async with self._database.session() as session:
            rows = await metrics.series_of_run(session, job_id, rank=rank)
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
            return await self.latest_in(session, job_ids, rank)

    async def latest_in(
        self, session: AsyncSession, job_ids: Sequence[str], rank: int = 0
    ) -> dict[str, dict[str, dict[str, Any]]]:
        """As `latest_of`, in a session that is there already."""
        rows = await metrics.latest_of_runs(session, job_ids, rank, NAMES_SHOWN)
        result: dict[str, dict[str, dict[str, Any]]] = {job_id: {} for job_id in job_ids}
        for job_id, series in rows:  # by attempt: the newest comes last
            result[job_id][series.name] = _latest(series)
        return result

    async def last_steps(self, job_id: str) -> dict[int, int]:
        """Attempt -> the last step that its main rank reported; attempts that reported none are missing."""
        async with self._database.session() as session:
            return await metrics.last_steps(session, job_id)

    async def curves(
        self, job_id: str, names: Sequence[str], *, max_points: int, attempt: int | None, rank: int
    ) -> Curves:
        """The curves of one run over their steps."""
        query = CurveQuery(names=names, max_points=max_points, attempt=attempt, rank=rank)
        return (await self.of_runs({job_id: 0.0}, query))[job_id]

    async def of_runs(self, starts: Mapping[str, float], query: CurveQuery) -> dict[str, Curves]:
        """run -> name -> one entry per attempt: {attempt, step, time, value, epoch?, x?, count, replaced_from}. Names that are
        not there are left out. `replaced_from`: the step from which the next attempt reports anew, or None.

        `starts`: run -> when it began (Unix seconds), which is zero on the axis `relative`.
        """
        ids = list(starts)
        async with snapshot(self._database) as session:
            found = await repo.series_of_runs(session, ids, rank=query.rank, names=query.names, attempt=query.attempt)
            every = [series for of_run in found.values() for series in of_run]
            stored = iter(await load(session, every, query.max_points, query.steps))
            by_run = {job_id: [next(stored) for _series in of_run] for job_id, of_run in found.items()}
            tokens = await self._tokens(session, ids, query) if query.axis == "tokens" else {}

        def work() -> dict[str, Curves]:
            return {
                job_id: _curves_of_run(by_run.get(job_id, []), query, starts[job_id], tokens.get(job_id, []))
                for job_id in ids
            }

        points = sum(one.points for of_run in by_run.values() for one in of_run)
        return await asyncio.to_thread(work) if points > INLINE_POINTS else work()

    async def _tokens(self, session: AsyncSession, ids: Sequence[str], query: CurveQuery) -> dict[str, list[Stored]]:
        """run -> the attempts of its running count of tokens."""
        found = await repo.series_of_runs(session, ids, rank=query.rank, names=TOKEN_METRICS, attempt=query.attempt)
        chosen = {job_id: _first_known(series) for job_id, series in found.items()}
        every = [series for of_run in chosen.values() for series in of_run]
        stored = iter(await load(session, every, TOKEN_POINTS, None))
        return {job_id: [next(stored) for _series in of_run] for job_id, of_run in chosen.items()}

    async def changes(self, job_id: str, after: int, rank: int = 0) -> dict[str, list[dict[str, Any]]] | None:
        """The points of batches newer than position `after`, in the shape of `curves`; None when the reader had better
        read the curves again: too many, or merged with older ones meanwhile."""
        result: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        points = 0
        async with snapshot(self._database) as session:
            for series in await metrics.series_of_run(session, job_id, rank=rank, after=after):
                assert series.id is not None
                if series.blocks and await metrics.newest_block_position(session, series.id) > after:
                    return None
                chunks = await metrics.chunks(session, series.id, after=after)
                points += sum(chunk.count for chunk in chunks)
                if points > LIVE_POINTS:
                    return None
                if chunks:
                    data = series_codec.joined([series_codec.decode(chunk.data, chunk.count) for chunk in chunks])
                    result[series.name].append(entry(series, data))
        return result


def _curves_of_run(stored: list[Stored], query: CurveQuery, start: float, tokens: list[Stored]) -> Curves:
    result: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in stored:
        result[one.series.name].append(curve(one, query.max_points, query.steps))
    for attempts in result.values():
        for earlier, later in pairwise(attempts):
            earlier["replaced_from"] = later["step"][0] if later["step"] else None
    if query.axis is not None:
        known = {one.series.attempt: curve(one, TOKEN_POINTS) for one in tokens}
        for part in (part for attempts in result.values() for part in attempts):
            part["x"] = _x(part, query.axis, start, known.get(part["attempt"]))
    return dict(result)


def _x(part: dict[str, Any], axis: str, start: float, tokens: dict[str, Any] | None) -> list[Any]:
    """What the points lie over; None where that is not known."""
    if axis == "relative":
        return curve_axes.relative([float(time) for time in part["time"]], start)
    if axis == "tokens":
        if tokens is None:
            return [None] * len(part["step"])
        return curve_axes.at_steps(part["step"], tokens["step"], [float(value) for value in tokens["value"]])
    column: list[Any] = part.get(axis) or [None] * len(part["step"])
    return column


def _first_known(found: list[Series]) -> list[Series]:
    names = {series.name for series in found}
    name = next((name for name in TOKEN_METRICS if name in names), None)
    return [series for series in found if series.name == name]


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
