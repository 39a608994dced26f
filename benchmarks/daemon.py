"""A node's daemon: what it takes when idle, and what HTTP adds to the engine's own launch."""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.measure import Result, cpu_seconds, memory_mb
from tests.tuneplane_node.daemon.served import Daemon
from tuneplane_node.client import NodeClient
from tuneplane_node.engine import LABEL_ATTEMPT, LABEL_JOB, Engine, LaunchRequest

IDLE_SECONDS = 30.0
LAUNCHES = 20
JOBS = 100


def run() -> list[Result]:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measured(Path(folder)))


async def _measured(root: Path) -> list[Result]:
    settings = {"TUNEPLANE_SIMULATED_GPUS": "h200:8", "TUNEPLANE_CONSOLE_URL": "http://127.0.0.1:9"}
    daemon = await Daemon(root / "daemon", settings).start()
    engine = Engine("benchmark", root / "engine", runtime="process", simulated_gpus="h200:8")
    client = daemon.client()
    try:
        return [
            *await _idle(daemon),
            Result(
                "a launch through a node",
                await _launches(client, "remote"),
                "s",
                "the engine in-process",
                await _launches(engine, "local"),
                "placement and launch on 4 nodes ≤ 2 s beyond the containers' own start",
            ),
            await _look(client),
        ]
    finally:
        for job in range(JOBS):
            await client.cleanup_attempt(f"look-{job}", 1)
        await client.close()
        await engine.close()
        await daemon.stop()


async def _idle(daemon: Daemon) -> list[Result]:
    assert daemon.process is not None
    await daemon.says("Containers taken over")
    before, begun = cpu_seconds([daemon.process.pid]), time.monotonic()
    await asyncio.sleep(IDLE_SECONDS)
    used = (cpu_seconds([daemon.process.pid]) - before) / (time.monotonic() - begun)
    return [
        Result("a node's daemon, idle, memory", memory_mb([daemon.process.pid]), "MB", target="≤ 80 MB"),
        Result("a node's daemon, idle, share of a core", used * 100, "%", target="≤ 1 %"),
    ]


async def _launches(where: NodeClient | Engine, name: str) -> float:
    """Median seconds until a launch has answered."""
    seconds = []
    for number in range(LAUNCHES):
        request = _request(f"{name}-{number}", "exit 0")
        begun = time.perf_counter()
        handle = await where.launch(request)
        seconds.append(time.perf_counter() - begun)
        await where.cleanup(handle)
    return statistics.median(seconds)


async def _look(client: NodeClient) -> Result:
    """One call for the state of everything that a node runs."""
    await asyncio.gather(*(client.launch(_request(f"look-{job}", "exec sleep 600")) for job in range(JOBS)))
    seconds = []
    for _ in range(LAUNCHES):
        begun = time.perf_counter()
        assert len(await client.containers()) == JOBS
        seconds.append(time.perf_counter() - begun)
    return Result(f"the state of {JOBS} jobs of a node", statistics.median(seconds), "s")


def _request(job: str, script: str) -> LaunchRequest:
    return LaunchRequest(
        name=f"tp-{job}", labels={LABEL_JOB: job, LABEL_ATTEMPT: "1"}, command=["sh", "-c", script], gpus=(0,)
    )
