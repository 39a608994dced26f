"""The supervised loop: claim rows, work on them beside each other, back off alone, never stop ticking.

Polling is the truth; a wake-up only makes the next tick early. A handler runs with no database session open and may
take long (an image pull, a grace time): its row's lease is renewed meanwhile and the loop goes on with the others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from time import perf_counter
from typing import Any, Protocol

import structlog

from tuneplane_server.background.leases import Lease, Leases
from tuneplane_server.clock import Clock
from tuneplane_server.tracing import span
from tuneplane_server.wakeups import Wakeups, wait_for

log = structlog.get_logger(__name__)

AT_ONCE = 32  # handlers of one role
MOST_REST_SECONDS = 1.0
STALE_AFTER_TICKS = 15  # a loop that has not ticked for that many intervals is stuck


@dataclass(frozen=True)
class Work:
    """One row that may need work now, with what was read of it. Not `now`: its turn comes later; its lease is kept until then, since
    to give it back and claim it again would be two writes each time. `after`: seconds that its handler waits before it begins, so
    that hundreds of rows, none of which is in a hurry, are no burst that everybody else waits for."""

    row_id: str
    item: Any
    now: bool = True
    after: float = 0.0


@dataclass
class _Resting:
    """A row whose handler waits out its `after`: it begins with what was read of the row last, and at once when `hurry` is set."""

    work: Work
    hurry: asyncio.Event


class BackOffError(Exception):
    """A handler can do nothing for now, which is no fault of it: the row rests for a while, quietly."""


class Role(Protocol):
    """What a loop does. `topics`: wake-ups that make it look early."""

    @property
    def name(self) -> str: ...

    @property
    def topics(self) -> tuple[str, ...]: ...

    @property
    def interval(self) -> float: ...

    async def due(self) -> Sequence[Work]:
        """Rows that may need work now; one read, no write."""
        ...

    async def handle(self, work: Work, lease: Lease) -> None:
        """Work on one row. `BackOffError` lets it rest; any other exception is a failure, after which it rests too."""
        ...

    async def failed(self, work: Work, lease: Lease, error: Exception) -> None:
        """Show on the row that its handler fails."""
        ...


class SupervisedLoop:
    """`first_rest`: the share of its interval that it waits after its first tick."""

    def __init__(self, role: Role, leases: Leases, wakeups: Wakeups, clock: Clock, *, first_rest: float = 1.0) -> None:
        self.role, self._first_rest = role, first_rest
        self._leases, self._wakeups, self._clock = leases, wakeups, clock
        self._held: dict[str, Lease] = {}
        self._renewed: datetime = clock.now()
        self._busy: dict[str, asyncio.Task[None]] = {}
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._resting: dict[str, _Resting] = {}  # of the busy ones, those that have not begun
        self._again: set[str] = set()  # rows that were due once more while their handler ran
        self._wake = asyncio.Event()
        self.last_tick: datetime | None = None
        self._begun: datetime | None = None
        self.ticks = 0
        self.failures = 0

    async def run(self) -> None:
        """Tick until cancelled; then finish nothing, release everything: another process goes on from the rows."""
        try:
            with self._wakeups.listen(*self.role.topics) as self._wake:
                rest = self._first_rest * self.role.interval
                while True:
                    self._wake.clear()
                    begun = perf_counter()
                    await self._supervised_tick()
                    # Whatever wakes it how often: as long as a look at many rows took, others have their turn.
                    await asyncio.sleep(min(MOST_REST_SECONDS, perf_counter() - begun))
                    await wait_for(self._wake, rest)
                    rest = self.role.interval
        finally:
            for task in self._busy.values():
                task.cancel()
            await asyncio.gather(*self._busy.values(), return_exceptions=True)
            # Forgotten as well: run again, it would work with leases that are nobody's, and write nothing until it renews them.
            held, self._held = self._held, {}
            await self._leases.release(held.values())

    def begin(self) -> None:
        """It runs from now on: how long ago it ticked before that says nothing."""
        self._begun, self.last_tick = self._clock.now(), None

    def healthy(self) -> bool:
        """False when the loop has not ticked for long, or never since it began."""
        since = self.last_tick or self._begun
        if since is None:
            return True
        return (self._clock.now() - since).total_seconds() < max(30.0, STALE_AFTER_TICKS * self.role.interval)

    @property
    def held(self) -> int:
        """Leases of this loop."""
        return len(self._held)

    @property
    def busy(self) -> int:
        """Handlers at work, waiting for a slot, or waiting out their `after`."""
        return len(self._busy)

    async def tick(self) -> None:
        """One round: what is due is claimed and begun; what is not due any more is released."""
        work = {item.row_id: item for item in await self.role.due()}
        for row_id in work.keys() & self._busy.keys():
            self._due_again(work[row_id])
        await self._drop([row_id for row_id in self._held if row_id not in work and row_id not in self._busy])
        await self._renew()
        wanted = [row_id for row_id in work if row_id not in self._held and row_id not in self._busy]
        for lease in await self._leases.claim(self.role.name, wanted):
            self._held[lease.row_id] = lease
        for row_id, item in work.items():  # in the role's own order: a claim gives none
            if item.now and row_id in self._held and row_id not in self._busy:
                self._begin(item, self._held[row_id])

    async def idle(self) -> None:
        """Wait until no handler runs (tests and shutdown)."""
        while self._busy:
            await asyncio.gather(*self._busy.values(), return_exceptions=True)

    async def _supervised_tick(self) -> None:
        try:
            await self.tick()
        except Exception as error:  # the database may be away; the loop itself must live on
            self.failures += 1
            log.error("role tick failed", role=self.role.name, exc_info=error)
            return
        self.ticks += 1
        self.last_tick = self._clock.now()

    def _due_again(self, work: Work) -> None:
        """A handler that has not begun will see what is new, and one in no hurry is due at a later look anyway: if each of hundreds
        asked for a look of its own when it is done, the loop would look without a pause."""
        resting = self._resting.get(work.row_id)
        hurries = work.now and not work.after
        if resting is not None:
            resting.work = work
            if hurries:
                resting.hurry.set()
        elif hurries:
            self._again.add(work.row_id)

    def _begin(self, work: Work, lease: Lease) -> None:
        if work.after:
            self._resting[work.row_id] = _Resting(work, asyncio.Event())
        task = asyncio.create_task(self._work(work, lease), name=f"{self.role.name}:{work.row_id}")
        self._busy[work.row_id] = task
        task.add_done_callback(lambda _task: self._done(work.row_id))

    def _done(self, row_id: str) -> None:
        self._busy.pop(row_id, None)
        self._resting.pop(row_id, None)  # cancelled before it began
        if row_id in self._again:
            self._again.discard(row_id)
            self._wake.set()

    async def _work(self, work: Work, lease: Lease) -> None:
        try:
            if (resting := self._resting.get(work.row_id)) is not None:
                await wait_for(resting.hurry, work.after)
                work = self._resting.pop(work.row_id).work
            async with self._slots:
                with span(f"role {self.role.name}", row=work.row_id):
                    await self.role.handle(work, lease)
            if lease.failures:  # it works again: forget the failures
                await self._drop([work.row_id])
        except BackOffError:
            self._held.pop(work.row_id, None)
            await self._leases.fail(lease)
        except Exception as error:  # one bad row backs off alone
            self.failures += 1
            log.error("role failed on a row", role=self.role.name, row=work.row_id, exc_info=error)
            await self._back_off(work, lease, error)

    async def _back_off(self, work: Work, lease: Lease, error: Exception) -> None:
        self._held.pop(work.row_id, None)
        try:
            await self.role.failed(work, lease, error)
        finally:
            await self._leases.fail(lease)

    async def _drop(self, row_ids: list[str]) -> None:
        await self._leases.release([self._held.pop(row_id) for row_id in row_ids if row_id in self._held])

    async def _renew(self) -> None:
        now = self._clock.now()
        if now - self._renewed < self._leases.lifetime / 3:
            return
        self._renewed = now
        held = list(self._held.values())
        kept = await self._leases.renew(held)
        for lease in held:
            if lease.row_id not in kept:
                log.warning("lease lost", role=self.role.name, row=lease.row_id)
                self._held.pop(lease.row_id, None)
