"""What the console knows of a node, as others use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tuneplane_node.engine import Finding, Inventory
from tuneplane_node.wire import StrangerSeen
from tuneplane_server.domain.nodes import NodeHealth, NodeState


@dataclass(frozen=True)
class NodeProblem:
    """Why a node is refused or cannot be called: a code of `features.nodes.texts`, and the values of its sentence."""

    code: str
    values: Mapping[str, Any] = field(default_factory=dict)
    detail: str = ""


@dataclass(frozen=True)
class Fence:
    """An attempt that was given up on a node. `node_id`: the machine that had it."""

    node: str
    job_id: str
    attempt: int
    node_id: str
    created_at: datetime


@dataclass(frozen=True)
class Node:
    """A node now. `daemon_start` names the start of its daemon; `proved_at` is None until the storage root was proved for that
    start. `findings` are said in whatever language: `known_finding` says them in the reader's. `fences` are open: the node is not placeable before they are gone. `clock_offset`: seconds that its clock is ahead.
    """

    name: str
    node_id: str
    address: str
    version: str
    state: NodeState
    health: NodeHealth
    problem: NodeProblem | None
    last_heard: datetime
    joined_at: datetime
    daemon_start: str
    proved_at: datetime | None
    inventory: Inventory
    findings: tuple[Finding, ...]
    fences: tuple[Fence, ...]
    runtime: str
    isolates: bool
    image_form: str
    simulated: bool
    storage_root: str
    state_by: str
    state_at: datetime
    clock_offset: float | None = None
    strangers: tuple[StrangerSeen, ...] = ()  # jobs there that were launched under another node id
    asked_at: datetime | None = None  # when this start's storage root was last looked at, whatever came of it

    @property
    def placeable(self) -> bool:
        """Whether something new may begin there."""
        return self.state is NodeState.READY and self.health is NodeHealth.READY and not self.fences

    @property
    def heard(self) -> bool:
        """Whether it said a moment ago that it is there."""
        return self.health not in (NodeHealth.LOST, NodeHealth.UNREACHABLE)
