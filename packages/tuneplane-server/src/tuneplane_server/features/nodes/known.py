"""Nodes as they are asked for again and again: of a thousand rows a look reads again only those that have changed."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tuneplane_node.engine import Inventory
from tuneplane_node.wire import Announcement, NodeHello, NodeProblem, from_json
from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.features.nodes import repo
from tuneplane_server.features.nodes.node import Fence
from tuneplane_server.features.nodes.tables import NodeFenceRow, NodeRow

LOOK_EVERY = timedelta(seconds=1)  # what another console has changed is known here so much later


@dataclass(frozen=True)
class Told:
    """What a node tells, without what is another figure each time: of this the row is written when it changes."""

    hello: NodeHello
    inventory: Inventory | None
    findings: frozenset[tuple[str, str]]
    address: str

    @classmethod
    def of(cls, announcement: Announcement) -> Told:
        inventory = announcement.inventory
        if inventory is not None:
            inventory = replace(inventory, memory_available_bytes=0, disk_free_bytes=0, findings=())
        findings = frozenset((found.code, found.level) for found in announcement.findings)
        return cls(replace(announcement.hello, time=0.0, ticket=""), inventory, findings, announcement.address)


@dataclass(frozen=True)
class Known:
    """A row, and what it holds as values."""

    row: NodeRow
    announcement: Announcement
    told: Told

    @classmethod
    def of(cls, row: NodeRow) -> Known:
        announcement = Announcement(
            from_json(NodeHello, row.hello),
            row.address,
            from_json(Inventory, row.inventory) if row.inventory else None,
            tuple(from_json(NodeProblem, found) for found in row.findings),
        )
        return cls(row, announcement, Told.of(announcement))


@dataclass(frozen=True)
class Snapshot:
    """`heard`: as far as consoles have written it."""

    at: datetime
    nodes: Mapping[str, Known]
    heard: Mapping[str, datetime]
    fences: Mapping[str, tuple[Fence, ...]]


class KnownNodes:
    def __init__(self, database: Database, clock: Clock) -> None:
        self._database, self._clock = database, clock
        self._lock = asyncio.Lock()
        self._last: Snapshot | None = None
        self._reading: asyncio.Task[Snapshot] | None = None

    async def refresh(self, names: Sequence[str]) -> None:
        """This console has changed something about these nodes: its next look must have it."""
        async with self._lock:
            if self._last is None:
                return
            async with self._database.session() as session:
                found = {row.name: row async for row in repo.rows(session, names)}
                fences = await repo.fences(session)
            nodes, heard = dict(self._last.nodes), dict(self._last.heard)
            for name in names:
                row = found.get(name)
                if row is not None:
                    nodes[name], heard[name] = Known.of(row), row.last_heard
                else:
                    nodes.pop(name, None)
                    heard.pop(name, None)
            self._last = Snapshot(self._last.at, nodes, heard, _by_node(fences))

    async def look(self) -> Snapshot:
        """At most `LOOK_EVERY` old; what this console has written itself is in it (`refresh`). Whoever asks while it is read waits for
        that one look: hundreds ask a second, and a lock would let them through one by one.
        """
        if (last := self._last) is not None and self._is_fresh(last):
            return last
        if self._reading is None:
            self._reading = asyncio.create_task(self._look(), name="nodes")
        return await asyncio.shield(self._reading)

    def _is_fresh(self, seen: Snapshot) -> bool:
        return timedelta() <= self._clock.now() - seen.at < LOOK_EVERY  # a clock may be set back

    async def _look(self) -> Snapshot:
        try:
            async with self._lock:
                self._last = await self._read(self._clock.now())
                return self._last
        finally:
            self._reading = None

    async def _read(self, now: datetime) -> Snapshot:
        before: Mapping[str, Known] = {} if self._last is None else self._last.nodes
        async with self._database.session() as session:
            marks = await repo.marks(session)
            fences = await repo.fences(session)
            known = {
                mark.name: before[mark.name]
                for mark in marks
                if mark.name in before and before[mark.name].row.version == mark.version
            }
            async for row in repo.rows(session, [mark.name for mark in marks if mark.name not in known]):
                known[row.name] = Known.of(row)
        nodes = {mark.name: known[mark.name] for mark in marks if mark.name in known}
        return Snapshot(now, nodes, {mark.name: mark.last_heard for mark in marks}, _by_node(fences))


def _by_node(rows: Sequence[NodeFenceRow]) -> dict[str, tuple[Fence, ...]]:
    found: dict[str, tuple[Fence, ...]] = {}
    for row in rows:
        fence = Fence(row.node, row.job_id, row.attempt, row.node_id, row.created_at)
        found[row.node] = (*found.get(row.node, ()), fence)
    return found
