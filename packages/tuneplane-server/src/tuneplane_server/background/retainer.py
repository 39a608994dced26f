"""The retainer: removes what projects do not keep any longer. One thing after the other: nothing waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tuneplane_server.background.leases import Lease
from tuneplane_server.background.loop import Work
from tuneplane_server.domain.retention import Kind
from tuneplane_server.features.hardware.figures import HardwareFigures
from tuneplane_server.features.retention.service import RetentionService

AT_ONCE = 100


class Retainer:
    name = "retainer"
    topics = ("retainer",)
    interval = 300.0

    def __init__(self, retention: RetentionService, figures: HardwareFigures) -> None:
        self._retention, self._figures = retention, figures
        self._one = asyncio.Semaphore(1)

    async def due(self) -> Sequence[Work]:
        return [Work(project_id, project_id) for project_id in await self._retention.projects()]

    async def failed(self, work: Work, lease: Lease, error: Exception) -> None:
        """The loop's log says it; what was not removed is due again."""

    async def handle(self, work: Work, lease: Lease) -> None:
        async with self._one:
            version = await self._retention.version(work.item)
            for removal in await self._retention.due(work.item, AT_ONCE):
                if await self._retention.version(work.item) != version:
                    return  # nothing more goes on the word of a setting that was taken back; what still goes is due again
                if removal.kind is Kind.METRICS:  # first: after a crash between the two the removal is due again
                    await self._figures.forget(removal.job_id)
                await self._retention.remove(removal)
