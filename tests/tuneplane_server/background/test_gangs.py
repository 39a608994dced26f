"""What the ledger makes of a job on several machines: one verdict, the true first cause, and patience with who cannot be asked."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.tuneplane_server.executors.scripted import ScriptedExecutor
from tests.tuneplane_server.harness import Harness, jobspec
from tuneplane_server.domain.classify import Exit
from tuneplane_server.domain.members import MemberEnd
from tuneplane_server.executors.port import (
    Capabilities,
    CleanupState,
    ExecutorUnreachableError,
    Handle,
    LaunchPlan,
    NodeInfo,
    Observation,
)
from tuneplane_server.features.accounts.principal import Principal

NODES = ("n1", "n2")
RUNNING = Observation("present", running=True)
ENDED = Exit(exit_code=1)


@dataclass
class Gang(ScriptedExecutor):
    """Two machines; what is seen of them is `seen`, whoever looks. `asked`: the handles of cleanups."""

    seen: Observation = RUNNING
    asked: list[Handle] = field(default_factory=list)
    looked_on: list[tuple[str, ...]] = field(default_factory=list)

    def capabilities(self) -> Capabilities:
        return Capabilities("scripted", "environment", multi_node=True, on_this_machine=True, isolates=False)

    async def nodes(self) -> list[NodeInfo]:
        return [NodeInfo(name, 16, 64, ()) for name in NODES]

    async def launch(self, plan: LaunchPlan) -> Handle:
        handle = await super().launch(plan)
        return Handle(handle.job_id, handle.attempt, handle.data, "scripted", False, NODES)

    async def observe(self, handle: Handle) -> Observation:
        return self.seen

    async def owned(self, nodes: Any = ()) -> list[Handle]:
        self.looked_on.append(tuple(nodes))
        return await super().owned(nodes)

    async def cleanup(self, handle: Handle) -> CleanupState:
        self.asked.append(handle)
        return await super().cleanup(handle)


@pytest.fixture
async def harness(migrated_url: str, tmp_path: Path) -> AsyncIterator[Harness]:
    """Runs the test twice: on SQLite and on Postgres."""
    harness = Harness(migrated_url, tmp_path, Gang())
    yield harness
    await harness.close()


def gang(harness: Harness) -> Gang:
    assert isinstance(harness.executor, Gang)
    return harness.executor


def two_machines(**spec: Any) -> dict[str, Any]:
    pool = {"name": "main", "series": "cpu", "nodes": 2, "gpus_per_node": 0, "cpus": 1, "memory_gb": 1}
    return jobspec(resources={"pools": [pool]}, **spec)


async def write(harness: Harness, job_id: str, rank: int, result: str, log: str = "", ago: float = 600) -> None:
    """What the runner of machine `rank` leaves, as of so many seconds ago."""
    job = await harness.job(job_id)
    name = "outcome.json" if rank == 0 else f"outcome.{rank}.json"
    record = {
        "apiVersion": "tuneplane/outcome/v1", "job": job.id, "attempt": job.attempt, "machine_rank": rank, "result": result,
        "exit_code": 0 if result == "succeeded" else 1, "finished_at": harness.time.now.timestamp() - ago, "log_tail": log,
    }  # fmt: skip
    (harness.out(job) / name).write_text(json.dumps(record))


def ended(*members: MemberEnd) -> Observation:
    return Observation("present", exit=members[0].end, members=members)


LOST_PEER = "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n"
NO_MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"


async def test_the_reason_is_that_of_the_machine_which_failed_by_itself(harness: Harness, ada: Principal) -> None:
    job_id = await harness.running_job(ada, two_machines())
    await write(harness, job_id, 0, "failed", LOST_PEER)
    await write(harness, job_id, 1, "failed", NO_MEMORY)
    gang(harness).seen = ended(MemberEnd(0, "n1", ENDED), MemberEnd(1, "n2", ENDED))
    await harness.round(3)
    job = await harness.job(job_id)
    assert job.reason is not None
    assert (job.phase, job.reason["code"]) == ("failed", "gpu-out-of-memory")
    assert (job.reason["data"]["rank"], job.reason["data"]["node"]) == (1, "n2")


async def test_the_first_machines_success_ends_it_well_though_others_run_on(harness: Harness, ada: Principal) -> None:
    job_id = await harness.running_job(ada, two_machines())
    await write(harness, job_id, 0, "succeeded")
    gang(harness).seen = Observation("present", running=True, members=(MemberEnd(0, "n1", Exit(exit_code=0)),))
    await harness.round()
    job = await harness.job(job_id)
    assert (job.phase, (job.verdict or {})["phase"]) == ("finishing", "succeeded")


async def test_who_only_lost_the_other_waits_for_its_word(harness: Harness, ada: Principal) -> None:
    """Its own word is there first; the cause's comes a moment later."""
    job_id = await harness.running_job(ada, two_machines())
    await write(harness, job_id, 0, "failed", LOST_PEER, ago=1)
    await harness.round()
    assert ((await harness.job(job_id)).phase, (await harness.job(job_id)).verdict) == ("running", None)
    await write(harness, job_id, 1, "failed", NO_MEMORY, ago=2)
    await harness.round()
    job = await harness.job(job_id)
    assert (job.phase, (job.verdict or {})["reason"]["code"]) == ("finishing", "gpu-out-of-memory")


async def test_what_it_lost_cannot_be_asked_so_that_is_waited_for(harness: Harness, ada: Principal) -> None:
    """Scenario 28: unreachable until it is known, here until its node was given up; then the run goes on in another attempt."""
    job_id = await harness.running_job(ada, two_machines(limits={"retries": {"infra": 1}}))
    await write(harness, job_id, 0, "failed", LOST_PEER)
    gang(harness).seen = ended(MemberEnd(0, "n1", ENDED))
    for _look in range(3):
        await harness.round()
        harness.time.pass_(300)
    job = await harness.job(job_id)
    assert (job.phase, job.cleanup) == ("running", "none")
    assert "unreachable" in {item["type"] for item in job.conditions}
    gone = Exit(absent=True, cause="node-lost", detail="n2 is silent since noon")
    gang(harness).seen = ended(MemberEnd(0, "n1", ENDED), MemberEnd(1, "n2", gone))
    await harness.round()
    gang(harness).seen = RUNNING
    for _look in range(5):
        await harness.round()
        harness.time.pass_(60)
    attempts = (await harness.services.jobs.attempts([job_id]))[job_id]
    assert [(item.n, item.phase, (item.reason or {}).get("code")) for item in attempts] == [
        (1, "lost", "node-lost"),
        (2, "running", None),
    ]


async def test_a_cancel_does_not_wait_for_who_cannot_be_asked(harness: Harness, ada: Principal) -> None:
    job_id = await harness.running_job(ada, two_machines())
    await harness.services.jobs.cancel(ada, job_id)
    await write(harness, job_id, 0, "cancelled")
    gang(harness).seen = ended(MemberEnd(0, "n1", Exit(exit_code=143, signal=15)))
    gang(harness).cleans = False
    await harness.round()
    job = await harness.job(job_id)
    assert (job.phase, job.cleanup, (job.verdict or {})["reason"]["code"]) == ("finishing", "pending", "cancelled")


async def test_a_launch_nobody_saw_the_end_of_is_looked_for_on_its_nodes(harness: Harness, ada: Principal) -> None:
    job_id = await harness.submit(ada, two_machines())
    gang(harness).launch_errors = [ExecutorUnreachableError("nobody answers")]
    await harness.round()
    job = await harness.job(job_id)
    assert (job.phase, job.handle) == ("starting", None)
    await harness.services.jobs.cancel(ada, job_id)
    for _look in range(4):
        harness.time.pass_(60)
        await harness.round()
    job = await harness.job(job_id)
    assert (job.phase, job.cleanup) == ("cancelled", "confirmed")
    assert gang(harness).looked_on
    assert all(set(nodes) == set(NODES) for nodes in gang(harness).looked_on if nodes)
    planned = [handle for handle in gang(harness).asked if (handle.job_id, dict(handle.data)) == (job_id, {})]
    assert planned
    assert set(planned[0].nodes) == set(NODES)


async def test_a_node_that_nobody_reaches_until_the_deadline_is_the_reason(harness: Harness, ada: Principal) -> None:
    job_id = await harness.submit(ada, two_machines())
    gang(harness).launch_errors = [ExecutorUnreachableError("n2 does not answer", "node-unreachable")] * 10
    for _look in range(3):
        await harness.round()
        harness.time.pass_(1000)
    await harness.round(2)
    job = await harness.job(job_id)
    assert job.reason is not None
    assert (job.phase, job.reason["code"], job.reason["data"]["detail"]) == (
        "failed",
        "node-unreachable",
        "n2 does not answer",
    )
