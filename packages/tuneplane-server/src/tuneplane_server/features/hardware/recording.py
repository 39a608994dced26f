"""Writes moments of machines into their series: of many machines in one read, one turn of a thread and one transaction.

A thousand machines with eight cards have nine thousand series of their own. A transaction for each machine would keep the database's
one writer from everybody else; one for all of them would keep it for too long: callers bring some tens of machines at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.domain import figures
from tuneplane_server.domain.figures import Frame
from tuneplane_server.executors.port import NodeFigures
from tuneplane_server.features.hardware import figures_repo as repo
from tuneplane_server.features.hardware.figures_repo import NO_RUN, Key, KnownSeries

MACHINE, JOB, GPU = "machine", "job", "gpu"
USE = "use"
IDLE_PERCENT = 5.0  # a card that works less than this is idle; a display or a monitor may tickle it

type Moment = tuple[float, Mapping[str, float]]
"""(Unix seconds of the machine's clock, figures)"""


@dataclass(frozen=True)
class _Written:
    """One series' new row and, when a block became full, that."""

    key: Key
    known: KnownSeries | None
    values: dict[str, Any]
    block: dict[str, Any] | None


async def record(database: Database, clock: Clock, seen: Sequence[NodeFigures]) -> None:
    """Store these moments. Decoding and encoding happen in a thread and outside of the transaction."""
    if not seen:
        return
    nodes = [each.node for each in seen]
    async with database.session() as session:
        owners = await repo.holders_on_nodes(session, nodes)
        moments: dict[Key, Moment] = {}
        for each in seen:
            moments |= {key: (each.time, moment) for key, moment in _moments(each, owners).items()}
        known = await repo.of_nodes_now(session, nodes, sorted({key[0] for key in moments} - {NO_RUN}))
    written = await asyncio.to_thread(_written, moments, known, clock.now())
    async with database.begin() as session:
        await repo.add_series(session, [_new_row(item) for item in written if item.known is None])
        changed = [(item.known.id, item.known.count, item.values) for item in written if item.known and not item.block]
        await repo.write_many(session, changed)
        for item in written:
            if item.known is None or item.block is None:
                continue
            if await repo.write_series(session, item.known.id, item.known.count, item.values):
                await repo.add_block(session, item.block)


def _moments(seen: NodeFigures, owners: Mapping[tuple[str, int], tuple[str, int]]) -> dict[Key, Mapping[str, float]]:
    """Series -> figures. What has none, such as an invented card, has no series either."""
    node = seen.node
    found: dict[Key, Mapping[str, float]] = {(NO_RUN, 0, node, MACHINE): seen.figures}
    runs: set[tuple[str, int]] = set()
    for card in seen.cards:
        found[NO_RUN, 0, node, f"{GPU}{card.index}"] = card.figures
        owner = owners.get((node, card.index))
        if owner is not None and card.figures:
            found[*owner, node, f"{GPU}{card.index}"] = card.figures
            runs.add(owner)
    for run in seen.runs:
        found[run.job_id, run.attempt, node, JOB] = run.figures
        runs.add((run.job_id, run.attempt))
    for job_id, attempt in runs:
        found[job_id, attempt, node, MACHINE] = seen.figures
    return {key: moment for key, moment in found.items() if moment}


def _written(moments: Mapping[Key, Moment], known: Mapping[Key, KnownSeries], now: datetime) -> list[_Written]:
    written = []
    for key, (time, moment) in moments.items():
        row = known.get(key)
        if row is not None and time <= row.last_time:
            continue  # a clock that was set back: columns of times ascend
        written.append(_one(key, row, moment, time, now))
    return written


def _one(key: Key, row: KnownSeries | None, moment: Mapping[str, float], time: float, now: datetime) -> _Written:
    frame = Frame() if row is None else figures.decode(row.open)
    frame.add(time, moment)
    blocks = 0 if row is None else row.blocks
    block = None
    if row is not None and len(frame) >= figures.BLOCK_POINTS:
        block = {
            "series_id": row.id,
            "block": blocks,
            "last_time": time,
            "rollup": figures.rollup(frame),
            "data": figures.encode(frame),
        }
        blocks, frame = blocks + 1, Frame()
    values = {
        "count": 1 if row is None else row.count + 1,
        "blocks": blocks,
        "last_time": time,
        "last": dict(moment),
        "seen_at": now,
        "idle_since": _idle_since(key, row, moment, now),
        "open": figures.encode(frame),
    }
    return _Written(key, row, values, block)


def _idle_since(key: Key, row: KnownSeries | None, moment: Mapping[str, float], now: datetime) -> datetime | None:
    """Of a run's card. The first look counts as the beginning: what was before is not known."""
    if key[0] == NO_RUN or not key[3].startswith(GPU) or moment.get(USE, 100.0) >= IDLE_PERCENT:
        return None
    return now if row is None or row.idle_since is None else row.idle_since


def _new_row(item: _Written) -> dict[str, Any]:
    job_id, attempt, node, part = item.key
    place = {"job_id": job_id, "attempt": attempt, "node": node, "part": part}
    return place | {"first_time": item.values["last_time"]} | item.values
