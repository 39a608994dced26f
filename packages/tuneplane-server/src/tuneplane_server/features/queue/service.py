"""Makes the plan of the queue and explains it. Nothing is written: any console can say of any job why it waits.

A plan is made from one short read and kept for a moment, so that a page with fifty waiting jobs costs one plan and a page that
is polled costs none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.domain.line import AccountKey, Live, Plan, Wait, Waiting
from tuneplane_server.domain.placement import Machine, PoolRequest
from tuneplane_server.domain.queue import in_steps, latest_end
from tuneplane_server.domain.queue_facts import FreeOnNode, Holder, free_for, holders_of
from tuneplane_server.domain.quotas import Account, day_of
from tuneplane_server.executors.port import NodeInfo
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.hardware.service import HardwareService, machines_of
from tuneplane_server.features.jobs import in_queue
from tuneplane_server.features.jobs.in_queue import QueuedNames, QueueJobs
from tuneplane_server.features.jobs.passed_on import PassedOn, passed_on
from tuneplane_server.turns import Callers, in_slices

# Longer than the placer's rest between two plans: a console that places never makes one for its readers.
FRESH_SECONDS = 4.0
# How long a plan may hold when nothing that it was made from changes. With time alone only the order of the line changes, which
# follows from use that fades over days, and estimates of runs that are late.
HOLDS_FOR = timedelta(seconds=30)


class Quotas(Protocol):
    """What the queue asks of governance, inside a session of its own."""

    async def accounts(
        self, session: AsyncSession, owners: Collection[str], projects: Collection[str], now: datetime
    ) -> Mapping[AccountKey, Account]:
        """Those that have limits, with what they use now."""
        ...

    async def drained(self, session: AsyncSession) -> bool: ...

    async def edits(self, session: AsyncSession) -> Hashable:
        """Another one whenever the answer of one of the above may be another one."""
        ...


class RoomFacts(NamedTuple):
    """`more`: holders beside those that are named."""

    free: Sequence[FreeOnNode]
    holders: Sequence[Holder]
    more: int


@dataclass(frozen=True)
class PlanOf:
    """A plan and what it was made from. `nodes`: as the executor knows them. `mark`: of what the database held; as long as that
    has this mark, the plan holds until `holds_until`. `own_queue`: as of `HardwareService`.
    """

    made_at: datetime
    plan: Plan
    waiting: Mapping[str, Waiting]
    live: Sequence[Live]
    machines: Mapping[str, Machine]
    nodes: Sequence[NodeInfo]
    mark: Hashable
    holds_until: datetime
    own_queue: str = ""
    _once: dict[Hashable, Any] = field(default_factory=dict)

    def room_for(self, pools: Sequence[PoolRequest]) -> RoomFacts:
        """What can be told about room for these pools; the same for all jobs that want the same profiles."""

        def facts() -> RoomFacts:
            holders, more = holders_of(pools, self.live, self.machines)
            return RoomFacts(free_for(pools, self.plan.rooms.values()), holders, more)

        return self.once(("room", wanted_of(pools)), facts)

    def once[T](self, key: Hashable, make: Callable[[], T]) -> T:
        """What is made of this plan once and shown with many jobs."""
        if key not in self._once:
            self._once[key] = make()
        made: T = self._once[key]
        return made

    def wait(self, job_id: str) -> Wait | None:
        return self.plan.waits.get(job_id)


def wanted_of(pools: Sequence[PoolRequest]) -> Hashable:
    """Jobs of which this is the same wait for the same room."""
    return tuple((pool.profile, pool.gpus_per_node > 0) for pool in pools)


class Asked(NamedTuple):
    """A queued job as its reader has just read it; `held_back` as in `JobState`."""

    job_id: str
    attempt: int
    held_back: str | None


@dataclass(frozen=True)
class Entry:
    """`mine`: the reader may see the job itself."""

    wait: Wait
    names: QueuedNames
    mine: bool


@dataclass(frozen=True)
class LineOf:
    """A page of the line. `more`: (job, place) to go on after, None at the end."""

    made: PlanOf
    entries: Sequence[Entry]
    total: int
    more: tuple[str, int] | None


class QueueService:
    def __init__(
        self, database: Database, clock: Clock, hardware: HardwareService, quotas: Quotas, callers: Callers
    ) -> None:
        self._database, self._clock, self._hardware, self._quotas = database, clock, hardware, quotas
        self._callers = callers
        self._jobs = QueueJobs()
        self._making = asyncio.Lock()
        self._last: PlanOf | None = None
        self._seen_at: datetime | None = None  # when the last plan was seen to hold

    async def plan(self) -> PlanOf:
        """A plan of this moment."""
        made = await self._made(None)
        self._last, self._seen_at = made, made.made_at
        return made

    async def current(self) -> PlanOf:
        """A plan that holds now: the last one, as long as nothing that it was made from has changed and it places nobody. To see
        that costs the database a look at an index and this process next to nothing; a plan over a long line costs both dearly.
        """
        last = self._last
        if last is None or last.plan.placements:
            return await self.plan()
        machines, now = machines_of(await self._hardware.nodes()), self._clock.now()
        if now >= last.holds_until or machines != list(last.machines.values()):
            return await self.plan()
        async with self._database.session() as session:
            changed = await self._mark(session) != last.mark
        if changed or self._last is not last:
            return await self.plan()
        self._seen_at = now
        return last

    async def with_one_more(self, job: Waiting) -> PlanOf:
        """The plan as it would be if `job` stood in line as well. Nobody else is told of it."""
        return await self._made(job)

    async def _made(self, more: Waiting | None) -> PlanOf:
        nodes = await self._hardware.nodes()
        now = self._clock.now()
        async with self._database.session() as session:
            mark = await self._mark(
                session
            )  # before the rest: what changes while that is read is seen at the next look
            waiting = await self._jobs.waiting(session) + ([] if more is None else [more])
            attempts = {(item.job_id, item.attempt): item for item in await self._jobs.live(session)}
            held = await self._hardware.held(session)
            owners, projects = {job.owner_id for job in waiting}, {job.project_id for job in waiting}
            accounts = await self._quotas.accounts(session, owners, projects, now) if waiting else {}
            use = await self._hardware.faded_use(session) if waiting else {}
            drained = await self._quotas.drained(session)
        live = []
        for item in held:
            job = attempts.get((item.job_id, item.attempt))
            ends_at = None if job is None else latest_end(item.since, job.started_at, job.max_seconds, now)
            live.append(Live(item.job_id, job.owner if job else "", item.holds, ends_at))
        machines = {machine.name: machine for machine in machines_of(nodes)}
        steps = in_steps(
            now,
            waiting,
            live,
            list(machines.values()),
            accounts,
            use,
            drained=drained,
            own_queue=self._hardware.own_queue,
        )
        plan = await in_slices(steps, self._callers)
        until = _holds_until(now, waiting, live, limited=bool(accounts))
        return PlanOf(
            now,
            plan,
            {job.job_id: job for job in waiting},
            live,
            machines,
            nodes,
            mark,
            until,
            self._hardware.own_queue,
        )

    async def _mark(self, session: AsyncSession) -> Hashable:
        """Of all that a plan is made from and that the database holds."""
        return (
            await in_queue.mark(session),
            await self._hardware.holds(session),
            await self._quotas.edits(session),
        )

    async def recent(self, asked: Collection[Asked] = ()) -> PlanOf:
        """A plan that is at most `FRESH_SECONDS` old and knows these jobs as they are now."""
        if (known := self._fresh(asked)) is not None:
            return known
        async with self._making:
            return self._fresh(asked) or await self.current()

    async def line(self, principal: Principal, *, after: str | None, place: int, limit: int) -> LineOf:
        """A page of those who stand in line, then of the reader's own who do not. The line moves between two pages: it goes
        on after the job it ended with, or, when that one has gone, at its place.
        """
        made = await self.recent()
        waits = [
            wait
            for wait in made.plan.waits.values()
            if wait.position is not None or may_see(principal, made.waiting[wait.job_id])
        ]
        known = next((index for index, wait in enumerate(waits) if wait.job_id == after), None)
        start = place if known is None else known + 1
        page = waits[start : start + limit]
        async with self._database.session() as session:
            names = await in_queue.names(session, [wait.job_id for wait in page])
        entries = [
            Entry(wait, names[wait.job_id], may_see(principal, made.waiting[wait.job_id]))
            for wait in page
            if wait.job_id in names
        ]
        more = (page[-1].job_id, start + limit) if len(waits) > start + limit else None
        return LineOf(made, entries, sum(1 for wait in waits if wait.position is not None), more)

    async def passed_on(self) -> list[PassedOn] | None:
        """Who waits in the executor's own queue, whoever's they are; None where it has none."""
        if not self._hardware.own_queue:
            return None
        async with self._database.session() as session:
            return await passed_on(session)

    def _fresh(self, asked: Collection[Asked]) -> PlanOf | None:
        last, seen_at = self._last, self._seen_at
        if last is None or seen_at is None or (self._clock.now() - seen_at).total_seconds() > FRESH_SECONDS:
            return None
        return last if all(_knows(last, job) for job in asked) else None


def _holds_until(now: datetime, waiting: Iterable[Waiting], live: Iterable[Live], *, limited: bool) -> datetime:
    """The next moment at which the same jobs, machines and quotas may give another plan."""
    moments = [job.not_before for job in waiting] + [item.ends_at for item in live]
    if limited:  # some count begins anew
        moments.append(day_of(now).end)
    return min([now + HOLDS_FOR, *(at for at in moments if at is not None and at > now)])


def _knows(made: PlanOf, asked: Asked) -> bool:
    job = made.waiting.get(asked.job_id)
    return job is not None and (job.attempt, job.held_back) == (asked.attempt, asked.held_back)


def may_see(principal: Principal, job: Waiting | PassedOn) -> bool:
    return principal.acts_as_admin or job.owner_id == principal.user_id
