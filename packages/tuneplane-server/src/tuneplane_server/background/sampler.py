"""The sampler: asks the executor at a bounded interval what the machines use, and has it stored.

Machines are measured in batches: one lease and one transaction for some tens of them, so that a thousand machines do not keep the
database from everybody else. In a batch the calls run beside each other, each bounded in time; a machine that does not answer rests
alone, longer and longer, and no other waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import structlog

from tuneplane_server.background.batches import Rests, batches, begin_after
from tuneplane_server.background.leases import Lease
from tuneplane_server.background.loop import Work
from tuneplane_server.clock import Clock
from tuneplane_server.executors.port import Executor, ExecutorUnreachableError, NodeFigures
from tuneplane_server.features.hardware.figures import HardwareFigures
from tuneplane_server.features.hardware.service import HardwareService

log = structlog.get_logger(__name__)

PRUNE_EVERY = timedelta(hours=1)
BATCH = 25  # machines of one lease and one transaction, which takes some tens of milliseconds then
# Measured in one interval: of more than these 250 machines each is measured less often, so that a thousand of them do not take the
# console from those who wait for it, and the batches begin one after the other.
BATCHES_AT_A_LOOK = 10
# Batches, and calls of each, beside each other: to measure is in no hurry, and all of it at once would be in everybody's way.
BATCHES, CALLS = 3, 4
CALL_SECONDS = 15.0
LONG_AGO = datetime.min.replace(tzinfo=UTC)
_PRUNE = "-"


@dataclass(frozen=True)
class _Batch:
    names: tuple[str, ...]


class Sampler:
    name = "sampler"
    topics = ()

    def __init__(
        self,
        clock: Clock,
        executor: Executor,
        hardware: HardwareService,
        figures: HardwareFigures,
        *,
        interval: float,
        keep: timedelta,
    ) -> None:
        self._clock, self._executor, self._hardware, self._figures = clock, executor, hardware, figures
        self.interval, self._keep = interval, keep
        self._pruned: datetime | None = None
        self._problems: dict[str, str] = {}
        self._measured: dict[str, datetime] = {}
        self._rests = Rests()
        self._turns = asyncio.Semaphore(BATCHES)

    async def due(self) -> Sequence[Work]:
        """The batches that were not measured for the longest time, and now and then what has become too old."""
        now = self._clock.now()
        names = sorted(node.name for node in await self._hardware.nodes())
        self._measured = {name: at for name in names if (at := self._measured.get(name)) is not None}
        self._problems = {name: why for name in names if (why := self._problems.get(name))}
        self._rests.keep_only(names)
        work = []
        for row_id, batch in batches(names, BATCH):
            awake = tuple(name for name in batch if not self._rests.rests(name, now))
            if awake:
                work.append(Work(row_id, _Batch(awake)))
        work.sort(key=lambda item: min(self._measured.get(name, LONG_AGO) for name in item.item.names))
        if len(work) > BATCHES_AT_A_LOOK:
            work = [
                replace(each, after=begin_after(place, BATCHES_AT_A_LOOK, self.interval))
                for place, each in enumerate(work[:BATCHES_AT_A_LOOK])
            ]
        if self._pruned is None or now - self._pruned >= PRUNE_EVERY:
            work.append(Work(_PRUNE, None))
        return work

    async def handle(self, work: Work, lease: Lease) -> None:
        if work.item is None:
            await self._prune()
            return
        names: tuple[str, ...] = work.item.names
        async with self._turns:
            slots = asyncio.Semaphore(CALLS)
            self._measured |= dict.fromkeys(names, self._clock.now())
            seen = [moment for moment in await asyncio.gather(*(self._ask(name, slots) for name in names)) if moment]
            await self._figures.record(*seen)

    async def failed(self, work: Work, lease: Lease, error: Exception) -> None:
        """The loop has logged it; a machine has no row to show it on."""

    async def _ask(self, name: str, slots: asyncio.Semaphore) -> NodeFigures | None:
        """None: nothing is measured there, or it does not answer now."""
        async with slots:
            try:
                async with asyncio.timeout(CALL_SECONDS):
                    seen = await self._executor.sample(name)
            except (ExecutorUnreachableError, TimeoutError):
                self._rests.let_rest(name, self._clock.now())
                return None
        self._rests.wake(name)
        if seen is not None:
            self._tell(name, seen.problem)
        return seen

    async def _prune(self) -> None:
        while await self._figures.prune(self._keep):
            continue
        self._pruned = self._clock.now()

    def _tell(self, node: str, problem: str) -> None:
        """Once when it begins and once when it is over."""
        if problem != self._problems.get(node, ""):
            log.warning("some figures of a machine cannot be read", node=node, why=problem) if problem else log.info(
                "all figures of a machine are read again", node=node
            )
        self._problems[node] = problem
