"""Where a job runs: pools onto nodes, all or nothing, tightest node first so that big requests find room later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class PoolRequest:
    """`nodes` machines of one profile, each with `gpus_per_node` cards, `cpus` and `memory_gb` (0: no claim)."""

    name: str
    profile: str
    nodes: int
    gpus_per_node: int
    cpus: float = 0
    memory_gb: float = 0


@dataclass(frozen=True)
class NodeRoom:
    """A node as it is now. `free_gpus`: for each profile it answers to, the indices of cards nobody holds (cpu: none)."""

    name: str
    free_gpus: Mapping[str, tuple[int, ...]]
    free_cpus: float
    free_memory_gb: float


@dataclass(frozen=True)
class Machine:
    """A node with all it has. `cards`: for each profile it answers to, the indices of its cards (cpu: none)."""

    name: str
    cards: Mapping[str, tuple[int, ...]]
    cpus: float
    memory_gb: float


@dataclass(frozen=True)
class Hold:
    """What one attempt has on one node."""

    node: str
    gpus: tuple[int, ...] = ()
    cpus: float = 0
    memory_gb: float = 0


@dataclass(frozen=True)
class Assignment:
    """One machine of the job. The position in the placement is its machine rank."""

    pool: str
    node: str
    gpus: tuple[int, ...]
    cpus: float
    memory_gb: float


@dataclass(frozen=True)
class NoRoom:
    """The first pool that does not fit: how many machines it wants and how many have room for one."""

    pool: PoolRequest
    fitting_nodes: int
    free_gpus: int


def place(pools: Sequence[PoolRequest], nodes: Iterable[NodeRoom]) -> list[Assignment] | NoRoom:
    """Assign every machine of every pool, or say which pool has no room. The same input gives the same placement."""
    rooms = {node.name: node for node in nodes}
    placed: list[Assignment] = []
    for pool in pools:
        fitting = sorted(
            (node for node in rooms.values() if fits(pool, node)),
            key=lambda node: (len(node.free_gpus[pool.profile]), node.free_cpus, node.name),
        )
        if len(fitting) < pool.nodes:
            free = sum(len(node.free_gpus.get(pool.profile, ())) for node in rooms.values())
            return NoRoom(pool, len(fitting), free)
        for node in fitting[: pool.nodes]:
            gpus = node.free_gpus[pool.profile][: pool.gpus_per_node]
            placed.append(Assignment(pool.name, node.name, gpus, pool.cpus, pool.memory_gb))
            rooms[node.name] = _taken(node, pool)
    return placed


def room_of(pool: PoolRequest, machines: Iterable[Machine]) -> Machine | None:
    """The machine that has most of what one machine of the pool wants, then the larger one; None when none answers to its profile."""

    def near(machine: Machine) -> tuple[float, int, float, float, str]:
        cards = len(machine.cards[pool.profile])
        pairs = ((cards, pool.gpus_per_node), (machine.cpus, pool.cpus), (machine.memory_gb, pool.memory_gb))
        met = sum(min(1.0, has / wants) for has, wants in pairs if wants)
        return met, cards, machine.cpus, machine.memory_gb, machine.name

    return max((machine for machine in machines if pool.profile in machine.cards), key=near, default=None)


def free_rooms(machines: Iterable[Machine], holds: Iterable[Hold]) -> list[NodeRoom]:
    """What the holds leave free. A hold on a node that is not there takes nothing."""
    held: dict[str, list[Hold]] = {}
    for hold in holds:
        held.setdefault(hold.node, []).append(hold)
    return [_left(machine, held.get(machine.name, ())) for machine in machines]


def room_without(room: NodeRoom, gpus: Iterable[int], cpus: float, memory_gb: float) -> NodeRoom:
    """The node after somebody has taken these cards, CPUs and GB."""
    taken = frozenset(gpus)
    free = room.free_gpus
    if taken:
        free = {profile: tuple(index for index in cards if index not in taken) for profile, cards in free.items()}
    return NodeRoom(room.name, free, round(room.free_cpus - cpus, 3), round(room.free_memory_gb - memory_gb, 3))


def room_with(room: NodeRoom, machine: Machine, hold: Hold) -> NodeRoom:
    """The node after a hold on it has ended; its cards come back under the profiles of `machine`."""
    given = set(hold.gpus)
    free = room.free_gpus
    if given:
        free = {
            profile: tuple(sorted({*free[profile], *given.intersection(cards)}))
            for profile, cards in machine.cards.items()
        }
    cpus, memory_gb = round(room.free_cpus + hold.cpus, 3), round(room.free_memory_gb + hold.memory_gb, 3)
    return NodeRoom(room.name, free, cpus, memory_gb)


def fits(pool: PoolRequest, node: NodeRoom) -> bool:
    """Whether one machine of the pool has room on the node."""
    return (
        pool.profile in node.free_gpus
        and len(node.free_gpus[pool.profile]) >= pool.gpus_per_node
        and node.free_cpus >= pool.cpus
        and node.free_memory_gb >= pool.memory_gb
    )


def _left(machine: Machine, holds: Sequence[Hold]) -> NodeRoom:
    room = NodeRoom(machine.name, machine.cards, machine.cpus, machine.memory_gb)
    if not holds:
        return room
    gpus = [index for hold in holds for index in hold.gpus]
    return room_without(room, gpus, sum(hold.cpus for hold in holds), sum(hold.memory_gb for hold in holds))


def _taken(node: NodeRoom, pool: PoolRequest) -> NodeRoom:
    left = node.free_gpus[pool.profile][pool.gpus_per_node :]
    return replace(
        node,
        free_gpus={**node.free_gpus, pool.profile: left},
        free_cpus=node.free_cpus - pool.cpus,
        free_memory_gb=node.free_memory_gb - pool.memory_gb,
    )
