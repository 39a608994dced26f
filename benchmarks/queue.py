"""The placement tick over 2,000 queued jobs, and the list of 20,000 over real HTTP, on SQLite and Postgres."""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

import httpx2
from sqlalchemy import delete

from benchmarks.measure import Result, answers, free_port, stop, wait_for
from benchmarks.queue_seed import JOBS, QUEUED, Cluster, seed
from tests.services import postgres
from tests.services.databases import PostgresServer
from tests.services.session import ServiceSession
from tuneplane_server.db import migrations
from tuneplane_server.features.accounts.principal import SCOPES, Principal
from tuneplane_server.features.hardware.tables import GpuHoldRow
from tuneplane_server.services import Services
from tuneplane_server.settings import load_settings

TICKS, REQUESTS, FIRST_REQUESTS = 20, 60, 30
TICK_TARGET, LIST_TARGET = "≤ 100 ms", "≤ 60 ms"


def run() -> list[Result]:
    session = ServiceSession.create()
    try:
        server = PostgresServer(session.get("postgres", postgres.start)["port"])
        server.create("bench_queue")
        with tempfile.TemporaryDirectory() as folder:
            sqlite = f"sqlite+aiosqlite:///{folder}/bench.db"
            results = _on("SQLite", sqlite, Path(folder) / "sqlite")
            return results + _on("Postgres", server.url("bench_queue"), Path(folder) / "postgres")
    finally:
        session.close()


def _on(database: str, url: str, folder: Path) -> list[Result]:
    env = {
        "TUNEPLANE_STORAGE_ROOT": str(folder / "root"),
        "TUNEPLANE_DATA_DIR": str(folder / "data"),
        "TUNEPLANE_DATABASE_URL": url,
        "TUNEPLANE_RUNTIME": "process",
        "TUNEPLANE_PORT": str(free_port()),
    }
    secrets = asyncio.run(_with_services(env, _prepare))
    full = asyncio.run(_with_services(env, _ticks))
    unchanged = asyncio.run(_with_services(env, _unchanged))
    lists = _lists(env, secrets)
    half = asyncio.run(_with_services(env, _half_free))
    named = f"{QUEUED:,} queued, 512 cards, {database}"
    kinds = (("all held", full), ("half free", half), ("nothing new", unchanged))
    ticks = [(f"placement tick, {what}, {named}", one) for what, one in kinds]
    return [
        *(
            Result(f"{name}, median", statistics.median(t.wall for t in one), "ms", target=TICK_TARGET)
            for name, one in ticks
        ),
        *(Result(f"{name}, of it processor time", statistics.median(t.cpu for t in one), "ms") for name, one in ticks),
        *(
            Result(f"GET /jobs of {JOBS:,}, {what}, {database}, p95", ms, "ms", target=LIST_TARGET)
            for what, ms in lists
        ),
    ]


async def _with_services[T](env: dict[str, str], work: Callable[[Services], Awaitable[T]]) -> T:
    services = Services(load_settings(env), given_executor=Cluster())
    try:
        return await work(services)
    finally:
        await services.telemetry.close()
        await services.database.close()


async def _prepare(services: Services) -> dict[str, str]:
    """Tokens of an administrator and of a user, over a database that is full."""
    await migrations.upgrade(services.database)
    owners = await seed(services)
    secrets = {}
    for name in owners[:2]:
        user = await services.accounts.user(name)
        principal = Principal(user.id, user.username, user.admin, frozenset(SCOPES))
        issued = await services.accounts.create_token(principal, "bench", list(SCOPES), 1, actor="bench")
        secrets["administrator" if user.admin else "user"] = issued.secret
    return secrets


class Tick(NamedTuple):
    """Milliseconds of one plan, and how many of them this process had a processor: the rest waits for others on the machine."""

    wall: float
    cpu: float


async def _ticks(services: Services, look: Callable[[], Awaitable[object]] | None = None) -> list[Tick]:
    """`TICKS` plans, the first one without anything cached; or `look` instead."""
    ticks = []
    for _tick in range(TICKS):
        wall, cpu = time.perf_counter(), time.process_time()
        await (look or services.queue.plan)()
        ticks.append(Tick((time.perf_counter() - wall) * 1000, (time.process_time() - cpu) * 1000))
    return ticks


async def _unchanged(services: Services) -> list[Tick]:
    """As the placer looks when nothing has happened since its last plan."""
    await services.queue.plan()
    return await _ticks(services, services.queue.current)


async def _half_free(services: Services) -> list[Tick]:
    async with services.database.begin() as session:
        await session.execute(delete(GpuHoldRow).where(GpuHoldRow.gpu_index < 4))
    return await _ticks(services)


def _lists(env: dict[str, str], secrets: dict[str, str]) -> list[tuple[str, float]]:
    """(who and what, p95 in milliseconds) against a console whose roles work on the same database meanwhile."""
    address = f"http://127.0.0.1:{env['TUNEPLANE_PORT']}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TUNEPLANE_")}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.queue_console"], env=kept | env, stdout=log, stderr=log
        )
        try:
            wait_for("the console", lambda: answers(f"{address}/readyz"), 60)
            for (
                secret
            ) in secrets.values():  # a console's first seconds are adoption and every statement's first compilation
                _durations(address, secret, "", FIRST_REQUESTS)
            return [
                (f"{who}, {what}", _p95(address, secret, query))
                for who, secret in secrets.items()
                for what, query in (("newest 50", ""), ("failed", "&phase=failed"), ("text", "&text=first-7"))
            ]
        finally:
            stop(process)


def _p95(address: str, secret: str, query: str) -> float:
    return statistics.quantiles(_durations(address, secret, query, REQUESTS), n=20)[-1]


def _durations(address: str, secret: str, query: str, requests: int) -> list[float]:
    """Milliseconds of one request after the other."""
    durations = []
    with httpx2.Client(base_url=address, headers={"Authorization": f"Bearer {secret}"}, timeout=30) as client:
        for _request in range(requests):
            start = time.perf_counter()
            reply = client.get(f"/api/v1/jobs?limit=50{query}")
            durations.append((time.perf_counter() - start) * 1000)
            assert reply.status_code == 200, reply.text
            assert reply.json()["items"]
    return durations
