"""What a waiting job can be told about what it waits for: what is free where, and who holds the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from tuneplane_server.domain.line import Live
from tuneplane_server.domain.placement import Machine, NodeRoom, PoolRequest

MOST_NODES, MOST_HOLDERS = 16, 5


@dataclass(frozen=True, slots=True)
class FreeOnNode:
    """`gpus`: free cards of the profile; 0 where the profile has no cards."""

    node: str
    profile: str
    gpus: int
    cpus: float
    memory_gb: float


@dataclass(frozen=True, slots=True)
class Holder:
    """A run that holds some of what is wanted. `until`: when it has given it back at the latest, None when unknown."""

    job_id: str
    owner: str
    gpus: int
    cpus: float
    until: datetime | None


def free_for(pools: Sequence[PoolRequest], rooms: Iterable[NodeRoom]) -> list[FreeOnNode]:
    """The nodes that could run a machine of one of the pools, those with the most free first."""
    found = [
        FreeOnNode(room.name, profile, len(room.free_gpus[profile]), room.free_cpus, room.free_memory_gb)
        for profile in dict.fromkeys(pool.profile for pool in pools)
        for room in rooms
        if profile in room.free_gpus
    ]
    found.sort(key=lambda item: (-item.gpus, -item.cpus, item.node, item.profile))
    return found[:MOST_NODES]


def holders_of(
    pools: Sequence[PoolRequest], live: Iterable[Live], machines: Mapping[str, Machine]
) -> tuple[list[Holder], int]:
    """(those who hold the most of it, how many more there are). Of pools without cards: CPUs on any node."""
    cards = {pool.profile for pool in pools if pool.gpus_per_node}
    found = []
    for item in live:
        gpus = sum(_held(hold.node, hold.gpus, cards, machines) for hold in item.holds)
        cpus = sum(hold.cpus for hold in item.holds)
        if gpus or (not cards and cpus):
            found.append(Holder(item.job_id, item.owner, gpus, cpus, item.ends_at))
    found.sort(key=lambda holder: (-holder.gpus, -holder.cpus, holder.job_id))
    return found[:MOST_HOLDERS], max(0, len(found) - MOST_HOLDERS)


def _held(node: str, gpus: Sequence[int], profiles: Iterable[str], machines: Mapping[str, Machine]) -> int:
    """How many of these cards are of one of the profiles."""
    machine = machines.get(node)
    if machine is None:
        return 0
    return len({index for profile in profiles for index in machine.cards.get(profile, ())}.intersection(gpus))
