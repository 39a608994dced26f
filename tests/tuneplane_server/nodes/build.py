"""Announcements as nodes send them."""

from __future__ import annotations

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
    values: dict[str, Any] = {
        "hostname": "gpu-1",
        "architecture": "x86_64",
        "kernel": "6.1",
        "cpu_model": "x",
        "cpus": 64,
    }
    sizes = {"memory_bytes": 2**40, "memory_available_bytes": 2**39, "disk_bytes": 2**41, "disk_free_bytes": 2**40}
    values |= sizes | {"gpus": cards, "findings": ()} | changed
    return Inventory(**values)


def announcement(name: str = "gpu-1", **changed: Any) -> Announcement:
    """`changed`: of the hello, or `address`, `inventory`, `findings` of the announcement itself."""
    given = {key: changed.pop(key) for key in ("address", "inventory", "findings") if key in changed}
    said: dict[str, Any] = {
        "node_id": f"id-{name}",
        "name": name,
        "version": VERSION,
        "storage_root": "/data/tuneplane",
        "runtime": "docker",
        "boot_id": "boot-1",
        "started_at": 1000.0,
        "time": 1.0,
    }
    rest: dict[str, Any] = {"address": f"http://{name}:8643", "inventory": inventory()}
    return Announcement(NodeHello(**(said | changed)), **(rest | given))


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
