"""The hardware registry: profiles from what the executor's machines have, and who holds what."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.domain.placement import Assignment, NodeRoom, NoRoom, PoolRequest, place
from tuneplane_server.executors.port import Executor, ExecutorUnreachableError, NodeInfo
from tuneplane_server.features.hardware import repo

CPU_PROFILE = "cpu"
INVENTORY_SECONDS = 10.0  # how old an inventory may be; nvidia-smi takes its time


@dataclass(frozen=True)
class Profile:
    """One entry of the registry. `gpus_per_node`: of its largest node; CPUs and memory likewise."""

    name: str
    gpus_per_node: int
    nodes: int
    total_gpus: int
    free_gpus: int
    cpus: float
    memory_gb: float
    simulated: bool


class HardwareService:
    def __init__(self, database: Database, clock: Clock, executor: Executor) -> None:
        self._database, self._clock, self._executor = database, clock, executor
        self._lock = asyncio.Lock()
        self._seen: tuple[float, list[NodeInfo]] | None = None

    async def nodes(self) -> list[NodeInfo]:
        """The machines, at most `INVENTORY_SECONDS` old; the last known ones while the executor is away."""
        async with self._lock:
            now = self._clock.now().timestamp()
            if self._seen is not None and now - self._seen[0] < INVENTORY_SECONDS:
                return self._seen[1]
            try:
                nodes = await self._executor.nodes()
            except ExecutorUnreachableError:
                return [] if self._seen is None else self._seen[1]
            self._seen = (now, nodes)
            return nodes

    async def profiles(self) -> list[Profile]:
        """`cpu` always, then the cards by name."""
        nodes = await self.nodes()
        async with self._database.session() as session:
            held = await repo.held_gpus(session)
        names = sorted({gpu.profile for node in nodes for gpu in node.gpus})
        return [_profile(CPU_PROFILE, nodes, held), *(_profile(name, nodes, held) for name in names)]

    async def profile(self, name: str) -> Profile | None:
        return next((item for item in await self.profiles() if item.name == name), None)

    def ever_fits(self, pools: Sequence[PoolRequest], nodes: Sequence[NodeInfo]) -> NoRoom | None:
        """None when an empty cluster of these machines has room for the pools; else what stands in the way."""
        found = place(pools, _rooms(nodes, {}, {}))
        return found if isinstance(found, NoRoom) else None

    async def hold(
        self, session: AsyncSession, job_id: str, attempt: int, pools: Sequence[PoolRequest], nodes: list[NodeInfo]
    ) -> list[Assignment] | NoRoom:
        """Place the pools on what is free and hold it, in the running transaction."""
        await repo.lock_placement(session)
        rooms = _rooms(nodes, await repo.held_gpus(session), await repo.held_cpus(session))
        placed = place(pools, rooms)
        if not isinstance(placed, NoRoom):
            await repo.hold(session, job_id, attempt, placed, self._clock.now())
        return placed

    async def release(self, session: AsyncSession, job_id: str, attempt: int) -> None:
        """Only after the executor confirmed that nothing of the attempt is left."""
        await repo.release(session, job_id, attempt)

    async def simulated(self, pools: Sequence[PoolRequest]) -> bool:
        """Whether any of the pools' cards are invented."""
        wanted = {pool.profile for pool in pools if pool.gpus_per_node}
        return any(gpu.simulated for node in await self.nodes() for gpu in node.gpus if gpu.profile in wanted)

    async def overview(self) -> dict[str, Any]:
        """What `GET /hardware` answers, without the capabilities."""
        nodes = await self.nodes()
        async with self._database.session() as session:
            holders = {(row.node, row.gpu_index): row.job_id for row in await repo.holders(session)}
        return {
            "profiles": [vars(profile) for profile in await self.profiles()],
            "nodes": [_node_view(node, holders) for node in nodes],
        }


def _profile(name: str, nodes: Sequence[NodeInfo], held: dict[str, set[int]]) -> Profile:
    if name == CPU_PROFILE:
        mine = [(node, ()) for node in nodes]
    else:
        mine = [(node, cards) for node in nodes if (cards := tuple(gpu for gpu in node.gpus if gpu.profile == name))]
    free = sum(1 for node, cards in mine for gpu in cards if gpu.index not in held.get(node.name, ()))
    return Profile(
        name=name,
        gpus_per_node=max((len(cards) for _node, cards in mine), default=0),
        nodes=len(mine),
        total_gpus=sum(len(cards) for _node, cards in mine),
        free_gpus=free,
        cpus=max((node.cpus for node, _cards in mine), default=0),
        memory_gb=max((node.memory_gb for node, _cards in mine), default=0),
        simulated=any(gpu.simulated for _node, cards in mine for gpu in cards),
    )


def _rooms(
    nodes: Sequence[NodeInfo], gpus: dict[str, set[int]], cpus: dict[str, tuple[float, float]]
) -> list[NodeRoom]:
    """What is free, given what is held."""
    rooms = []
    for node in nodes:
        free: dict[str, tuple[int, ...]] = {CPU_PROFILE: ()}
        for gpu in node.gpus:
            mine = () if gpu.index in gpus.get(node.name, ()) else (gpu.index,)
            free[gpu.profile] = free.get(gpu.profile, ()) + mine
        used_cpus, used_memory = cpus.get(node.name, (0.0, 0.0))
        rooms.append(NodeRoom(node.name, free, node.cpus - used_cpus, round(node.memory_gb - used_memory, 3)))
    return rooms


def _node_view(node: NodeInfo, holders: dict[tuple[str, int], str]) -> dict[str, Any]:
    return {
        "name": node.name,
        "cpus": node.cpus,
        "memory_gb": node.memory_gb,
        "simulated": any(gpu.simulated for gpu in node.gpus),
        "gpus": [vars(gpu) | {"job_id": holders.get((node.name, gpu.index))} for gpu in node.gpus],
        **dict(node.facts),
    }
