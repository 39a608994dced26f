"""Handles of the executor `agent`, and the labels from which they are made again.

`data`: `{"agent": 1, "machines": [{"node": name, "where": "docker/tp-…"}], "main": "ip:port", "grace": seconds}`, machines by rank;
`where` is empty for one that was not seen. What else a launch needs to go on with is on the containers themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta

from tuneplane_node.engine import RuntimeHandle
from tuneplane_node.wire import ContainerSeen
from tuneplane_server.executors.port import Handle

MARK = "agent"
PROCESS = "process"  # the one runtime that isolates nothing
LABEL_MAIN, LABEL_NODES, LABEL_GRACE = "tuneplane.main", "tuneplane.nodes", "tuneplane.grace"
DEFAULT_GRACE = 60.0


def is_agents(handle: Handle) -> bool:
    """False for one that the executor `local` made, before the setting was changed."""
    return MARK in handle.data


def rank_of(container: ContainerSeen) -> int | None:
    """The machine rank in the name (`executors.port.launch_name`)."""
    rank = container.handle.rpartition("-")[2]
    return int(rank) if rank.isdecimal() else None


def of_rank(containers: Iterable[ContainerSeen], rank: int) -> ContainerSeen | None:
    return next((item for item in containers if rank_of(item) == rank), None)


def grace_of(handle: Handle) -> timedelta:
    return timedelta(seconds=float(handle.data.get("grace", DEFAULT_GRACE)))


def nodes_of(handle: Handle) -> tuple[str, ...]:
    return handle.nodes or tuple(item["node"] for item in handle.data.get("machines", ()))


def make_handle(
    job_id: str, attempt: int, found: Mapping[str, Iterable[ContainerSeen]], planned: tuple[str, ...] = ()
) -> Handle:
    """From what nodes have of an attempt: node -> containers. `planned`: its nodes by rank, for want of a label."""
    seen = {rank: item for items in found.values() for item in items if (rank := rank_of(item)) is not None}
    labels = seen[min(seen)].labels if seen else {}
    nodes = tuple(filter(None, labels.get(LABEL_NODES, "").split(","))) or planned or tuple(found)
    where = [seen[rank].handle if rank in seen else "" for rank in range(len(nodes))]
    machines = [{"node": node, "where": place} for node, place in zip(nodes, where, strict=True)]
    runtimes = sorted({RuntimeHandle.parse(place).runtime for place in where if place})
    data = {
        MARK: 1,
        "machines": machines,
        "main": labels.get(LABEL_MAIN, ""),
        "grace": float(labels.get(LABEL_GRACE) or DEFAULT_GRACE),
    }
    isolated = PROCESS not in runtimes if runtimes else None
    return Handle(job_id, attempt, data, "+".join(runtimes), isolated, nodes)
