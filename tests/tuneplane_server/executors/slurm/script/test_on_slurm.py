"""Rendered scripts on real Slurm, submitted as the executor submits them (scenario 28). In place of bootstrap.sh stands a
few lines of sh that say what they see and end as the runner would."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from tests.services.slurm import VERSIONS, SlurmCluster
from tuneplane_server.executors.slurm.script import Part

from .on_slurm import BOUND, SHOWS, WAITS, Stage, end_all, stage_on

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]


@pytest.fixture(scope="module", params=sorted(VERSIONS))
def cluster(request: pytest.FixtureRequest, slurm_clusters: Callable[[str], SlurmCluster]) -> SlurmCluster:
    return slurm_clusters(request.param)


@pytest.fixture
async def stage(cluster: SlurmCluster) -> AsyncIterator[Stage]:
    made = stage_on(cluster)
    yield made
    await end_all(made)


@pytest.fixture
def whole(cluster: SlurmCluster) -> Iterator[SlurmCluster]:
    """A node that a test takes away is back afterwards."""
    yield cluster
    cluster.resume("n2")


async def test_ranks_cards_and_addresses_of_a_heterogeneous_job(stage: Stage) -> None:
    run = await stage.submit(SHOWS, Part(2, 8), Part(1, 4), GREETING="a 'b' $c")
    assert (await run.ended()).states == {"COMPLETED"}, run.output
    seen = [run.environment(rank) for rank in range(3)]
    assert [item["TUNEPLANE_MACHINE_RANK"] for item in seen] == ["0", "1", "2"]
    assert {item["TUNEPLANE_MACHINE_COUNT"] for item in seen} == {"3"}
    assert [len(item["CUDA_VISIBLE_DEVICES"].split(",")) for item in seen] == [8, 8, 4]
    assert len({(item["TUNEPLANE_MAIN_PROCESS_IP"], item["TUNEPLANE_MAIN_PROCESS_PORT"]) for item in seen}) == 1
    assert seen[0]["TUNEPLANE_MAIN_PROCESS_IP"] == "127.0.0.1"
    assert {item["GREETING"] for item in seen} == {"a 'b' $c"}
    assert not [name for item in seen for name in item if name.startswith("SLURM_")]
    assert [(await run.end_of(rank)).code for rank in range(3)] == [0, 0, 0]


async def test_two_jobs_on_one_node_choose_ports_of_their_own(stage: Stage) -> None:
    runs = [await stage.submit(SHOWS + WAITS, Part(1, 4)) for _ in range(2)]
    for run in runs:
        await run.running()
    jobs = [(await stage.client.job(run.id))[0] for run in runs]
    assert jobs[0].nodes == jobs[1].nodes
    ports = [int(run.environment(0)["TUNEPLANE_MAIN_PROCESS_PORT"]) for run in runs]
    assert abs(ports[0] - ports[1]) >= 20


@pytest.mark.parametrize("parts", [(Part(2, 1),), (Part(1, 2), Part(1, 1))], ids=["plain", "heterogeneous"])
async def test_a_signalled_job_saves_on_every_machine(stage: Stage, parts: tuple[Part, ...]) -> None:
    run = await stage.submit(WAITS, *parts)
    await run.running()
    await stage.client.signal(run.id, "TERM")
    job = await run.ended()
    assert [run.saved(rank) for rank in range(2)] == [True, True], run.output
    assert [(await run.end_of(rank)).code for rank in range(2)] == [143, 143]
    assert job.exit_code == 143


async def test_a_job_that_slurm_ends_saves_first(stage: Stage) -> None:
    run = await stage.submit(WAITS, Part(2, 1))
    await run.running()
    await stage.client.cancel(run.id)
    assert "CANCELLED" in (await run.ended()).states
    assert [run.saved(rank) for rank in range(2)] == [True, True], run.output


async def test_one_machine_that_fails_ends_the_other_one_with_grace(stage: Stage) -> None:
    run = await stage.submit(f'[ "$TUNEPLANE_MACHINE_RANK" != 1 ] || exit 5\n{WAITS}', Part(2, 1))
    assert "FAILED" in (await run.ended()).states
    first, second = await run.end_of(0), await run.end_of(1)
    assert (second.code, second.told) == (5, False), run.output
    assert (first.code, first.told) == (143, True)
    assert run.saved(0)


async def test_a_preempted_job_has_the_grace_of_its_partition(stage: Stage) -> None:
    run = await stage.submit(WAITS, Part(4, 8), partition="low")
    await run.running()
    other = await stage.submit("exit 0\n", Part(4, 8))
    job = await run.ended()
    # A job that ends within its grace is called by its exit on 22.05.
    assert job.states & {"PREEMPTED", "FAILED"}, job
    assert [run.saved(rank) for rank in range(4)] == [True] * 4, run.output
    assert (await other.ended()).states == {"COMPLETED"}


async def test_a_machine_that_is_lost_ends_the_job(stage: Stage, whole: SlurmCluster) -> None:
    run = await stage.submit(WAITS, Part(2, 8), grace=5)
    await run.running()
    nodes = (await stage.client.job(run.id))[0].nodes
    assert "n2" in nodes
    await asyncio.to_thread(whole.node_down, "n2")
    async with asyncio.timeout(BOUND):
        while True:
            job = (await stage.client.job(run.id))[0]
            # 22.05 puts it back into its queue although it was told not to; the script refuses to start again (test_running.py).
            if "NODE_FAIL" in job.states or job.restarts:
                break
            await asyncio.sleep(0.1)
    await run.wait("the other machine saves", lambda: run.saved(0))


async def test_the_warning_before_the_time_limit_reaches_the_runner(stage: Stage) -> None:
    run = await stage.submit(WAITS, Part(2, 1), minutes=2, warning=("TERM", 110))
    job = await run.ended()
    assert "TIMEOUT" not in job.states
    assert [run.saved(rank) for rank in range(2)] == [True, True], run.output
    assert [(await run.end_of(rank)).code for rank in range(2)] == [143, 143]


async def test_slurms_time_limit_reaches_the_runner_before_the_kill(
    slurm_clusters: Callable[[str], SlurmCluster],
) -> None:
    """On all versions at once: the least limit is a minute."""
    stages = [stage_on(slurm_clusters(version)) for version in sorted(VERSIONS)]
    runs = [await stage.submit(WAITS, Part(1, 0), minutes=1) for stage in stages]
    jobs = await asyncio.gather(*(run.ended() for run in runs))
    for stage, run, job in zip(stages, runs, jobs, strict=True):
        assert "TIMEOUT" in job.states
        assert run.saved(0), run.output
        await stage.client.close()
