"""Runs that have reported a lot, and a console on them whose executor sees them running."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from sqlalchemy import insert

from benchmarks.ingest_servers import Target, console
from tests.tuneplane_server.executors.scripted import ScriptedExecutor
from tests.tuneplane_server.harness import Harness
from tuneplane_server.db import migrations
from tuneplane_server.domain import log_codec
from tuneplane_server.domain.log_codec import Piece
from tuneplane_server.domain.series_codec import Columns
from tuneplane_server.features.accounts.principal import SCOPES
from tuneplane_server.features.telemetry.records import Batch, MetricRecord
from tuneplane_server.features.telemetry.service import TelemetryService
from tuneplane_server.features.telemetry.tables import BLOCK_POINTS, LogChunkRow, RunTelemetryRow, StreamAckRow

LINE = b"step=00000000 loss=1.234567 grad_norm=0.98765 learning_rate=1.0e-05 tokens_per_second=12345.6 epoch=0.12 eta=1:23:45\n"
PIECE = LINE * (64 * 1024 // len(LINE))
ROWS_AT_ONCE = 500


@dataclass
class Runs:
    """Ids of running runs, the token of their owner, and a token to report for each."""

    url: str
    folder: Path
    ids: list[str]
    token: str
    ingest: list[str]

    @contextmanager
    def served(self) -> Iterator[tuple[Target, str]]:
        """A console in a process of its own, and its address."""
        with console(self.folder, self.url, 0, module="benchmarks.adoption_console") as target:
            yield target, target.base


def make_runs(url: str, folder: Path, count: int) -> Runs:
    return asyncio.run(_make(url, folder, count))


async def _make(url: str, folder: Path, count: int) -> Runs:
    harness = Harness(url, folder, ScriptedExecutor())
    harness.time.now = datetime.now(UTC)
    await migrations.upgrade(harness.services.database)
    ada = await harness.user("ada")
    await harness.bring_package(ada)
    ids = await harness.put_live_jobs(ada, count)
    issued = await harness.services.accounts.create_token(ada, "bench", list(SCOPES), 1, actor="bench")
    tokens = [await harness.services.ingest.issue(job_id, 1) for job_id in ids]
    await harness.close()
    return Runs(url, folder, ids, issued.secret, tokens)


def add_points(runs: Runs, which: list[str], names: list[str], points: int) -> None:
    """So many points for each metric of each of these runs, stored as they come in, merged in the background."""
    asyncio.run(_add_points(runs, which, names, points))


async def _add_points(runs: Runs, which: list[str], names: list[str], points: int) -> None:
    harness = Harness(runs.url, runs.folder, ScriptedExecutor())
    telemetry: TelemetryService = harness.services.telemetry
    dice = Random(1)
    for job_id in which:
        for seq, start in enumerate(range(0, points, BLOCK_POINTS), 1):
            count = min(BLOCK_POINTS, points - start)
            step = array("q", range(start, start + count))
            time = array("d", (1.7e9 + one for one in step))
            series = {name: Columns(step, time, array("d", (dice.gauss(2.0) for _ in step))) for name in names}
            await telemetry.store(job_id, 1, Batch(metrics=[MetricRecord(0, seq, series)]))
    while await telemetry.merge_due():
        pass
    await harness.close()


def add_log(runs: Runs, job_id: str, size: int) -> None:
    """`size` bytes of output, written as rows: the lines are all alike, so they pack well."""
    asyncio.run(_add_log(runs, job_id, size))


async def _add_log(runs: Runs, job_id: str, size: int) -> None:
    harness = Harness(runs.url, runs.folder, ScriptedExecutor())
    chunks = size // (2 * len(PIECE))
    row = {"job_id": job_id, "attempt": 1, "rank": 0, "fd": 0, "run_first": 1, "ends_line": True}
    row |= {"raw_bytes": 2 * len(PIECE), "newlines": 2 * PIECE.count(b"\n")}
    for start in range(0, chunks, ROWS_AT_ONCE):
        rows = []
        for chunk in range(start, min(start + ROWS_AT_ONCE, chunks)):
            first, time = 2 * chunk + 1, 1.7e9 + chunk
            data = log_codec.encode([Piece(first, time, PIECE), Piece(first + 1, time, PIECE)])
            numbers = {"seq_first": first, "seq_last": first + 1, "time_first": time, "time_last": time, "data": data}
            rows.append(row | numbers | {"run_first": first})
        async with harness.services.database.begin() as session:
            await session.execute(insert(LogChunkRow), rows)
    async with harness.services.database.begin() as session:
        kept = {column.name: 0 for column in RunTelemetryRow.__table__.columns if not column.nullable}
        session.add(RunTelemetryRow(**kept | {"job_id": job_id, "position": 1, "log_position": 1, "log_bytes": size}))
        ack = {"job_id": job_id, "attempt": 1, "rank": 0, "stream": "log", "contiguous": 2 * chunks, "islands": []}
        session.add(StreamAckRow(**ack))
    await harness.close()
