"""Hardware figures: keep what a node was measured to use, and read it back.

Of every moment a node's own series are kept, bounded in time, and a copy of what concerns a run under the run: its cards, what it
used itself, and the machine under it. So a run's page needs no other run's rows, and they go when the run goes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.domain import downsample, figures
from tuneplane_server.domain.figures import Points
from tuneplane_server.executors.port import NodeFigures
from tuneplane_server.features.hardware import figures_repo as repo
from tuneplane_server.features.hardware import recording
from tuneplane_server.features.hardware.recording import GPU, JOB, MACHINE
from tuneplane_server.features.hardware.tables import FigureSeriesRow
from tuneplane_server.features.telemetry.snapshots import snapshot

__all__ = ["GPU", "JOB", "MACHINE", "HardwareFigures", "IdleCards", "Latest"]

PRUNE_AT_ONCE = 500


@dataclass(frozen=True)
class IdleCards:
    """The measured cards of one attempt: how many have fresh figures, and since when all of them are idle (None: one works)."""

    measured: int
    idle_since: datetime | None


@dataclass(frozen=True)
class Latest:
    """The newest figures of a part of a node, and when they came."""

    figures: Mapping[str, float]
    seen_at: datetime


class HardwareFigures:
    """`fresh`: how long a figure counts as of now."""

    def __init__(self, database: Database, clock: Clock, fresh: timedelta) -> None:
        self._database, self._clock, self.fresh = database, clock, fresh
        self._recording = asyncio.Lock()

    # --- writing --------------------------------------------------------------------------------------------------

    async def record(self, *seen: NodeFigures) -> None:
        """Store one moment of each of these nodes, all in one transaction. One after the other: threads that encode beside each other
        would share the interpreter's lock with the event loop, which got as little of it as each of them.
        """
        async with self._recording:
            await recording.record(self._database, self._clock, seen)

    async def prune(self, keep: timedelta) -> int:
        """Delete what nodes used longer ago; what runs used goes with the runs. A bounded piece; how much it was."""
        async with self._database.begin() as session:
            return await repo.prune_nodes(session, (self._clock.now() - keep).timestamp(), PRUNE_AT_ONCE)

    async def forget(self, job_id: str) -> None:
        """Delete all figures of a run."""
        async with self._database.begin() as session:
            await repo.forget_run(session, job_id)

    async def held(self, job_ids: Sequence[str]) -> set[str]:
        """Those of the runs that have figures; at most a few hundred are asked for at once."""
        async with self._database.session() as session:
            return await repo.held(session, job_ids)

    # --- reading --------------------------------------------------------------------------------------------------

    async def latest(self, nodes: Sequence[str] | None = None) -> dict[str, dict[str, Latest]]:
        """Node -> part (`machine`, `gpu0`, …) -> its newest figures, of whatever age; of these nodes (None: of every one)."""
        async with self._database.session() as session:
            rows = await repo.newest_of_nodes(session, nodes)
        found: dict[str, dict[str, Latest]] = {}
        for row in rows:
            found.setdefault(row.node, {})[row.part] = Latest(row.figures, row.seen_at)
        return found

    async def latest_of_run(self, job_id: str, attempt: int) -> dict[tuple[str, str], Latest]:
        """(node, part) -> the newest figures of an attempt."""
        async with self._database.session() as session:
            rows = await repo.of_run(session, job_id, attempt)
        return {(row.node, row.part): Latest(row.last, row.seen_at) for row in rows}

    async def idle_cards(self, job_ids: Sequence[str]) -> dict[tuple[str, int], IdleCards]:
        """(run, attempt) -> what its cards do, of those whose cards were measured a moment ago."""
        if not job_ids:
            return {}
        since = self._clock.now() - self.fresh
        async with self._database.session() as session:
            rows = await repo.cards_of_runs(session, job_ids, since)
        return {
            (row.job_id, row.attempt): IdleCards(row.measured, None if row.working else row.last_idle) for row in rows
        }

    async def of_run(
        self, job_id: str, *, max_points: int, attempt: int | None = None, names: Sequence[str] | None = None
    ) -> dict[str, list[dict[str, Any]]]:
        """`<node>/<part>/<figure>` -> one entry per attempt, in the shape of `curves`: {attempt, step, time, value, count,
        replaced_from}. `step`: whole seconds since the attempt's first figure."""
        async with snapshot(self._database) as session:
            stored = []
            for row in await repo.of_run(session, job_id, attempt):
                if names is None or any(name.startswith(f"{row.node}/{row.part}/") for name in names):
                    moments = row.count
                    thin = downsample.bucket_width(moments, max_points, has_nan=False) >= downsample.ROLLUP_WIDTH
                    stored.append((row, thin, await repo.blocks(session, row.id, thin=thin)))
        starts: dict[int, float] = {}
        for row, _thin, _blocks in stored:
            starts[row.attempt] = min(row.first_time, starts.get(row.attempt, row.first_time))
        return await asyncio.to_thread(_curves, stored, starts, max_points, None if names is None else set(names))


def _curves(
    stored: Sequence[tuple[FigureSeriesRow, bool, list[tuple[int, bytes]]]],
    starts: Mapping[int, float],
    max_points: int,
    wanted: set[str] | None,
) -> dict[str, list[dict[str, Any]]]:
    result: dict[str, list[dict[str, Any]]] = {}
    for row, thin, blocks in stored:
        parts: dict[str, list[Points]] = {}
        for number, data in blocks:
            found = figures.points_of_rollup(data, number) if thin else figures.points_of(figures.decode(data), number)
            for figure, points in found.items():
                parts.setdefault(figure, []).append(points)
        for figure, points in figures.points_of(figures.decode(row.open), row.blocks).items():
            parts.setdefault(figure, []).append(points)
        for figure, pieces in parts.items():
            name = f"{row.node}/{row.part}/{figure}"
            if wanted is None or name in wanted:
                times, values = figures.thin(pieces, row.count, max_points)
                if times:
                    entry = _entry(row, times, values, starts[row.attempt])
                    result.setdefault(name, []).append(entry)
    return result


def _entry(row: FigureSeriesRow, times: list[float], values: list[float], start: float) -> dict[str, Any]:
    return {
        "attempt": row.attempt,
        "step": [int(time - start) for time in times],
        "time": times,
        "value": values,
        "count": row.count,
        "replaced_from": None,
    }
