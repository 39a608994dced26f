"""A job on four nodes: placement and launch (each node looked at, a meeting place found, all started), beside a bare start on one of
them. Real daemons on this machine, process mode; every time is until the script's first line has run everywhere.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks.measure import Result
from tests.tuneplane_server.executors.nodes import Machines
from tests.tuneplane_server.executors.test_gang import plan_of
from tuneplane_node.client import NodeClient
from tuneplane_node.engine import LABEL_ATTEMPT, LABEL_JOB, LaunchRequest
from tuneplane_server.domain.placement import PoolRequest, free_rooms, place
from tuneplane_server.executors.port import LaunchPlan
from tuneplane_server.features.hardware.service import machines_of

NAMES = ("n1", "n2", "n3", "n4")
SCRIPT = ': > "${0%/*}/up$TUNEPLANE_MACHINE_RANK"\nwhile :; do sleep 1; done\n'
RUNS = 7
PATIENCE = 60.0


def run() -> list[Result]:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_measure(Path(folder)))


async def _measure(folder: Path) -> list[Result]:
    machines = await Machines(folder, NAMES).start()
    try:
        gangs, alone = [], []
        for _round in range(RUNS):
            gangs.append(await _gang(machines))
            alone.append(await _alone(machines))
            await machines.clean()
    finally:
        await machines.stop()
    gang, bare = statistics.median(gangs), statistics.median(alone)
    return [
        Result("a start on one node, bare", bare, "s"),
        Result("placement and launch on four nodes", gang, "s"),
        Result("… beyond the bare start", gang - bare, "s", target="≤ 2 s"),
    ]


async def _gang(machines: Machines) -> float:
    executor = machines.executor()
    plan = plan_of(machines, SCRIPT, NAMES)
    begun = time.perf_counter()
    pool = PoolRequest("main", "h200", len(NAMES), 8)
    placed = place([pool], free_rooms(machines_of(await executor.nodes()), ()))
    assert isinstance(placed, list)
    await executor.launch(plan)
    await _until_up(plan, len(NAMES))
    seconds = time.perf_counter() - begun
    await executor.close()
    return seconds


async def _alone(machines: Machines) -> float:
    plan = plan_of(machines, SCRIPT, NAMES[:1])
    client: NodeClient = machines.daemons[NAMES[0]].client()
    begun = time.perf_counter()
    await client.launch(
        LaunchRequest(
            name=f"bare-{plan.job_id}",
            labels={LABEL_JOB: plan.job_id, LABEL_ATTEMPT: "1"},
            command=["sh", str(plan.capsule / "bootstrap.sh")],
            env={"TUNEPLANE_MACHINE_RANK": "0"},
        )
    )
    await _until_up(plan, 1)
    seconds = time.perf_counter() - begun
    await client.close()
    return seconds


async def _until_up(plan: LaunchPlan, machines: int) -> None:
    deadline = time.perf_counter() + PATIENCE
    while not all((plan.capsule / f"up{rank}").exists() for rank in range(machines)):
        assert time.perf_counter() < deadline, "they did not start"
        await asyncio.sleep(0.005)
