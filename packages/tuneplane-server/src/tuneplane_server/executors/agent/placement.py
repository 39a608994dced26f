"""Which nodes may get work: those that are well, and that run jobs in the same way as the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

from tuneplane.i18n import _
from tuneplane_node.engine import Gpu
from tuneplane_server.domain.nodes import NodeHealth, NodeState
from tuneplane_server.executors.port import Capabilities, GpuInfo, NodeInfo
from tuneplane_server.features.nodes.node import Node
from tuneplane_server.features.nodes.texts import problem_text

GIB = 1024**3
OCI = "oci"


@dataclass(frozen=True)
class Way:
    """How jobs run on a node: what `image` is there, and whether it keeps them apart from the machine."""

    image_form: str
    isolates: bool


def common_way(nodes: Sequence[Node]) -> Way | None:
    """How most of the nodes run jobs that could get work; at a tie, how the one does that joined first. None without any."""
    sound = [node for node in nodes if node.health is NodeHealth.READY] or list(nodes)
    ways = Counter(_way(node) for node in sorted(sound, key=lambda node: node.joined_at))
    return ways.most_common(1)[0][0] if ways else None


def capabilities_of(nodes: Sequence[Node]) -> Capabilities:
    way = common_way(nodes) or Way(OCI, isolates=True)
    runtimes = Counter(node.runtime for node in nodes if node.runtime and _way(node) == way)
    return Capabilities(
        runtime=runtimes.most_common(1)[0][0] if runtimes else "",
        image_form=cast(Literal["oci", "environment"], way.image_form),
        multi_node=True,
        isolates=way.isolates,
    )


def node_info(node: Node, way: Way | None) -> NodeInfo:
    """`way`: how the others run jobs."""
    why = why_not(node, way)
    found = node.inventory
    return NodeInfo(
        name=node.name,
        cpus=float(found.cpus),
        memory_gb=round(found.memory_bytes / GIB, 1),
        gpus=tuple(_gpu(gpu) for gpu in found.gpus),
        facts={
            "architecture": found.architecture,
            "kernel": found.kernel,
            "cpu_model": found.cpu_model,
            "disk_gb": round(found.disk_bytes / GIB, 1),
            "disk_free_gb": round(found.disk_free_bytes / GIB, 1),
        },
        placeable=not why,
        why=why,
    )


def why_not(node: Node, way: Way | None) -> str:
    """Why nothing new begins there, in the current language; empty when it may."""
    if node.state is NodeState.CORDONED:
        return _("taken out of use by {who}").format(who=node.state_by)
    if node.state is NodeState.DRAINING:
        return _("being drained, by order of {who}").format(who=node.state_by)
    if node.state is NodeState.REMOVED:
        return _("removed by {who}").format(who=node.state_by)
    if node.problem is not None:
        return problem_text(node.problem)
    if not node.heard:
        return _("not heard of since {since}").format(since=f"{node.last_heard:%Y-%m-%d %H:%M} UTC")
    if node.health is not NodeHealth.READY:
        return _("has not proved yet that its storage root is the console's")
    if node.fences:
        return _("has not proved yet that what was given up there is gone: {runs}").format(
            runs=", ".join(fence.job_id for fence in node.fences[:5])
        )
    if way is not None and _way(node) != way:
        return _(
            "runs jobs in another way than the other nodes ({runtime}): an image that fits them does not fit it"
        ).format(runtime=node.runtime or node.image_form)
    return ""


def _way(node: Node) -> Way:
    return Way(node.image_form, node.isolates)


def _gpu(gpu: Gpu) -> GpuInfo:
    memory = None if gpu.memory_bytes is None else round(gpu.memory_bytes / GIB, 1)
    return GpuInfo(gpu.index, gpu.series, gpu.name, memory, gpu.simulated)
