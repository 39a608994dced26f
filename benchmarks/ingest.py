"""Four client processes send metrics for 20 s as fast as one server takes them: ours on SQLite and Postgres, trackio's, MLflow's."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import Select, func, select

from benchmarks import ingest_servers as servers
from benchmarks.ingest_clients import MLFLOW_POINTS, TRACKIO_STEPS
from benchmarks.ingest_servers import Target
from benchmarks.measure import Result, wait_for
from tuneplane_server.db.engine import Database
from tuneplane_server.features.telemetry.tables import BLOCK_POINTS, MetricSeriesRow

CLIENTS, SECONDS = 4, 20.0
START_SECONDS = 4.0  # until every client is up
# Scalars a step and steps a batch (cut at the runner's 1 MiB). 8 and 50 scalars in bursts, and a step at a time.
BURST, WIDE, PACED = (8, 4096), (50, 512), (8, 10)


@dataclass(frozen=True)
class Load:
    """What a run of the clients came to. CPU in seconds per million points."""

    points_per_second: float
    points: int
    requests: int
    cpu: float
    database_cpu: float
    peak_mb: float
    p99_ms: float


def run() -> list[Result]:
    with servers.durable_postgres() as (server, pid):
        server.create("bench_ingest")
        url = server.url("bench_ingest")
        sqlite = _measure("ours", lambda folder: servers.console(folder, None, CLIENTS), BURST)
        postgres = _measure("ours", lambda folder: servers.console(folder, url, CLIENTS, [pid]), BURST, url)
    trackio = _measure("trackio", lambda folder: servers.trackio(folder, CLIENTS), (8, TRACKIO_STEPS))
    mlflow = _measure("mlflow", lambda folder: servers.mlflow(folder, CLIENTS), (8, MLFLOW_POINTS // 8))
    wide = _measure("ours", lambda folder: servers.console(folder, None, CLIENTS), WIDE)
    paced = _measure("ours", lambda folder: servers.console(folder, None, CLIENTS), PACED)
    results: list[Result] = []
    for database, ours in (("SQLite", sqlite), ("Postgres", postgres)):
        name = f"ingest of 8 scalars, {database}"
        for peer, theirs, ratio, _share in (("trackio", trackio, 5, None), ("MLflow", mlflow, 40, None)):
            results.append(
                Result(f"{name}, points/s", ours.points_per_second, "/s", peer, theirs.points_per_second, f"≥ {ratio}×")
            )
            results.append(Result(f"{name}, CPU per million points", ours.cpu, "s", peer, theirs.cpu, "≤ 2 s"))
            results.append(Result(f"{name}, most memory", ours.peak_mb, "MB", peer, theirs.peak_mb, "≤ 250 MB"))
    results.append(Result("Postgres's own CPU per million points", postgres.database_cpu, "s"))
    for what, load in (("50 scalars in bursts", wide), ("8 scalars, 10 steps a request", paced)):
        results.append(Result(f"ingest of {what}, SQLite, points/s", load.points_per_second, "/s"))
        results.append(Result(f"ingest of {what}, SQLite, CPU per million points", load.cpu, "s"))
        results.append(Result(f"ingest of {what}, SQLite, requests/s", load.requests / SECONDS, "/s"))
    return results


type Serve = Callable[[Path], AbstractContextManager[Target]]


def _measure(kind: str, serve: Serve, shape: tuple[int, int], url: str | None = None) -> Load:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with serve(folder) as target:
            load = _load(kind, target, shape, url or f"sqlite+aiosqlite:///{folder}/console.db")
    print(f"bench: ingest {kind} {shape}: {load}", flush=True)
    return load


def _load(kind: str, target: Target, shape: tuple[int, int], url: str) -> Load:
    start = time.time() + START_SECONDS
    with target.memory() as memory:
        clients = [
            subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "benchmarks.ingest_clients",
                    kind,
                    *address,
                    str(n),
                    str(start),
                    str(SECONDS),
                    *map(str, shape),
                ],
                stdout=subprocess.PIPE,
            )
            for n, address in enumerate(target.addresses)
        ]
        time.sleep(max(0.0, start - time.time()))
        before = target.cpu()
        found = [json.loads(client.communicate(timeout=SECONDS + 120)[0]) for client in clients]
        if kind == "ours":  # what is merged later is part of the price
            wait_for("merging", lambda: not asyncio.run(_unmerged(url)), 60, 0.2)
            assert asyncio.run(_stored(url)) == sum(one["points"] for one in found)
        after = target.cpu()
    points = sum(one["measured"] for one in found)
    return Load(
        points_per_second=sum(one["measured"] / one["seconds"] for one in found),
        points=points,
        requests=sum(one["requests"] for one in found),
        cpu=(after[0] - before[0]) / points * 1e6,
        database_cpu=(after[1] - before[1]) / points * 1e6,
        peak_mb=max(memory),
        p99_ms=max(one["p99_ms"] for one in found),
    )


async def _unmerged(url: str) -> bool:
    return bool(await _one(url, select(MetricSeriesRow.id).where(MetricSeriesRow.loose >= BLOCK_POINTS).limit(1)))


async def _stored(url: str) -> int:
    return int(await _one(url, select(func.sum(MetricSeriesRow.count))) or 0)


async def _one(url: str, query: Select[Any]) -> Any:
    database = Database(url)
    try:
        async with database.session() as session:
            return await session.scalar(query)
    finally:
        await database.close()
