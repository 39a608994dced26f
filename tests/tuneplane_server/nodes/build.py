"""Announcements as nodes send them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tuneplane_node.engine import Gpu, Inventory
from tuneplane_node.versions import VERSION
from tuneplane_node.wire import Announcement, NodeHello, NodeProblem
from tuneplane_server.features.nodes.node import Node
from tuneplane_server.features.nodes.service import NodesService

TOKEN = "a token that both sides have".replace(" ", "-")


def inventory(gpus: int = 2, **changed: Any) -> Inventory:
    cards = tuple(
        Gpu(index, "h200", "NVIDIA H200", 150 * 10**9, f"uuid-{index}", "580", False) for index in range(gpus)
    )
    plain = Inventory("gpu-1", "x86_64", "6.1", "x", 64, 2**40, 2**39, 2**41, 2**40, cards, ())
    return replace(plain, **changed)


def announcement(name: str = "gpu-1", **changed: Any) -> Announcement:
    """`changed`: of the hello, or `address`, `inventory`, `findings` of the announcement itself."""
    given = {key: changed.pop(key) for key in ("address", "inventory", "findings") if key in changed}
    hello = NodeHello(
        node_id=f"id-{name}",
        name=name,
        version=VERSION,
        storage_root="/data/tuneplane",
        runtime="docker",
        boot_id="boot-1",
        started_at=1000.0,
        time=1.0,
    )
    plain = Announcement(replace(hello, **changed), f"http://{name}:8643", inventory())
    return replace(plain, **given)


def finding(code: str = "gpu-query-failed", **values: Any) -> NodeProblem:
    return NodeProblem(code, values, "in its own words", "text", "hint")


async def ready(nodes: NodesService, name: str = "gpu-1", **changed: Any) -> Node:
    """A node that has joined and proved its storage root."""
    await nodes.announce(announcement(name, **changed), "10.0.0.1")
    node = await nodes.get(name)
    assert node is not None
    await nodes.proved(name, node.daemon_start, None)
    node = await nodes.get(name)
    assert node is not None
    assert node.placeable
    return node
