"""The queue: which waiting jobs start now, and why each of the others waits.

Pure: everything known comes in as arguments, and the same arguments give the same plan. A job starts with all its machines or
not at all. The first job that finds no room is the head of its line: nobody behind it may put its start back (see
`reservations`). Jobs that want none of the cards the head waits for form a line of their own. A quota makes its own account's
jobs wait and nobody else's.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from tuneplane_server.domain.estimates import Chain
from tuneplane_server.domain.fair_share import Turn, in_order
from tuneplane_server.domain.line import (
    AccountKey,
    Allowance,
    Live,
    Placement,
    Plan,
    Wait,
    Waiting,
    WaitKind,
    held_back,
)
from tuneplane_server.domain.own_queue import PassingOn
from tuneplane_server.domain.placement import (
    Assignment,
    Hold,
    Machine,
    NodeRoom,
    NoRoom,
    PoolRequest,
    free_rooms,
    place,
    room_without,
)
from tuneplane_server.domain.quotas import Account
from tuneplane_server.domain.reservations import Ending, Reservation, reserve

# What a run takes beside its limit, which counts from when its machines are seen running: coming up, and at its end the
# grace and being cleared away.
COMING_UP, CLEARING = timedelta(minutes=3), timedelta(minutes=2)

# Pools, and the heads of lines that they may not put back.
type _Asked = tuple[tuple[PoolRequest, ...], tuple[str, ...]]


def schedule(
    now: datetime,
    waiting: Sequence[Waiting],
    live: Sequence[Live],
    machines: Sequence[Machine],
    accounts: Mapping[AccountKey, Account],
    use: Mapping[str, float],
    *,
    drained: bool = False,
    own_queue: str = "",
) -> Plan:
    """`accounts`: those that have limits; `use`: owner -> faded GPU-seconds (`fair_share`); `drained`: start nothing.

    `own_queue`: the name of an executor that has a queue of its own: then what is free counts for nothing (`own_queue.py`).
    """
    steps = in_steps(now, waiting, live, machines, accounts, use, drained=drained, own_queue=own_queue)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            plan: Plan = end.value
            return plan


def in_steps(
    now: datetime,
    waiting: Sequence[Waiting],
    live: Sequence[Live],
    machines: Sequence[Machine],
    accounts: Mapping[AccountKey, Account],
    use: Mapping[str, float],
    *,
    drained: bool = False,
    own_queue: str = "",
) -> Generator[None, None, Plan]:
    """`schedule`, with a place to pause at after each job: a plan over thousands of jobs takes a while, and whoever makes it may
    have others to serve meanwhile.
    """
    scheduling: _Scheduling | PassingOn
    if own_queue:
        scheduling = PassingOn(own_queue, now, accounts, drained=drained)
    else:
        scheduling = _Scheduling(now, live, machines, accounts, drained=drained)
    yield
    held = [wait for job in waiting if (wait := held_back(job, now)) is not None]
    resting = {wait.job_id for wait in held if wait.kind is WaitKind.RESTING}
    scheduling.will_come({pool.profile for job in waiting if job.job_id in resting for pool in job.pools})
    skipped = {wait.job_id for wait in held}
    ready = {job.job_id: job for job in waiting if job.job_id not in skipped}
    yield
    turns = (
        Turn(job.job_id, job.owner_id, job.priority, job.created_at, job.gpus, job.max_seconds)
        for job in ready.values()
    )
    waits: list[Wait] = []
    for job_id in in_order(turns, use):
        waits.append(scheduling.consider(ready[job_id]))
        yield
    waits.sort(key=lambda wait: wait.position is None)
    return Plan(tuple(scheduling.placements), {wait.job_id: wait for wait in (*waits, *held)}, scheduling.rooms)


class _Scheduling:
    """One pass over the queue. What is free only becomes less in it, so pools that found no room once find none later."""

    def __init__(
        self,
        now: datetime,
        live: Sequence[Live],
        machines: Sequence[Machine],
        accounts: Mapping[AccountKey, Account],
        *,
        drained: bool,
    ) -> None:
        self._now, self._drained = now, drained
        self._allowance = Allowance(now, accounts)
        self._machines = {machine.name: machine for machine in machines}
        self._empty = free_rooms(machines, ())
        self.rooms = {room.name: room for room in free_rooms(machines, (hold for item in live for hold in item.holds))}
        # A run past its end is still there, and nobody knows for how long.
        self._endings = [
            Ending(item.ends_at if item.ends_at is not None and item.ends_at > now else None, item.holds)
            for item in live
        ]
        self.placements: list[Placement] = []
        self._position = 0
        self._lines: list[Reservation] = []
        self._possible: dict[tuple[PoolRequest, ...], bool] = {}
        self._no_room: set[_Asked] = set()
        self._found: dict[_Asked, tuple[Assignment, ...]] = {}  # as long as nothing is taken
        self._allowed: dict[tuple[str, ...], tuple[Sequence[Reservation], dict[str, NodeRoom]]] = {}
        self._chains: dict[str, Chain] = {}  # head of a line -> who stands in it
        self._coming: set[str] = set()  # profiles of jobs that stand before others as soon as they may

    def will_come(self, profiles: Iterable[str]) -> None:
        """Jobs that want these come into the line by themselves, and perhaps far ahead in it."""
        self._coming.update(profiles)

    def consider(self, job: Waiting) -> Wait:
        """Place the job, or say why it waits."""
        if not self._is_possible(job.pools):
            return Wait(job.job_id, WaitKind.MACHINES)
        over = self._allowance.over_quota(job)
        if over is not None:
            self.will_come(pool.profile for pool in job.pools)
            return over
        self._position += 1
        if self._drained:
            return Wait(job.job_id, WaitKind.DRAINED, self._position)
        ends_at = latest_end(self._now, None, job.max_seconds, self._now)
        before = [line for line in self._lines if not _ends_before(ends_at, line)]
        placed = self._place(job.pools, before)
        if placed is None:
            return self._wait(job, before)
        self._take(job, placed, ends_at, before)
        return Wait(job.job_id, WaitKind.NEXT, self._position)

    def _is_possible(self, pools: tuple[PoolRequest, ...]) -> bool:
        known = self._possible.get(pools)
        if known is None:
            known = self._possible[pools] = not isinstance(place(pools, self._empty), NoRoom)
        return known

    def _place(self, pools: tuple[PoolRequest, ...], before: Sequence[Reservation]) -> tuple[Assignment, ...] | None:
        """A placement that puts back none of the jobs `before` it."""
        key = (pools, tuple(line.job_id for line in before))
        if key in self._no_room:
            return None
        found = self._found.get(key)
        if found is None:
            placed = place(pools, self._allowed_rooms(before))
            if isinstance(placed, NoRoom):
                self._no_room.add(key)
                return None
            found = self._found[key] = tuple(placed)
        return found if all(line.survives(found) for line in before) else None

    def _allowed_rooms(self, before: Sequence[Reservation]) -> Iterable[NodeRoom]:
        """What is free now and, for as long as one likes, beside what the heads of these lines are to get."""
        key = tuple(line.job_id for line in before)
        if key not in self._allowed:
            self._allowed[key] = (before, {name: self._allowed_room(name, before) for name in self.rooms})
        return self._allowed[key][1].values()

    def _allowed_room(self, node: str, before: Sequence[Reservation]) -> NodeRoom:
        room = self.rooms[node]
        for line in before:
            room = line.spares(room)
        return room

    def _take(
        self, job: Waiting, placed: tuple[Assignment, ...], ends_at: datetime | None, before: Iterable[Reservation]
    ) -> None:
        for item in placed:
            self.rooms[item.node] = room_without(self.rooms[item.node], item.gpus, item.cpus, item.memory_gb)
        for line in before:
            line.yield_(placed)
        for lines, rooms in self._allowed.values():
            rooms.update({item.node: self._allowed_room(item.node, lines) for item in placed})
        self._found.clear()
        holds = tuple(Hold(item.node, item.gpus, item.cpus, item.memory_gb) for item in placed)
        self._endings.append(Ending(ends_at, holds))
        self._allowance.take(job)
        self.placements.append(Placement(job.job_id, job.attempt, placed))

    def _wait(self, job: Waiting, before: Sequence[Reservation]) -> Wait:
        if before and self._place(job.pools, ()) is not None:
            in_its_way = (line for line in before if self._place(job.pools, (line,)) is None)
            behind, latest = next(in_its_way, before[0]).job_id, self._behind(job)
            return Wait(job.job_id, WaitKind.TURN, self._position, behind=behind, estimate=latest)
        kind = WaitKind.CARDS if job.gpus else WaitKind.CPUS
        if any(_profiles(job) & line.profiles for line in self._lines):
            return Wait(job.job_id, kind, self._position, estimate=self._behind(job))
        # Two lines want different cards; where both want CPUs of the same machines, the second one's moment is no promise.
        contended = self._contended(job, self._lines)
        line = reserve(job.job_id, job.pools, self.rooms, self._endings, self._machines)
        self._lines.append(line)
        estimate = None if contended else line.starts_at
        chain = self._chains[line.job_id] = Chain(lambda start, limit: latest_end(start, None, limit, self._now))
        chain.add(job.pools, estimate, job.max_seconds)
        return Wait(job.job_id, kind, self._position, estimate=estimate)

    def _behind(self, job: Waiting) -> datetime | None:
        """When a job behind the head of a line starts at the latest, and who stands behind it may count on that."""
        mine = [line for line in self._lines if _profiles(job) & line.profiles]
        others = [line for line in self._lines if line not in mine]
        known = len(mine) == 1 and not _profiles(job) & self._coming and not self._contended(job, others)
        limited = self._allowance.limits(job)
        chains = [self._chains[line.job_id] for line in mine]
        latest = chains[0].latest_start(job.pools) if known and not limited else None
        for chain in chains:
            chain.add(job.pools, latest, job.max_seconds)
        return latest

    @staticmethod
    def _contended(job: Waiting, others: Iterable[Reservation]) -> bool:
        return _claims_cpus(job.pools) and any(_claims_cpus(line.pools) for line in others)


def _profiles(job: Waiting) -> set[str]:
    return {pool.profile for pool in job.pools}


def latest_end(
    placed_at: datetime, started_at: datetime | None, max_seconds: int | None, now: datetime
) -> datetime | None:
    """When an attempt has given everything back at the latest; None without a limit."""
    if max_seconds is None:
        return None
    runs_from = started_at or max(placed_at + COMING_UP, now)
    return runs_from + timedelta(seconds=max_seconds) + CLEARING


def _claims_cpus(pools: Iterable[PoolRequest]) -> bool:
    return any(pool.cpus or pool.memory_gb for pool in pools)


def _ends_before(ends_at: datetime | None, line: Reservation) -> bool:
    """Whether the head of the line finds everything back when its moment comes."""
    return ends_at is not None and line.starts_at is not None and ends_at <= line.starts_at
