"""Telemetry of runs: `store` what ingest decoded, and read it back. Who may read what is the callers' business."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import batched
from typing import Any

import msgspec
import structlog
from sqlalchemy import Select
from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.features.telemetry import merging
from tuneplane_server.features.telemetry.curves import CurveReader
from tuneplane_server.features.telemetry.life import SignsOfLife
from tuneplane_server.features.telemetry.limits import TelemetryLimits
from tuneplane_server.features.telemetry.log_reader import LogReader
from tuneplane_server.features.telemetry.records import Batch, Written
from tuneplane_server.features.telemetry.removal import TelemetryRemoval
from tuneplane_server.features.telemetry.repo import reports, runs
from tuneplane_server.features.telemetry.repo.runs import Run
from tuneplane_server.features.telemetry.sample_reader import SampleReader
from tuneplane_server.features.telemetry.tables import RunEventRow
from tuneplane_server.features.telemetry.transactions import Transactions
from tuneplane_server.features.telemetry.watching import Watches
from tuneplane_server.features.telemetry.writer import write_batch
from tuneplane_server.wakeups import Wakeups

log = structlog.get_logger(__name__)

MERGE_AT_ONCE = 64
SERIES_AT_ONCE = 8  # merged in one transaction: some 20 ms


def topic(job_id: str) -> str:
    """What `Wakeups` notifies when something new of a run is stored."""
    return f"telemetry:{job_id}"


@dataclass(frozen=True)
class RunEvent:
    """An event as it was reported. `time`: Unix seconds of the machine."""

    attempt: int
    rank: int
    time: float
    event: str
    data: dict[str, Any]


class TelemetryService:
    """`curves`, `logs` and `samples` read metrics, output and samples, `life` what shows that runs live."""

    def __init__(
        self, database: Database, clock: Clock, wakeups: Wakeups, limits: TelemetryLimits | None = None
    ) -> None:
        self._database, self._clock, self._wakeups = database, clock, wakeups
        self.limits = limits or TelemetryLimits()
        self.curves = CurveReader(database)
        self.logs = LogReader(database, clock)
        self.samples = SampleReader(database)
        self.life = SignsOfLife(database)
        self.watches = Watches(wakeups)
        self._transactions = Transactions(database)
        self.removal = TelemetryRemoval(database, self._transactions)
        self._merging: asyncio.Task[None] | None = None

    async def store(self, job_id: str, attempt: int, batch: Batch) -> Written:
        """Store a batch exactly once, in one transaction."""
        now, limits = self._clock.now(), self.limits
        written = await self._transactions.run(
            job_id, lambda connection: write_batch(connection, job_id, attempt, batch, limits, now)
        )
        if written.position is not None:
            self._wakeups.notify(topic(job_id))
        if written.merge and (self._merging is None or self._merging.done()):
            self._merging = asyncio.create_task(self._merge())
        return written

    async def usage(self, job_id: str) -> Run:
        """Position and quotas of a run; zeros when nothing has come."""
        async with self._database.session() as session:
            return await runs.find(session, job_id) or Run(job_id)

    @property
    def waiting(self) -> int:
        """Batches and merges that wait for a transaction."""
        return self._transactions.waiting

    async def dropped(self) -> dict[str, int]:
        """What the quotas of all kept runs did not let in, by kind."""
        async with self._database.session() as session:
            return dict(zip(("log_bytes", "samples", "points"), await runs.dropped(session), strict=True))

    async def bytes_of(self, session: AsyncSession, job_ids: Select[str]) -> int:
        """Bytes of output and samples that are stored for all these runs, in the running transaction."""
        return await runs.bytes_of(session, job_ids)

    async def latest_of(self, job_ids: Sequence[str], rank: int = 0) -> dict[str, dict[str, dict[str, Any]]]:
        """run -> metric -> {step, value, time}, of the newest attempt that has the metric."""
        return await self.curves.latest_of(job_ids, rank)

    async def latest_in(
        self, session: AsyncSession, job_ids: Sequence[str], rank: int = 0
    ) -> dict[str, dict[str, dict[str, Any]]]:
        """As `latest_of`, in a session that is there already."""
        return await self.curves.latest_in(session, job_ids, rank)

    async def events(
        self, job_id: str, names: Sequence[str], *, attempt: int | None = None, limit: int = 100
    ) -> list[RunEvent]:
        """The newest events of these names, newest first."""
        async with self._database.session() as session:
            rows = await reports.events(session, job_id, names=names, attempt=attempt, limit=limit)
        return [_event(row) for row in rows]

    async def event(self, job_id: str, name: str, *, attempt: int | None = None, rank: int = 0) -> RunEvent | None:
        """The newest event of that name from machine `rank`."""
        found = await self.events(job_id, [name], attempt=attempt)
        return next((event for event in found if event.rank == rank), None)

    async def hyperparams(self, job_id: str) -> dict[str, Any]:
        """What the training script reported as its hyperparameters; later reports add to earlier ones."""
        merged: dict[str, Any] = {}
        for event in reversed(await self.events(job_id, ["hyperparams"])):
            merged |= event.data
        return merged

    async def environment(self, job_id: str) -> dict[str, Any]:
        """The newest report of packages, machine and cards."""
        found = await self.event(job_id, "environment")
        return {} if found is None else found.data

    async def merge_due(self) -> int:
        """Make blocks of long series; how many were made. A few at a time, in short transactions."""
        made, after = 0, 0
        while due := await self._transactions.run(
            "",
            lambda connection, start=after: merging.due(connection, start, MERGE_AT_ONCE),  # type: ignore[misc]
        ):
            for job_id, series in due.items():
                for few in batched(series, SERIES_AT_ONCE, strict=False):
                    made += await self._transactions.run(
                        job_id,
                        lambda connection, job=job_id, ids=few: merging.merge_run(connection, job, ids),  # type: ignore[misc]
                    )
            after = max(max(series) for series in due.values())
        return made

    async def forget(self, job_id: str) -> None:
        """Delete all telemetry of a run."""
        await self._transactions.run(job_id, lambda connection: runs.forget(connection, job_id))

    async def close(self) -> None:
        self.watches.close()
        if self._merging is not None:
            self._merging.cancel()
            with suppress(asyncio.CancelledError):
                await self._merging
        await self._transactions.close()

    async def _merge(self) -> None:
        try:
            while await self.merge_due():  # again: more may have come meanwhile
                pass
        except Exception as error:
            log.warning("merging metric points failed", exc_info=error)


def _event(row: RunEventRow) -> RunEvent:
    return RunEvent(row.attempt, row.rank, row.time, row.event, msgspec.json.decode(row.data))
