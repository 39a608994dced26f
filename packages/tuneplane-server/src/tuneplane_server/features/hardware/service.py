"""The hardware registry: profiles from what the executor's machines have, and who holds what."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.domain.fair_share import HALF_LIFE, faded_use
from tuneplane_server.domain.own_queue import is_counted
from tuneplane_server.domain.placement import Assignment, Hold, Machine, NoRoom, PoolRequest, free_rooms, place
from tuneplane_server.domain.quotas import Use
from tuneplane_server.executors.port import Executor, ExecutorUnreachableError, GpuInfo, NodeInfo
from tuneplane_server.features.hardware import repo
from tuneplane_server.features.hardware.figures import GPU, MACHINE, Latest
from tuneplane_server.features.hardware.tables import GpuUseRow

CPU_PROFILE = "cpu"
INVENTORY_SECONDS = 10.0  # how old an inventory may be; nvidia-smi takes its time
# What was used longer ago counts for nothing in the fair share (an eighth of it would be left).
FAIR_SHARE_WINDOW = 3 * HALF_LIFE
PAST_USE_SECONDS = 60.0  # how old the sums of settled uses may be; what is newer is always counted anew


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


@dataclass(frozen=True)
class Holder:
    """The attempt that takes cards. `max_seconds`: its limit, None without one."""

    job_id: str
    attempt: int
    owner_id: str
    project_id: str
    max_seconds: int | None


@dataclass(frozen=True)
class GpuUse(Use):
    """A use and whose it is."""

    job_id: str
    attempt: int
    owner_id: str
    project_id: str


@dataclass(frozen=True)
class HeldByAttempt:
    job_id: str
    attempt: int
    since: datetime
    holds: tuple[Hold, ...]


class HardwareService:
    def __init__(self, database: Database, clock: Clock, executor: Executor) -> None:
        self._database, self._clock, self._executor = database, clock, executor
        self._lock = asyncio.Lock()
        self._seen: tuple[float, list[NodeInfo]] | None = None
        self._changes = 0
        self._past_use: tuple[datetime, list[tuple[str, datetime, float]]] | None = None

    @property
    def own_queue(self) -> str:
        """The executor's name where it has a queue of its own; empty where ours is the only one."""
        return self._executor.name if self._executor.capabilities().own_queue else ""

    async def nodes(self) -> list[NodeInfo]:
        """The machines, at most `INVENTORY_SECONDS` old; the last known ones while the executor is away."""
        if (known := self._known_now()) is not None:  # most of all who ask: a lock would let them through one by one
            return known
        async with self._lock:
            if (known := self._known_now()) is not None:
                return known
            now = self._clock.now().timestamp()
            asked = self._changes
            try:
                nodes = await self._executor.nodes()
            except ExecutorUnreachableError:
                return [] if self._seen is None else self._seen[1]
            self._seen = (now if asked == self._changes else 0.0, nodes)
            return nodes

    def _known_now(self) -> list[NodeInfo] | None:
        age = -1.0 if self._seen is None else self._clock.now().timestamp() - self._seen[0]
        return (
            self._seen[1] if self._seen is not None and 0 <= age < INVENTORY_SECONDS else None
        )  # a clock may be set back

    def look_again(self) -> None:
        """The machines have changed: the next question asks the executor."""
        self._changes += 1  # an answer that is on its way may be of before
        if self._seen is not None:
            self._seen = (0.0, self._seen[1])

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
        """None when an empty cluster of these machines has room for the pools, those counted too that get no work for now; else
        what stands in the way."""
        found = place(pools, free_rooms(all_machines(nodes), ()))
        return found if isinstance(found, NoRoom) else None

    # --- holds and uses -------------------------------------------------------------------------------------------

    async def lock_placement(self, session: AsyncSession) -> None:
        """Of several consoles that decide on what is free, one after the other; until the transaction ends."""
        await repo.lock_placement(session)

    async def hold(
        self, session: AsyncSession, holder: Holder, assignments: Sequence[Assignment], nodes: Sequence[NodeInfo]
    ) -> bool:
        """Hold what a plan assigns and begin its use, in the running transaction, under the placement lock. What is only counted,
        for the executor's own queue, is pending until `begin_use`.

        False, and nothing is held, when CPUs or memory of the assignment were taken meanwhile, or a node gets no work any more; a
        card that somebody holds raises `IntegrityError`: the table itself is the guard.
        """
        used = await repo.held_cpus(session)
        room = {node.name: (node.cpus, node.memory_gb) for node in nodes if node.placeable}
        placed = [item for item in assignments if not is_counted(item.node)]
        for item in placed:
            cpus, memory = used.get(item.node, (0.0, 0.0))
            used[item.node] = (cpus + item.cpus, memory + item.memory_gb)
        if any(not _within(used[item.node], room.get(item.node)) for item in placed if item.cpus or item.memory_gb):
            return False
        now = self._clock.now()
        await repo.hold(session, holder.job_id, holder.attempt, assignments, now)
        limit = None if holder.max_seconds is None else now + timedelta(seconds=holder.max_seconds)
        session.add(
            GpuUseRow(
                job_id=holder.job_id,
                attempt=holder.attempt,
                owner_id=holder.owner_id,
                project_id=holder.project_id,
                gpus=sum(len(item.gpus) for item in assignments),
                started_at=now,
                reserved_until=limit,
                ended_at=None,
                pending=len(placed) < len(assignments),
            )
        )
        return True

    async def begin_use(
        self, session: AsyncSession, job_id: str, attempt: int, seen: datetime | None, max_seconds: int | None
    ) -> None:
        """The executor's own queue has let the attempt go: its use counts from now, or from `seen`, when it began by the executor's
        clock. Nothing for a use that has begun; may be repeated.
        """
        use = await repo.pending_use(session, job_id, attempt)
        if use is None:
            return
        now = self._clock.now()
        use.started_at = now if seen is None else min(max(seen, use.started_at), now)
        use.reserved_until = None if max_seconds is None else use.started_at + timedelta(seconds=max_seconds)
        use.pending = False

    async def release(self, session: AsyncSession, job_id: str, attempt: int) -> None:
        """Only after the executor confirmed that nothing of the attempt is left. Settles its use as well."""
        await repo.release(session, job_id, attempt)
        await repo.end_use(session, job_id, attempt, self._clock.now())

    async def holds(self, session: AsyncSession) -> tuple[int, int]:
        """How many there are, of cards and of CPUs: to see whether there is anything new about them, together with the jobs,
        each of which changes with its holds.
        """
        return await repo.count_holds(session)

    async def held(self, session: AsyncSession) -> list[HeldByAttempt]:
        """Who holds what, the oldest first."""
        found: dict[tuple[str, int], dict[str, Hold]] = {}
        since: dict[tuple[str, int], datetime] = {}
        for item in await repo.all_holds(session):
            key = (item.job_id, item.attempt)
            since[key] = min(item.since, since.get(key, item.since))
            nodes = found.setdefault(key, {})
            hold = nodes.get(item.node, Hold(item.node))
            more = (hold.cpus + item.cpus, hold.memory_gb + item.memory_gb)
            nodes[item.node] = Hold(item.node, hold.gpus + item.gpus, *more)
        held = [
            HeldByAttempt(*key, since[key], tuple(nodes[name] for name in sorted(nodes)))
            for key, nodes in found.items()
        ]
        return sorted(held, key=lambda item: (item.since, item.job_id))

    async def held_now(self) -> list[HeldByAttempt]:
        """`held`, read alone."""
        async with self._database.session() as session:
            return await self.held(session)

    async def uses(
        self,
        session: AsyncSession,
        since: datetime,
        *,
        owner_ids: Collection[str] | None = None,
        project_ids: Collection[str] | None = None,
    ) -> list[GpuUse]:
        """Live uses and those that ended after `since`, of any of these owners or projects (None: of all). What has not begun
        counts as if it began now: its cards are taken, its longest time is reserved, and nothing of it is used.
        """
        rows = await repo.uses(session, since, owner_ids=owner_ids, project_ids=project_ids)
        now = self._clock.now()
        return [_use(row, now - row.started_at if row.pending else timedelta()) for row in rows]

    async def settled_uses(
        self, session: AsyncSession, since: datetime, until: datetime
    ) -> AsyncIterator[tuple[str, str, Use]]:
        """(owner, project, use) of the uses of cards that ended after `since` and by `until`."""
        async for owner, project, gpus, begun, ended in repo.settled_uses(session, since, until):
            yield owner, project, Use(gpus, begun, None, ended)

    async def faded_use(self, session: AsyncSession) -> dict[str, float]:
        """Owner -> GPU-seconds as the fair share counts them."""
        now = self._clock.now()
        if self._past_use is None or (now - self._past_use[0]).total_seconds() > PAST_USE_SECONDS:
            self._past_use = (now, await repo.daily_use(session, now - FAIR_SHARE_WINDOW, now))
        summed_until, past = self._past_use
        total: dict[str, float] = {}
        for owner, day, seconds in past:
            end = min(day + timedelta(days=1), now)
            length = (end - day).total_seconds() or 1.0
            total[owner] = total.get(owner, 0.0) + faded_use(1, day, end, now) * seconds / length
        for owner, gpus, begun, ended in await repo.recent_uses(session, summed_until):
            total[owner] = total.get(owner, 0.0) + faded_use(gpus, begun, ended or now, now)
        return total

    # --- what people see ------------------------------------------------------------------------------------------

    async def simulated(self, pools: Sequence[PoolRequest]) -> bool:
        """Whether any of the pools' cards are invented."""
        wanted = {pool.profile for pool in pools if pool.gpus_per_node}
        return any(gpu.simulated for node in await self.nodes() for gpu in node.gpus if gpu.profile in wanted)

    async def overview(self, nodes: Sequence[NodeInfo], latest: Mapping[str, Mapping[str, Latest]]) -> dict[str, Any]:
        """What `GET /hardware` says of these nodes, and the profiles of all. `latest`: `HardwareFigures.latest`."""
        async with self._database.session() as session:
            holders = await repo.holders(session, [node.name for node in nodes])
        return {
            "profiles": [vars(profile) for profile in await self.profiles()],
            "nodes": [_node_view(node, holders, latest.get(node.name, {})) for node in nodes],
        }


def _use(row: GpuUseRow, waited: timedelta) -> GpuUse:
    """`waited`: how much later than at its placement it begins."""
    until = None if row.reserved_until is None else row.reserved_until + waited
    of = (row.job_id, row.attempt, row.owner_id, row.project_id)
    return GpuUse(row.gpus, row.started_at + waited, until, row.ended_at, *of)


def _profile(name: str, nodes: Sequence[NodeInfo], held: dict[str, set[int]]) -> Profile:
    if name == CPU_PROFILE:
        mine = [(node, ()) for node in nodes]
    else:
        mine = [(node, cards) for node in nodes if (cards := tuple(gpu for gpu in node.gpus if gpu.profile == name))]
    free = sum(_free(node, cards, held.get(node.name, set())) for node, cards in mine if node.placeable)
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


def _free(node: NodeInfo, cards: Sequence[GpuInfo], held: set[int]) -> int:
    """How many of these cards of the node nobody has: by the backend's own word where it gives one, else by our holds."""
    if node.gpus_used is not None:
        return min(len(cards), max(0, len(node.gpus) - node.gpus_used))
    return sum(gpu.index not in held for gpu in cards)


def machines_of(nodes: Sequence[NodeInfo]) -> list[Machine]:
    """The nodes that get work, as placement wants them."""
    return [_machine(node) for node in nodes if node.placeable]


def all_machines(nodes: Sequence[NodeInfo]) -> list[Machine]:
    """Those too that get no work for now."""
    return [_machine(node) for node in nodes]


def _machine(node: NodeInfo) -> Machine:
    """Cards by the profile they answer to; every node answers to `cpu`."""
    cards: dict[str, tuple[int, ...]] = {CPU_PROFILE: ()}
    for gpu in node.gpus:
        cards[gpu.profile] = (*cards.get(gpu.profile, ()), gpu.index)
    return Machine(node.name, cards, node.cpus, node.memory_gb)


def _within(used: tuple[float, float], room: tuple[float, float] | None) -> bool:
    """Whether a node has what would be held of it; a node that is gone has nothing."""
    return room is not None and used[0] <= room[0] + 0.001 and used[1] <= room[1] + 0.001


def _node_view(node: NodeInfo, holders: Mapping[tuple[str, int], str], latest: Mapping[str, Latest]) -> dict[str, Any]:
    """`figures` and `seen_at` are None where nothing was ever measured, as of invented cards; `gpus_used` and `why` as in `NodeInfo`."""
    return {
        "name": node.name,
        "cpus": node.cpus,
        "memory_gb": node.memory_gb,
        "simulated": any(gpu.simulated for gpu in node.gpus),
        "gpus_used": node.gpus_used,
        "placeable": node.placeable,
        "why": node.why,
        "gpus": [
            vars(gpu)
            | {"job_id": holders.get((node.name, gpu.index))}
            | _latest_view(None if gpu.simulated else latest.get(f"{GPU}{gpu.index}"))
            for gpu in node.gpus
        ],
        **_latest_view(latest.get(MACHINE)),
        **dict(node.facts),
    }


def _latest_view(latest: Latest | None) -> dict[str, Any]:
    return {
        "figures": None if latest is None else dict(latest.figures),
        "seen_at": None if latest is None else latest.seen_at,
    }
