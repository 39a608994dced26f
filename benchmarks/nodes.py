"""One console with 1,000 nodes that announce themselves every 10 s, 500 of them with a run: ticks of the roles, delay of the event loop,
answers to people, processor and memory. All have joined before.

A tick is a role's turn: from when it begins to look what is due until all of that is claimed and begun (`nodes_console`). What is begun
goes on beside the loop, each piece bounded for itself; how long that takes from its turn on is told as well, without a promise.

After half a minute for warming up it is measured for TUNEPLANE_BENCH_MINUTES (0.8 unless set), memory's growth in the second half of
that, when every node has been called and measured once: both databases together take less than four minutes.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
from sqlalchemy import insert, update

from benchmarks.measure import Result, answers, cpu_seconds, free_port, memory_mb, stop, tree, wait_for
from benchmarks.nodes_machines import Machine, Plan
from tests.services import postgres
from tests.services.databases import PostgresServer
from tests.services.session import ServiceSession
from tests.tuneplane_server.executors.scripted import ScriptedExecutor
from tests.tuneplane_server.harness import Harness
from tuneplane_server.db import migrations
from tuneplane_server.features.hardware.tables import GpuHoldRow
from tuneplane_server.features.jobs.tables import JobRow
from tuneplane_server.features.nodes.building import daemon_start

NODES, RUNS, CARDS = 1000, 500, 8
TOKEN = "a-token-of-the-benchmark"
REQUESTS = 20
WARM_SECONDS, FEW = 30.0, 20
TICK_TARGET, MEMORY_TARGET = "≤ 200 ms", "flat"


def run() -> list[Result]:
    minutes = float(os.environ.get("TUNEPLANE_BENCH_MINUTES", "0.8"))
    session = ServiceSession.create()
    try:
        server = PostgresServer(session.get("postgres", postgres.start)["port"])
        server.create("bench_nodes")
        with tempfile.TemporaryDirectory() as folder:
            sqlite = f"sqlite+aiosqlite:///{folder}/bench.db"
            results = _on("SQLite", sqlite, Path(folder) / "sqlite", minutes)
            return results + _on("Postgres", server.url("bench_nodes"), Path(folder) / "postgres", minutes)
    finally:
        session.close()


def _on(database: str, url: str, folder: Path, minutes: float) -> list[Result]:
    folder.mkdir()
    port, machines_port = free_port(), free_port()
    console = f"http://127.0.0.1:{port}"
    seeded = asyncio.run(_seed(url, folder))
    fields: dict[str, Any] = {
        "port": machines_port,
        "console": console,
        "token": TOKEN,
        "storage_root": str(folder / "root"),
        "nodes": [_name(number) for number in range(NODES)],
        "runs": {_name(number): list(run) for number, run in enumerate(seeded["runs"])},
        "started": time.time(),
    }
    (folder / "plan.json").write_text(json.dumps(fields))
    asyncio.run(_join(url, folder, Plan(**fields)))
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TUNEPLANE_")}
    env = kept | {
        "TUNEPLANE_STORAGE_ROOT": str(folder / "root"),
        "TUNEPLANE_DATA_DIR": str(folder / "data"),
        "TUNEPLANE_DATABASE_URL": url,
        "TUNEPLANE_EXECUTOR": "agent",
        "TUNEPLANE_AGENT_TOKEN": TOKEN,
        "TUNEPLANE_PORT": str(port),
    }
    ticks = folder / "ticks.json"
    with (folder / "console.log").open("wb") as log:
        processes: list[subprocess.Popen[bytes]] = []

        def begin(module: str, argument: Path) -> None:
            command = [sys.executable, "-m", module, str(argument)]
            processes.append(subprocess.Popen(command, env=env, stdout=log, stderr=log))

        try:
            begin("benchmarks.nodes_machines", folder / "plan.json")
            begin("benchmarks.nodes_console", ticks)
            wait_for("the console", lambda: answers(f"{console}/readyz"), 60)
            return _measure(database, processes[1].pid, console, seeded["secret"], ticks, minutes * 60)
        finally:
            for process in reversed(processes):
                stop(process)


def _measure(database: str, pid: int, console: str, secret: str, ticks: Path, seconds: float) -> list[Result]:
    with httpx2.Client(base_url=console, headers={"Authorization": f"Bearer {secret}"}, timeout=60) as client:
        wait_for("all nodes are ready", lambda: _ready(client) == NODES, 300, interval=2)
        time.sleep(WARM_SECONDS)
        begun, used = time.time(), cpu_seconds(tree(pid))
        time.sleep(seconds / 2)
        memory = memory_mb(tree(pid))
        time.sleep(seconds / 2)
        share = (cpu_seconds(tree(pid)) - used) / (time.time() - begun) * 100
        grown = memory_mb(tree(pid)) - memory
        lag = _metric(client, "tuneplane_loop_lag_seconds") * 1000
        pages = {path: _p95(client, path) for path in ("/api/v1/nodes", "/api/v1/hardware", "/api/v1/jobs?limit=50")}
        ready = _ready(client)
        assert len(client.get("/api/v1/jobs?phase=running&limit=200").json()["items"]) == 200
    found: dict[str, dict[str, list[list[float]]]] = json.loads(ticks.read_text())
    named = f"{NODES:,} nodes, {RUNS} runs, {database}"
    return [
        *_of_roles("tick", found["ticks"], begun, named, TICK_TARGET),
        *_of_roles("turn until done", found["works"], begun, named, ""),
        Result(f"worst delay of the event loop in a minute, {named}", lag, "ms"),
        *(Result(f"GET {path}, {named}, p95", ms, "ms") for path, ms in pages.items()),
        Result(f"nodes that are ready after that, {named}", ready, "nodes", target=f"{NODES:,}"),
        Result(f"processor of the console, {named}", share, "% of a core"),
        Result(f"memory of the console, {named}", memory + grown, "MB"),
        Result(f"growth of it in {seconds / 120:g} min, {named}", grown, "MB", target=MEMORY_TARGET),
    ]


def _of_roles(
    what: str, found: dict[str, list[list[float]]], begun: float, named: str, target: str
) -> Iterator[Result]:
    for role, seen in sorted(found.items()):
        times = [ms for at, ms in seen if at >= begun]
        if len(times) > 1:
            # Of a few turns the worst counts: a share of a twentieth is none of them.
            p95 = statistics.quantiles(times, n=20)[-1] if len(times) >= FEW else max(times)
            yield Result(f"{what} of the {role}, {named}, p95", p95, "ms", target=target)


async def _seed(url: str, folder: Path) -> dict[str, Any]:
    """Runs that hold all cards of their nodes, each with an ingest token, and the token of an administrator."""
    harness = Harness(url, folder, ScriptedExecutor(gpus=0))
    harness.time.now = datetime.now(UTC)
    await migrations.upgrade(harness.services.database)
    root = await harness.user("root", admin=True)
    await harness.bring_package(root)
    ids = await harness.put_live_jobs(root, RUNS)
    now = harness.services.clock.now()
    holds = []
    async with harness.services.database.begin() as session:
        for number, job_id in enumerate(ids):
            name = _name(number)
            machines = [{"node": name, "where": f"docker/tp-{job_id}-1-0"}]
            handle = {"job_id": job_id, "attempt": 1, "data": {"agent": 1, "machines": machines}, "nodes": [name]}
            await session.execute(update(JobRow).where(JobRow.id == job_id).values(handle=handle))
            common = {"node": name, "job_id": job_id, "attempt": 1, "since": now}
            holds += [{**common, "gpu_index": card} for card in range(CARDS)]
        await session.execute(insert(GpuHoldRow), holds)
    runs = [(job_id, await harness.services.ingest.issue(job_id, 1)) for job_id in ids]
    issued = await harness.services.accounts.create_token(root, "bench", ["read", "admin"], 1, actor="bench")
    await harness.close()
    return {"runs": runs, "secret": issued.secret}


async def _join(url: str, folder: Path, plan: Plan) -> None:
    """As on any day but the first: every node has joined and proved its storage root before."""
    agent = {"TUNEPLANE_EXECUTOR": "agent", "TUNEPLANE_AGENT_TOKEN": TOKEN}
    harness = Harness(url, folder, ScriptedExecutor(gpus=0), agent)
    nodes = harness.services.nodes
    for name in plan.nodes:
        harness.time.now = datetime.now(UTC)
        told = Machine(plan, name).announcement()
        await nodes.announce(told, "127.0.0.1")
        await nodes.proved(name, daemon_start(told.hello), None)
    await harness.close()


def _name(number: int) -> str:
    return f"gpu-{number:04d}"


def _ready(client: httpx2.Client) -> int:
    return sum(node["placeable"] for node in client.get("/api/v1/nodes").raise_for_status().json()["items"])


def _metric(client: httpx2.Client, name: str) -> float:
    lines = client.get("/metrics").text.splitlines()
    return float(next(line.split()[-1] for line in lines if line.startswith(f"{name} ")))


def _p95(client: httpx2.Client, path: str) -> float:
    durations = []
    for _request in range(REQUESTS):
        begun = time.perf_counter()
        client.get(path).raise_for_status()
        durations.append((time.perf_counter() - begun) * 1000)
    return statistics.quantiles(durations, n=20)[-1]
