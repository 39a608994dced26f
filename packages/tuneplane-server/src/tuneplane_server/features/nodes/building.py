"""A `Node` out of its row and of what was heard of it since."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tuneplane_node.engine import Inventory
from tuneplane_node.versions import VERSION, fit
from tuneplane_node.wire import API_VERSIONS, NodeHello
from tuneplane_server.domain.nodes import UNHEARD_AFTER, NodeFacts, NodeHealth, NodeState, health_of
from tuneplane_server.features.nodes.heard import LastWord
from tuneplane_server.features.nodes.known import Known, Snapshot
from tuneplane_server.features.nodes.node import Fence, Node, NodeProblem
from tuneplane_server.features.nodes.tables import NodeRow
from tuneplane_server.features.nodes.texts import NODE_VERSION

_NOTHING = Inventory("", "", "", "", 0, 0, 0, 0, 0, (), ())


def daemon_start(hello: NodeHello) -> str:
    """Names one start of a node's daemon: another one has to prove the storage root anew."""
    return f"{hello.boot_id}/{hello.started_at:.3f}"[:200]


@dataclass(frozen=True)
class _Made:
    known: Known
    word: LastWord | None
    heard: datetime
    fences: tuple[Fence, ...]
    node: Node


class NodeBuilder:
    """Nodes are asked for many times a second and tell something new every ten: what was made of the same is given again."""

    def __init__(self, lost_after: timedelta | None) -> None:
        self._lost_after = lost_after
        self._made: dict[str, _Made] = {}

    def build(self, seen: Snapshot, name: str, word: LastWord | None, now: datetime) -> Node:
        known, fences = seen.nodes[name], seen.fences.get(name, ())
        heard = seen.heard[name] if word is None else max(word.at, seen.heard[name])
        made = self._made.get(name)
        if (
            made is not None
            and made.known is known
            and made.word is word
            and (made.heard, made.fences) == (heard, fences)
            and now - heard < UNHEARD_AFTER
            and made.node.health not in (NodeHealth.LOST, NodeHealth.UNREACHABLE)
        ):
            return made.node
        node = build(known, seen, word, now, self._lost_after)
        self._made[name] = _Made(known, word, heard, fences, node)
        if len(self._made) > 2 * len(seen.nodes) + 100:
            self._made = {name: made for name, made in self._made.items() if name in seen.nodes}
        return node


def build(known: Known, seen: Snapshot, word: LastWord | None, now: datetime, lost_after: timedelta | None) -> Node:
    row = known.row
    heard = seen.heard[row.name] if word is None else max(word.at, seen.heard[row.name])
    told = known.announcement if word is None or word.announcement is None else word.announcement
    fences = tuple(fence for fence in seen.fences.get(row.name, ()) if fence.node_id == row.node_id)
    refusal, start = refusal_of(row, told.hello), daemon_start(told.hello)
    proved = row.proved_at if row.proved_start == start and row.refusal is None else None
    facts = NodeFacts(heard, refusal is not None, row.unreachable is None, proved is not None, bool(fences), lost_after)
    health = health_of(facts, now)
    return Node(
        name=row.name,
        node_id=row.node_id,
        address=row.address,
        version=told.hello.version,
        state=NodeState(row.state),
        health=health,
        problem=_problem(health, row, refusal),
        last_heard=heard,
        joined_at=row.joined_at,
        daemon_start=start,
        proved_at=proved,
        inventory=told.inventory or _NOTHING,
        findings=tuple(found.finding() for found in told.findings),
        fences=fences,
        runtime=told.hello.runtime,
        isolates=told.hello.isolates,
        image_form=told.hello.image_form,
        simulated=told.hello.simulated,
        storage_root=told.hello.storage_root,
        state_by=row.state_by,
        state_at=row.state_at,
        strangers=told.strangers,
        clock_offset=None if word is None else word.clock_offset,
        asked_at=row.proved_at if row.proved_start == start else None,
    )


def refusal_of(row: NodeRow, hello: NodeHello) -> NodeProblem | None:
    """Why the node cannot be used as it is: its version, else what the last proof of its storage root found."""
    if not fit(VERSION, hello.version) or not set(API_VERSIONS) & set(hello.api):
        return NodeProblem(NODE_VERSION, {"node": hello.version, "console": VERSION})
    return None if row.refusal is None else _stored(row.refusal)


def _problem(health: NodeHealth, row: NodeRow, refusal: NodeProblem | None) -> NodeProblem | None:
    if health is NodeHealth.REFUSED:
        return refusal
    if health in (NodeHealth.UNREACHABLE, NodeHealth.LOST):
        return (
            _stored(row.unreachable) if row.unreachable else NodeProblem("node-unreachable", {"address": row.address})
        )
    return None


def _stored(value: Mapping[str, Any]) -> NodeProblem:
    return NodeProblem(value["code"], value.get("values", {}), value.get("detail", ""))
