"""What ingest tells the jobs feature: it only makes the observer look early, and answers what is desired."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from tuneplane_server.features.jobs.service import JobService
from tuneplane_server.wakeups import Wakeups


class LedgerSignals:
    """`JobSignals` of features/ingest. How an attempt ended is read from its out dir by the observer, not believed here."""

    def __init__(self, jobs: JobService, wakeups: Wakeups) -> None:
        self._jobs, self._wakeups = jobs, wakeups

    async def trainer_started(self, job_id: str, attempt: int, rank: int, data: dict[str, Any]) -> None:
        self._wakeups.notify("observer")

    async def outcome(self, job_id: str, attempt: int, rank: int, outcome: dict[str, Any]) -> None:
        self._wakeups.notify("observer")

    async def heartbeat(
        self, job_id: str, attempt: int, rank: int, state: str, received_at: datetime
    ) -> Literal["run", "cancel"]:
        return "run" if await self._jobs.desired(job_id, attempt) == "run" else "cancel"

    async def reported(self, job_id: str, attempt: int, rank: int, event: str, data: dict[str, Any]) -> None:
        """Kept by telemetry beside the ledger's own events."""
