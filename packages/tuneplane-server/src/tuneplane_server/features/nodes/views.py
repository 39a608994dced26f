"""How nodes look to the API. Dictionaries: of a thousand nodes, objects that are checked as they are made took a third of a second."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TypedDict

from tuneplane_node.engine import Finding
from tuneplane_node.wire import known_finding
from tuneplane_server.domain.nodes import NodeHealth, NodeState
from tuneplane_server.features.hardware.service import HeldByAttempt
from tuneplane_server.features.nodes.heard import Stranger
from tuneplane_server.features.nodes.node import Node, NodeProblem
from tuneplane_server.features.nodes.texts import problem_hint, problem_text

GIB = 2**30


class ProblemView(TypedDict):
    """In the reader's language; `detail` is what the machine itself said."""

    code: str
    text: str
    hint: str
    detail: str


class FindingView(TypedDict):
    code: str
    level: str
    text: str
    hint: str
    detail: str


class CardView(TypedDict):
    """`job_id`: who holds it."""

    index: int
    series: str
    product: str
    memory_gb: float | None
    simulated: bool
    job_id: str | None


class HolderView(TypedDict):
    """An attempt that holds something of the node. `gpus`: indices of its cards."""

    job_id: str
    attempt: int
    gpus: list[int]
    cpus: float
    memory_gb: float
    since: datetime


class FenceView(TypedDict):
    """An attempt that was given up on the node and is to be cleaned up there before the node is used again."""

    job_id: str
    attempt: int
    since: datetime


class LeftJobView(TypedDict):
    """A job on the machine that was launched under another node id. `gpus`: null when its cards cannot be told."""

    job_id: str
    attempt: int
    node_id: str
    running: bool
    gpus: list[int] | None


class NodeView(TypedDict):
    """`state` is what administrators want, `health` how it is. `placeable`: something new may begin there now."""

    name: str
    node_id: str
    address: str
    version: str
    state: NodeState
    state_by: str
    state_at: datetime
    health: NodeHealth
    problem: ProblemView | None
    placeable: bool
    last_heard: datetime
    joined_at: datetime
    proved_at: datetime | None
    clock_offset: float | None
    storage_root: str
    runtime: str
    isolated: bool
    simulated: bool
    cpus: int
    memory_gb: float
    cards: list[CardView]
    runs: list[HolderView]
    fences: list[FenceView]
    left_jobs: list[LeftJobView]
    findings: list[FindingView]


class StrangerView(TypedDict):
    """A machine that announces itself under a name that another one has."""

    name: str
    node_id: str
    address: str
    heard_at: datetime
    problem: ProblemView


class NodeList(TypedDict):
    items: list[NodeView]
    refused: list[StrangerView]


def node_view(node: Node, runs: Sequence[HolderView]) -> NodeView:
    """`runs`: what `runs_by_node` found there."""
    holder = {index: run["job_id"] for run in runs for index in run["gpus"]}
    return NodeView(
        name=node.name,
        node_id=node.node_id,
        address=node.address,
        version=node.version,
        state=node.state,
        state_by=node.state_by,
        state_at=node.state_at,
        health=node.health,
        problem=None if node.problem is None else problem_view(node.problem),
        placeable=node.placeable,
        last_heard=node.last_heard,
        joined_at=node.joined_at,
        proved_at=node.proved_at,
        clock_offset=None if node.clock_offset is None else round(node.clock_offset, 3),
        storage_root=node.storage_root,
        runtime=node.runtime,
        isolated=node.isolates,
        simulated=node.simulated,
        cpus=node.inventory.cpus,
        memory_gb=round(node.inventory.memory_bytes / GIB, 1),
        cards=[
            CardView(
                index=gpu.index,
                series=gpu.series,
                product=gpu.name,
                memory_gb=None if gpu.memory_bytes is None else round(gpu.memory_bytes / GIB, 1),
                simulated=gpu.simulated,
                job_id=holder.get(gpu.index),
            )
            for gpu in node.inventory.gpus
        ],
        runs=list(runs),
        fences=[FenceView(job_id=f.job_id, attempt=f.attempt, since=f.created_at) for f in node.fences],
        left_jobs=[
            LeftJobView(
                job_id=left.job,
                attempt=left.attempt,
                node_id=left.instance,
                running=left.running,
                gpus=None if left.gpus is None else list(left.gpus),
            )
            for left in node.strangers
        ],
        findings=[_finding_view(known_finding(found)) for found in node.findings],
    )


def _finding_view(found: Finding) -> FindingView:
    return FindingView(code=found.code, level=found.level, text=found.text, hint=found.hint, detail=found.detail)


def stranger_view(stranger: Stranger) -> StrangerView:
    return StrangerView(
        name=stranger.name,
        node_id=stranger.node_id,
        address=stranger.address,
        heard_at=stranger.heard_at,
        problem=problem_view(stranger.problem),
    )


def problem_view(problem: NodeProblem) -> ProblemView:
    return ProblemView(code=problem.code, text=problem_text(problem), hint=problem_hint(problem), detail=problem.detail)


def runs_by_node(held: Sequence[HeldByAttempt]) -> dict[str, list[HolderView]]:
    found: dict[str, list[HolderView]] = {}
    for item in held:
        for hold in item.holds:
            view = HolderView(
                job_id=item.job_id,
                attempt=item.attempt,
                gpus=sorted(hold.gpus),
                cpus=hold.cpus,
                memory_gb=hold.memory_gb,
                since=item.since,
            )
            found.setdefault(hold.node, []).append(view)
    return found
