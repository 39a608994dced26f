"""Removes telemetry of runs that are over, in short transactions that take their turn with everybody's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from sqlalchemy import Connection

from tuneplane_server.db.engine import Database
from tuneplane_server.domain.retention import Kind
from tuneplane_server.features.telemetry.repo import removal as repo
from tuneplane_server.features.telemetry.transactions import Transactions

_STEPS: dict[Kind, Callable[[Connection, str], bool]] = {
    Kind.LOGS: repo.some_logs,
    Kind.METRICS: repo.some_metrics,
    Kind.SAMPLES: repo.some_samples,
}


class Held(NamedTuple):
    """What is stored of a run: bytes of raw output, bytes of samples, whether there are metrics."""

    log_bytes: int
    sample_bytes: int
    metrics: bool


class TelemetryRemoval:
    def __init__(self, database: Database, transactions: Transactions) -> None:
        self._database, self._transactions = database, transactions

    async def held(self, job_ids: Sequence[str]) -> dict[str, Held]:
        """Of those runs that have anything; at most a few hundred are asked for at once."""
        async with self._database.session() as session:
            found = await repo.held(session, job_ids)
        return {job_id: Held(logs, samples, series > 0) for job_id, logs, samples, series in found}

    async def some(self, job_id: str, kind: Kind) -> bool:
        """Remove a few rows of a kind; False when none are left. The caller knows that the run is over."""
        step = _STEPS[kind]
        return await self._transactions.run(job_id, lambda connection: step(connection, job_id))
