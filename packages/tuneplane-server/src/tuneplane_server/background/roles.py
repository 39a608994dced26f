"""Starts and supervises the roles: adopts what lives, runs the loops, restarts one that ended, knows their health.

They are switched off while another console without Redis shares the database (`duty.py`), and on again, with no restart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog

from tuneplane_server.background.leases import Leases
from tuneplane_server.background.loop import Role, SupervisedLoop
from tuneplane_server.clock import Clock
from tuneplane_server.features.jobs.ledger import Ledger
from tuneplane_server.wakeups import Wakeups

log = structlog.get_logger(__name__)

APART = 0.618  # of one more each time: the golden ratio leaves no two near each other, however many there are
RESTART_SECONDS = 5.0


@dataclass(frozen=True)
class RoleHealth:
    """`last_tick` is None before the first one. `off`: not meant to run now. `held`: leases of this process."""

    name: str
    healthy: bool
    off: bool
    last_tick: datetime | None
    ticks: int
    failures: int
    held: int
    busy: int


class BackgroundRoles:
    def __init__(
        self,
        clock: Clock,
        ledger: Ledger,
        leases: Leases,
        wakeups: Wakeups,
        roles: Sequence[Role],
    ) -> None:
        self._ledger, self._leases = ledger, leases
        # Those of the same interval would else look together, each time anew.
        self.loops = [
            SupervisedLoop(role, leases, wakeups, clock, first_rest=number * APART % 1.0)
            for number, role in enumerate(roles)
        ]
        self._tasks: list[asyncio.Task[None]] = []
        self._adopted = False
        self.running = False
        self.off = False  # switched off on purpose

    async def start(self) -> None:
        """Take up what an earlier process of this installation left, then run the loops."""
        await self.switch_on()

    async def stop(self) -> None:
        """End the loops; runs go on and are adopted by the next process."""
        await self._end()

    async def switch_on(self) -> None:
        """Run the loops; does nothing when they run. What lives is adopted once, when they run for the first time."""
        if self.running:
            return
        if not self._adopted:
            await self._leases.forget_own()
            adopted = await self.adopt()
            self._adopted = True
            if adopted:
                log.info("adopted live runs", count=adopted)
        self.running, self.off = True, False
        for loop in self.loops:
            loop.begin()
        self._tasks = [asyncio.create_task(self._supervise(loop), name=f"role:{loop.role.name}") for loop in self.loops]

    async def switch_off(self) -> None:
        """End the loops until somebody switches them on again: what they hold is released, runs go on."""
        self.off = True
        await self._end()

    async def _end(self) -> None:
        self.running = False
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []

    async def adopt(self) -> int:
        """One event for each live run: no phase changes, nothing is created."""
        return await self._ledger.adopt()

    def health(self) -> list[RoleHealth]:
        return [
            RoleHealth(
                loop.role.name,
                self.off or loop.healthy(),
                self.off,
                loop.last_tick,
                loop.ticks,
                loop.failures,
                loop.held,
                loop.busy,
            )
            for loop in self.loops
        ]

    async def _supervise(self, loop: SupervisedLoop) -> None:
        while True:
            try:
                await loop.run()
            except Exception as error:  # a loop must not end; whatever ended it, it begins anew from the rows
                log.error("role loop ended", role=loop.role.name, exc_info=error)
            await asyncio.sleep(RESTART_SECONDS)
