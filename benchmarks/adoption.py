"""How long a console takes to find 300 live runs again after SIGKILL: from its start until each is adopted and it answers."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from sqlalchemy import func, select

from benchmarks.measure import Result, answers, free_port, wait_for
from tests.services import postgres
from tests.services.databases import PostgresServer
from tests.services.session import ServiceSession
from tests.tuneplane_server.executors.scripted import ScriptedExecutor
from tests.tuneplane_server.harness import Harness
from tuneplane_server.db import migrations
from tuneplane_server.features.jobs.tables import JobEventRow, JobRow

RUNS = 300
STARTS = 3
TARGET = "≤ 15 s"
SECONDS = 120


def run() -> list[Result]:
    session = ServiceSession.create()
    try:
        server = PostgresServer(session.get("postgres", postgres.start)["port"])
        server.create("bench_adoption")
        with tempfile.TemporaryDirectory() as folder:
            sqlite = f"sqlite+aiosqlite:///{folder}/bench.db"
            return [
                _on("SQLite", sqlite, Path(folder) / "sqlite"),
                _on("Postgres", server.url("bench_adoption"), Path(folder) / "postgres"),
            ]
    finally:
        session.close()


def _on(database: str, url: str, folder: Path) -> Result:
    folder.mkdir()
    asyncio.run(_seed(url, folder))
    durations = [_restart(url, folder, starts) for starts in range(1, STARTS + 1)]
    name = f"{RUNS} live runs adopted after SIGKILL, {database}, slowest of {STARTS}"
    return Result(name, max(durations), "s", target=TARGET)


async def _seed(url: str, folder: Path) -> None:
    harness = Harness(url, folder, ScriptedExecutor())
    await migrations.upgrade(harness.services.database)
    ada = await harness.user("ada")
    await harness.bring_package(ada)
    await harness.put_live_jobs(ada, RUNS)
    await harness.close()


def _restart(url: str, folder: Path, starts: int) -> float:
    """Seconds until every run has been adopted `starts` times; then the console is killed."""
    port = free_port()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TUNEPLANE_")}
    env = {
        "TUNEPLANE_STORAGE_ROOT": str(folder / "root"),
        "TUNEPLANE_DATA_DIR": str(folder / "data"),
        "TUNEPLANE_DATABASE_URL": url,
        "TUNEPLANE_RUNTIME": "process",
        "TUNEPLANE_PORT": str(port),
    }
    start = time.perf_counter()
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.adoption_console"], env=kept | env, stdout=log, stderr=log
        )
        try:
            wait_for("the console", lambda: answers(f"http://127.0.0.1:{port}/readyz"), SECONDS)
            seconds = time.perf_counter() - start
            adopted, phases = asyncio.run(_state(url, folder))
            assert adopted == RUNS * starts, adopted  # before it answers, so the time counts them
            assert phases == {"running"}, phases
            return seconds
        finally:
            process.kill()
            process.wait()


async def _state(url: str, folder: Path) -> tuple[int, set[str]]:
    harness = Harness(url, folder, ScriptedExecutor())
    async with harness.services.database.session() as session:
        query = select(func.count()).select_from(JobEventRow).where(JobEventRow.kind == "adopted")
        adopted = await session.scalar(query)
        phases = set(await session.scalars(select(JobRow.phase)))
    await harness.close()
    return adopted or 0, phases
