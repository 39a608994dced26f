"""Many looks at once, others' jobs, and what is ours."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from tests.tuneplane_server.executors.slurm.memory import (
    JOB,
    a_console_like,
    a_foreign_job,
    directory_of,
)
from tests.tuneplane_server.executors.slurm.stage import Stage
from tuneplane_server.executors.port import (
    ExecutorUnreachableError,
    Handle,
)
from tuneplane_server.executors.slurm.rest.models import SlurmJob


async def test_many_looks_are_one_question(stage: Stage) -> None:
    handle = await stage.launch()
    stage.slurm.asked.clear()
    for _each in range(50):
        await stage.executor.observe(handle)
    assert stage.slurm.asked == ["jobs"]


async def test_a_listing_that_takes_long_is_asked_for_rarely(stage: Stage) -> None:
    handle = await stage.launch()
    quick = stage.slurm.jobs

    async def slow(*, name: str | None = None, everyone: bool = False) -> list[SlurmJob]:
        stage.slurm.time.passed += 5
        return await quick(name=name, everyone=everyone)

    stage.slurm.jobs = slow
    stage.slurm.asked.clear()
    for _each in range(20):
        await stage.executor.observe(handle)
        stage.slurm.time.passed += 1.5
    assert stage.slurm.asked == ["jobs"] * 2


async def test_a_listing_that_was_on_its_way_when_something_changed_is_not_kept(stage: Stage) -> None:
    handle = await stage.launch()
    quick, asked, go_on = stage.slurm.jobs, asyncio.Event(), asyncio.Event()

    async def slow(*, name: str | None = None, everyone: bool = False) -> list[SlurmJob]:
        found = await quick(name=name, everyone=everyone)
        asked.set()
        await go_on.wait()
        return found

    stage.slurm.jobs = slow
    looking = asyncio.create_task(stage.executor.observe(handle))
    async with asyncio.timeout(60):
        await asked.wait()
        stage.slurm.jobs = quick
        stage.slurm.run(17)
        stage.executor.clearing.listings.forget()
        go_on.set()
        assert (await looking).queued is not None
    assert (await stage.executor.observe(handle)).started


async def test_a_missing_job_costs_no_question_at_every_look(stage: Stage) -> None:
    handle = await stage.launch()
    stage.slurm.known.clear()
    await stage.executor.observe(handle)
    stage.slurm.asked.clear()
    for _each in range(10):
        await stage.executor.observe(handle)
    assert stage.slurm.asked == []


async def test_a_listing_from_before_the_launch_does_not_make_a_job_missing(stage: Stage) -> None:
    await stage.executor.owned()
    handle = await a_console_like(stage.executor, stage.slurm).launch(stage.plan)
    assert (await stage.executor.observe(handle)).presence == "present"


async def test_runs_of_another_executor_are_unknown_and_never_gone(stage: Stage) -> None:
    handle = Handle(JOB, 1, {"machines": ["docker/tp-x"], "instance": "x"})
    seen = await stage.executor.observe(handle)
    assert seen.presence == "unknown"
    assert "TUNEPLANE_EXECUTOR" in seen.detail
    assert (await stage.executor.cleanup(handle)).value == "unknown"
    with pytest.raises(ExecutorUnreachableError, match="TUNEPLANE_EXECUTOR"):
        await stage.executor.stop(handle, timedelta(seconds=1))
    assert stage.slurm.asked == []


async def test_what_is_owned_is_made_again_from_slurm_and_the_intent(gang: Stage) -> None:
    handle = await gang.launch()
    assert await gang.executor.owned() == [handle]
    assert await gang.executor.owned([handle.nodes[1]]) == [handle]
    assert await gang.executor.owned(["elsewhere"]) == []
    gang.slurm.run(17)
    assert await gang.executor.owned() == [handle]
    gang.slurm.set(17, "COMPLETED")
    assert await gang.executor.owned() == []


@pytest.mark.parametrize("break_it", [lambda path: path.unlink(), lambda path: path.write_text("{")])
async def test_what_is_owned_without_an_intent_is_told_as_slurm_has_it(
    gang: Stage, break_it: Callable[[Path], object]
) -> None:
    handle = await gang.launch()
    break_it(directory_of(gang.plan) / "intent-1.json")
    assert await gang.executor.owned() == [handle]


async def test_other_people_s_jobs_are_not_owned(stage: Stage) -> None:
    a_foreign_job(stage.slurm, 5)
    await stage.launch()
    stage.slurm.set(17, "PENDING", user="other")
    assert await stage.executor.owned() == []
    stage.slurm.set(17, "PENDING", user="trainer", comment="tuneplane of another run", directory="/elsewhere")
    assert await stage.executor.owned() == []


@pytest.mark.parametrize(
    "directory",
    ["", "/elsewhere/attempts/1/slurm", "{root}/projects/ann/demo/jobs/other/attempts/1/slurm", "{root}/../x"],
)
async def test_jobs_of_another_console_are_not_owned(stage: Stage, tmp_path: Path, directory: str) -> None:
    await stage.launch()
    stage.slurm.set(17, "PENDING", directory=directory.format(root=tmp_path))
    assert await stage.executor.owned() == []


async def test_machines_of_the_partitions_that_jobs_can_go_to(stage: Stage) -> None:
    first, *_others = await stage.executor.nodes()
    assert (first.name, first.cpus, first.memory_gb, first.placeable, first.why) == ("n0", 64.0, 500.0, True, "")
    assert [(gpu.index, gpu.profile, gpu.simulated) for gpu in first.gpus] == [
        (index, "h200", False) for index in range(8)
    ]
    assert first.gpus_used == 0
