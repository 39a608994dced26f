"""Whether this console does background work now: one console does, several do only when Redis connects them all.

A console takes its place in the table of consoles before it works, and looks again every few seconds: of two that start at the
same moment the later one sees the earlier. What both begin in those seconds the leases keep apart.
"""

from __future__ import annotations

import asyncio

import structlog
from sqlalchemy.exc import SQLAlchemyError

from tuneplane_server.background.consoles import BEAT_SECONDS, Consoles
from tuneplane_server.background.roles import BackgroundRoles
from tuneplane_server.domain.findings import REPLICAS_ON_ONE_MACHINE, REPLICAS_WITHOUT_REDIS
from tuneplane_server.domain.replicas import obstacle
from tuneplane_server.findings import Findings

log = structlog.get_logger(__name__)

OBSTACLES = (REPLICAS_WITHOUT_REDIS, REPLICAS_ON_ONE_MACHINE)


class Duty:
    """Switches the roles on and off as replicas come and go, without a restart."""

    def __init__(self, consoles: Consoles, roles: BackgroundRoles, findings: Findings) -> None:
        self.consoles, self.roles = consoles, roles
        self._findings = findings
        self._looking: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Raises what the database raises: a console that cannot say that it is there does not start."""
        await self.look()
        self._looking = asyncio.create_task(self._keep_looking(), name="duty")

    async def stop(self) -> None:
        if self._looking is not None:
            self._looking.cancel()
            await asyncio.gather(self._looking, return_exceptions=True)
            self._looking = None
        await self.roles.switch_off()
        try:
            await self.consoles.leave()
        except (SQLAlchemyError, OSError) as error:  # the others see it by our process, or by our silence
            log.warning("the console could not say that it leaves", error=type(error).__name__)

    async def look(self) -> None:
        """Say that we are here, see who else is, and switch the roles accordingly."""
        replicas = await self.consoles.beat()
        found = obstacle(replicas)
        for code in OBSTACLES:
            if code == found:
                if self._findings.put(code, {"count": len(replicas)}):
                    log.error("background roles are off", code=code, consoles=len(replicas))
            elif self._findings.clear(code):
                log.info("background roles may run again", code=code)
        if found is None:
            await self.roles.switch_on()
        else:
            await self.roles.switch_off()

    async def _keep_looking(self) -> None:
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            try:
                await self.look()
            except (SQLAlchemyError, OSError) as error:
                log.warning("the consoles could not be looked at", error=type(error).__name__)
