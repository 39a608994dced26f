"""The sampler: asks the executor at a bounded interval what each machine uses, and has it stored. One console measures one machine
at a time, by lease; a machine that does not answer rests alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import structlog

from tuneplane_server.background.leases import Lease
from tuneplane_server.background.loop import BackOffError, Work
from tuneplane_server.clock import Clock
from tuneplane_server.executors.port import Executor, ExecutorUnreachableError
from tuneplane_server.features.hardware.figures import HardwareFigures
from tuneplane_server.features.hardware.service import HardwareService

log = structlog.get_logger(__name__)

PRUNE_EVERY = timedelta(hours=1)
# Machines that are measured in one interval: of more each is measured less often, so that a thousand of them do not take the console
# from those who wait for it.
AT_A_LOOK = 250
LONG_AGO = datetime.min.replace(tzinfo=UTC)
_PRUNE = "-"  # no node has this name: `socket.gethostname()` and Kubernetes names begin with a letter or a digit


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

    async def due(self) -> Sequence[Work]:
        """The machines that were not measured for the longest time, and now and then what has become too old."""
        names = [node.name for node in await self._hardware.nodes()]
        self._measured = {name: at for name in names if (at := self._measured.get(name)) is not None}
        names.sort(key=lambda name: self._measured.get(name, LONG_AGO))
        work = [Work(name, name) for name in names[:AT_A_LOOK]]
        if self._pruned is None or self._clock.now() - self._pruned >= PRUNE_EVERY:
            work.append(Work(_PRUNE, _PRUNE))
        return work

    async def handle(self, work: Work, lease: Lease) -> None:
        if work.item == _PRUNE:
            await self._prune()
            return
        self._measured[work.item] = self._clock.now()
        try:
            seen = await self._executor.sample(work.item)
        except ExecutorUnreachableError as error:
            raise BackOffError(str(error)) from error
        if seen is not None:
            self._tell(work.item, seen.problem)
            await self._figures.record(seen)

    async def failed(self, work: Work, lease: Lease, error: Exception) -> None:
        """The loop has logged it; a machine has no row to show it on."""

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
