"""The executor on real Slurm of both versions: answers that get lost on the way, refusals, heterogeneous jobs, other people's hands."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.services.slurm import SlurmCluster
from tests.tuneplane_server.executors.slurm.fault_server import Fault, FaultServer, fault_server
from tests.tuneplane_server.executors.slurm.real import SLURM_VERSIONS, Clusters, OnCluster, directory_of
from tuneplane_server.domain.slurm_choices import parse_partitions, parse_qos
from tuneplane_server.executors.port import (
    CleanupState,
    ExecutorUnreachableError,
    Handle,
    LaunchRefusedError,
    Observation,
    PoolPlan,
)
from tuneplane_server.executors.slurm import launching
from tuneplane_server.executors.slurm.executor import SlurmExecutor
from tuneplane_server.executors.slurm.rest.models import Submission
from tuneplane_server.executors.slurm.script import Part, render
from tuneplane_server.executors.slurm.submitting import submission_of

pytestmark = pytest.mark.services
# Ends as a runner does: told by a signal, or by the batch script through its spool.
SLEEPS = "trap 'exit 143' TERM\nwhile [ ! -e ${0%/*}/../spool/rank-0/stop ]; do sleep 0.05; done\nexit 143\n"
SECONDS = 180.0  # others' jobs may hold the cluster's cards for a while
type Until = Callable[[Observation], bool]


@pytest.fixture(params=SLURM_VERSIONS)
def place(request: pytest.FixtureRequest, slurm_clusters: Clusters) -> OnCluster:
    return OnCluster(slurm_clusters(request.param))


@pytest.fixture
async def executor(place: OnCluster) -> AsyncIterator[SlurmExecutor]:
    made = place.executor()
    yield made
    for handle in await made.owned():
        await made.cleanup(handle)
    await made.close()


@pytest.fixture
async def faults(place: OnCluster) -> AsyncIterator[FaultServer]:
    async with fault_server(place.cluster.url) as server:
        yield server


@pytest.fixture
async def console(place: OnCluster, executor: SlurmExecutor, faults: FaultServer) -> AsyncIterator[SlurmExecutor]:
    """One whose way to Slurm loses what it is told to. `executor` clears up after it."""
    made = place.executor(faults.url)
    yield made
    await made.close()


async def seen(executor: SlurmExecutor, handle: Handle, until: Until) -> Observation:
    found = await executor.observe(handle)
    try:
        async with asyncio.timeout(SECONDS):
            while not until(found):
                await asyncio.sleep(0.1)
                found = await executor.observe(handle)
    except TimeoutError:
        raise AssertionError(f"still {found}") from None
    return found


def is_started(found: Observation) -> bool:
    return found.started or not found.running


def is_over(found: Observation) -> bool:
    return found.presence == "present" and not found.running


def jobs_of(place: OnCluster, handle: Handle) -> list[str]:
    return place.cluster.run(
        "squeue", "-ha", "-t", "all", "-n", f"tp-{handle.job_id}-{handle.attempt}-0", "-o", "%A"
    ).split()


# --- answers that get lost -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["answer-lost", "server-error", "garbage"])
async def test_a_submit_whose_answer_is_lost_is_found_and_not_repeated(
    place: OnCluster, console: SlurmExecutor, faults: FaultServer, fault: Fault
) -> None:
    faults.faults["POST /job/submit"] = [fault]
    handle = await console.launch(place.plan(SLEEPS))
    assert jobs_of(place, handle) == [str(handle.data["id"])]
    assert sum("/job/submit" in line for line in faults.seen) == 1


async def test_a_submit_that_never_arrived_is_repeated_once_that_is_known(
    place: OnCluster, console: SlurmExecutor, faults: FaultServer
) -> None:
    plan = place.plan(SLEEPS)
    faults.faults["POST /job/submit"] = ["request-lost"]
    with pytest.raises(ExecutorUnreachableError):
        await console.launch(plan)
    with pytest.raises(ExecutorUnreachableError):  # it may be on its way
        await console.launch(plan)
    assert await console.cleanup(Handle(plan.job_id, 1)) is CleanupState.UNKNOWN
    console.launcher.unknown_seconds = 0
    handle = await console.launch(plan)
    assert jobs_of(place, handle) == [str(handle.data["id"])]


async def test_what_cannot_be_understood_is_unknown(
    place: OnCluster, console: SlurmExecutor, faults: FaultServer
) -> None:
    handle = await console.launch(place.plan(SLEEPS))
    for fault in ("garbage", "server-error", "answer-lost"):
        faults.faults["GET /jobs"] = [fault, fault]  # a question whose answer was cut off is asked once more
        found = await console.observe(handle)
        assert (found.presence, found.exit) == ("unknown", None)
        console.clearing.listings.forget()
    assert (await console.observe(handle)).presence == "present"


async def test_an_order_whose_answer_is_lost_is_looked_after(
    place: OnCluster, console: SlurmExecutor, faults: FaultServer
) -> None:
    handle = await console.launch(place.plan(SLEEPS))
    await seen(console, handle, is_started)
    faults.faults["DELETE /job"] = ["answer-lost"]
    await console.stop(handle, timedelta(seconds=60))
    found = await console.observe(handle)
    assert found.exit is not None
    assert (found.running, found.exit.exit_code, found.exit.signal) == (False, 143, 15)
    faults.faults["DELETE /job"] = ["answer-lost"]
    assert await console.cleanup(handle) is CleanupState.CONFIRMED


# --- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pools", "given", "setting"),
    [
        ((PoolPlan("main", "cpu", 1, 0),), {"partitions": parse_partitions("nowhere")}, "TUNEPLANE_SLURM_PARTITION"),
        ((PoolPlan("main", "h200", 1, 9),), {}, "TUNEPLANE_SLURM_PARTITION"),
        ((PoolPlan("main", "h200", 5, 8),), {}, "TUNEPLANE_SLURM_PARTITION"),
        ((PoolPlan("main", "b300", 1, 8),), {}, "TUNEPLANE_SLURM_PARTITION"),
        ((PoolPlan("main", "cpu", 1, 0),), {"time_limit_minutes": 100_000}, "TUNEPLANE_SLURM_TIME_LIMIT"),
        ((PoolPlan("main", "cpu", 1, 0),), {"reservation": "nowhere"}, "TUNEPLANE_SLURM_RESERVATION"),
    ],
    ids=["partition", "gpus", "machines", "kind", "time", "reservation"],
)
async def test_every_refusal_names_the_setting(
    place: OnCluster, executor: SlurmExecutor, pools: tuple[PoolPlan, ...], given: dict[str, Any], setting: str
) -> None:
    console = place.executor(**given)
    plan = place.plan(SLEEPS, pools=pools)
    try:
        with pytest.raises(LaunchRefusedError) as refused:
            await console.launch(plan)
        assert refused.value.reason == "slurm-refused"
        assert setting in refused.value.data["detail"]
        assert await console.cleanup(Handle(plan.job_id, 1)) is CleanupState.CONFIRMED
    finally:
        await console.close()


# --- jobs ------------------------------------------------------------------------------------------------------------


async def test_a_heterogeneous_job_is_one_attempt(place: OnCluster, executor: SlurmExecutor) -> None:
    says = "echo I am $TUNEPLANE_MACHINE_RANK of $TUNEPLANE_MACHINE_COUNT with $CUDA_VISIBLE_DEVICES\n"
    plan = place.plan(says, pools=(PoolPlan("train", "h200", 2, 4), PoolPlan("rollout", "h200", 1, 2)))
    handle = await executor.launch(plan)
    assert await executor.owned() == [handle]
    found = await seen(executor, handle, is_over)
    assert found.exit is not None
    assert found.exit.exit_code == 0, found
    assert len(found.nodes) == 3
    assert [member.end.exit_code for member in found.members] == [0, 0, 0]
    for rank, cards in enumerate((4, 4, 2)):
        (line,) = [line for line in found.members[rank].output.splitlines() if line.startswith("I am")]
        words = line.split()
        assert (words[2], words[4], len(words[6].split(","))) == (str(rank), "3", cards)
    assert await executor.cleanup(handle) is CleanupState.CONFIRMED


async def test_somebody_ends_it_in_slurm(place: OnCluster, executor: SlurmExecutor) -> None:
    plan = place.plan(SLEEPS)
    handle = await executor.launch(plan)
    # Slurm calls it RUNNING before its script has begun, and ended so early it could as well be one that the node refused.
    await seen(executor, handle, lambda found: is_started(found) and (directory_of(plan) / "started").exists())
    place.cluster.run("scancel", str(handle.data["id"]))
    found = await seen(executor, handle, is_over)
    assert found.exit is not None
    assert found.exit.cause == "slurm-cancelled"
    assert str(handle.data["id"]) in found.exit.detail


async def test_a_second_start_of_a_job_keeps_the_output_of_the_first_one(
    place: OnCluster, executor: SlurmExecutor
) -> None:
    plan = place.plan("echo second start\n")
    output = directory_of(plan) / "job.out"
    output.parent.mkdir(mode=0o777)
    output.parent.chmod(0o777)
    output.write_text("first start\n")
    output.chmod(0o666)
    handle = await executor.launch(plan)
    found = await seen(executor, handle, is_over)
    assert found.output.startswith("first start\n"), found
    assert "second start\n" in found.output


async def test_slurm_puts_it_back_into_its_queue(place: OnCluster, executor: SlurmExecutor) -> None:
    handle = await executor.launch(place.plan(SLEEPS))
    await seen(executor, handle, is_started)
    place.cluster.run(
        "scontrol", "update", f"jobid={handle.data['id']}", "requeue=1"
    )  # 22.05 has it so, whatever was asked for
    place.cluster.run("scontrol", "requeue", str(handle.data["id"]))
    found = await seen(executor, handle, is_over)
    assert found.exit is not None
    assert (found.exit.cause, found.exit.absent) == ("requeued", True)
    assert await executor.cleanup(handle) is CleanupState.CONFIRMED
    assert not (await executor.observe(handle)).running


async def test_a_storage_root_that_is_not_there_on_the_node_is_named(place: OnCluster, executor: SlurmExecutor) -> None:
    place.root.chmod(0o700)  # to the Slurm user it is not
    handle = await executor.launch(place.plan(SLEEPS))
    found = await seen(executor, handle, is_over)
    assert found.exit is not None
    assert found.exit.cause == "storage-failed", found
    assert "same path" in found.exit.detail


async def test_a_job_that_got_no_gpu_is_ended(
    place: OnCluster, executor: SlurmExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a newer Slurm ignores, with a warning, how the cards were asked for."""

    def without_cards(*given: Any) -> Submission:
        asked = submission_of(*given)
        return replace(asked, components=tuple(replace(part, gpus=0, gpu_type=None) for part in asked.components))

    monkeypatch.setattr(launching, "submission_of", without_cards)
    # The script would see it, too: here it is to be seen by the executor alone.
    monkeypatch.setattr(launching, "render", lambda request: render(replace(request, parts=(Part(1, 0),))))
    handle = await executor.launch(place.plan(SLEEPS, pools=(PoolPlan("main", "h200", 1, 8),)))
    found = await seen(executor, handle, is_over)
    assert found.exit is not None
    assert found.exit.cause == "gpus-missing"
    assert "0 of the 8 GPUs" in found.exit.detail


# --- with accounting -------------------------------------------------------------------------------------------------


@pytest.fixture
async def accounted(slurm_accounting: SlurmCluster) -> AsyncIterator[tuple[OnCluster, SlurmExecutor]]:
    place = OnCluster(slurm_accounting)
    made = place.executor()
    yield place, made
    for handle in await made.owned():
        await made.cleanup(handle)
    await made.close()


async def test_a_job_purged_from_memory_is_looked_up_in_accounting(accounted: tuple[OnCluster, SlurmExecutor]) -> None:
    """Scenario 27."""
    place, executor = accounted
    handle = await executor.launch(place.plan("echo last words; exit 3\n"))
    await asyncio.to_thread(place.cluster.purge, handle.data["id"])
    other = place.executor()
    try:
        found = await seen(other, handle, is_over)
        assert found.exit is not None
        assert found.exit.exit_code == 3
        assert "last words" in found.output
        assert await other.cleanup(handle) is CleanupState.CONFIRMED
        assert (await other.observe(handle)).presence == "absent"
    finally:
        await other.close()


async def test_over_the_account_s_limit_it_waits_and_tells_why(accounted: tuple[OnCluster, SlurmExecutor]) -> None:
    place, executor = accounted
    # slurmctld 22.05 loses sight of a limit that was there before it: it is told of it again.
    place.cluster.run("sacctmgr", "-i", "modify", "account", "small", "set", "grptres=gres/gpu=4")
    console = place.executor(account="small")
    handle = await console.launch(place.plan(SLEEPS, pools=(PoolPlan("main", "h200", 1, 8),)))
    await console.close()
    # Before it has looked at the account Slurm says only that others stand before it.
    found = await seen(executor, handle, lambda now: now.queued is not None and now.queued.reason.startswith("Assoc"))
    assert found.queued is not None
    assert "account" in found.queued.text
    assert found.queued.position is not None
    await executor.stop(handle, timedelta(seconds=1))
    assert not (await executor.observe(handle)).running


@pytest.mark.parametrize(
    ("given", "setting"),
    [({"account": "nowhere"}, "TUNEPLANE_SLURM_ACCOUNT"), ({"qos": parse_qos("nowhere")}, "TUNEPLANE_SLURM_QOS")],
    ids=["account", "qos"],
)
async def test_a_wrong_account_or_qos_is_named(
    accounted: tuple[OnCluster, SlurmExecutor], given: dict[str, Any], setting: str
) -> None:
    place, _executor = accounted
    console = place.executor(**given)
    try:
        with pytest.raises(LaunchRefusedError) as refused:
            await console.launch(place.plan(SLEEPS))
        assert setting in refused.value.data["detail"]
    finally:
        await console.close()
