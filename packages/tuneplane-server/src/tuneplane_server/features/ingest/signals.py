"""What the ledger hears of running jobs. Evidence only: how an attempt ended is decided by the jobs feature."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, Protocol


class JobSignals(Protocol):
    """Called after the batch is committed, at least once per event while the console lives: a crash between the commit and
    the call loses the call, not the event, which `TelemetryService.event` still finds. Implementations must be quick,
    idempotent, and must not raise for a run they don't know."""

    async def trainer_started(self, job_id: str, attempt: int, rank: int, data: dict[str, Any]) -> None:
        """The runner of machine `rank` started the trainer; `data`: {pid, command}."""

    async def outcome(self, job_id: str, attempt: int, rank: int, outcome: dict[str, Any]) -> None:
        """The runner's word on how the attempt ended (contract `Outcome`, not validated)."""

    async def heartbeat(
        self, job_id: str, attempt: int, rank: int, state: str, received_at: datetime
    ) -> Literal["run", "cancel"]:
        """A machine is alive; the answer is what is desired of the run now."""

    async def reported(self, job_id: str, attempt: int, rank: int, event: str, data: dict[str, Any]) -> None:
        """Any other event worth a line in the run's history: trainer-exited, signal, checkpoint, warning, gap, log-quota."""


class NoSignals:
    """Nobody listens: telemetry is stored all the same."""

    async def trainer_started(self, job_id: str, attempt: int, rank: int, data: dict[str, Any]) -> None:
        return None

    async def outcome(self, job_id: str, attempt: int, rank: int, outcome: dict[str, Any]) -> None:
        return None

    async def heartbeat(
        self, job_id: str, attempt: int, rank: int, state: str, received_at: datetime
    ) -> Literal["run", "cancel"]:
        return "run"

    async def reported(self, job_id: str, attempt: int, rank: int, event: str, data: dict[str, Any]) -> None:
        return None
