"""One suite for every executor: the scripted one of the tests, the local one with real processes, `agent` with two real daemons, and
`slurm` on two versions of the real thing."""

from __future__ import annotations

import asyncio
import hashlib
import os
import uuid
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.tuneplane_server.executors.nodes import Machines
from tests.tuneplane_server.executors.scripted import Container, ScriptedExecutor
from tests.tuneplane_server.executors.slurm.real import SLURM_VERSIONS, OnCluster
from tuneplane_server.domain.classify import Exit
from tuneplane_server.domain.ids import make_id
from tuneplane_server.executors.local import LocalExecutor
from tuneplane_server.executors.port import (
    CleanupState,
    Executor,
    ExecutorUnreachableError,
    Handle,
    LaunchPlan,
    MachinePlan,
    NodeFigures,
    Observation,
    RunFigures,
)
from tuneplane_server.settings import load_settings

SLEEPS = "trap 'exit 143' TERM\nwhile :; do sleep 0.05; done\n"
DEAF = "trap '' TERM\n: > \"${0%/*}/deaf\"\nwhile :; do sleep 0.05; done\n"


class Stage:
    """An executor and a way to launch scripts on it."""

    def __init__(self, executor: Executor, folder: Path, node: str = "node") -> None:
        self.executor, self._folder, self._node = executor, folder, node

    def plan(self, script: str, attempt: int = 1, job_id: str | None = None, **env: str) -> LaunchPlan:
        job = job_id or make_id(uuid.uuid4().int >> 81, uuid.uuid4().bytes[:4])
        capsule = self._folder / f"{job}-{attempt}"
        capsule.mkdir(exist_ok=True)
        (capsule / "bootstrap.sh").write_text(script)
        machine = MachinePlan(0, self._node, (), None, None)
        files = {"bootstrap.sh": hashlib.sha256(script.encode()).hexdigest()}
        return LaunchPlan(job, attempt, None, capsule, env, (capsule,), (), (machine,), files=files)

    def planned(self, plan: LaunchPlan) -> Handle:
        """The handle of a launch that nobody saw the end of."""
        return Handle(plan.job_id, plan.attempt, nodes=(self._node,))

    async def ended(self, handle: Handle) -> Observation:
        """The first observation that is not `running`."""
        async with asyncio.timeout(180):  # others' jobs may hold a cluster's machines for a while
            while True:
                seen = await self.executor.observe(handle)
                if not seen.running:
                    return seen
                await asyncio.sleep(0.02)

    def script_end(self, handle: Handle, exit_code: int) -> None:
        """The scripted executor runs no script: say how it ended."""
        if isinstance(self.executor, ScriptedExecutor):
            self.executor.containers[handle.job_id, handle.attempt].exit = Exit(False, exit_code)


class SlurmStage(Stage):
    """In a container on a compute node, under a user of its own."""

    def __init__(self, executor: Executor, place: OnCluster) -> None:
        super().__init__(executor, place.root)
        self._place = place

    def plan(self, script: str, attempt: int = 1, job_id: str | None = None, **env: str) -> LaunchPlan:
        return self._place.plan(script, attempt=attempt, job_id=job_id, env=env)

    def planned(self, plan: LaunchPlan) -> Handle:
        return Handle(plan.job_id, plan.attempt, nodes=tuple(machine.node for machine in plan.machines))


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    made = Machines(tmp_path_factory.mktemp("nodes"), ("n1", "n2"))
    asyncio.run(made.start())
    yield made
    asyncio.run(made.stop())


KINDS = [
    "scripted",
    "local",
    "agent",
    *(pytest.param(f"slurm-{v}", marks=pytest.mark.services) for v in SLURM_VERSIONS),
]


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def place(kind: str, request: pytest.FixtureRequest) -> OnCluster | None:
    name, _dash, version = kind.partition("-")
    return OnCluster(request.getfixturevalue("slurm_clusters")(version)) if name == "slurm" else None


@pytest.fixture
async def stage(kind: str, place: OnCluster | None, tmp_path: Path, machines: Machines) -> AsyncIterator[Stage]:
    if place is not None:
        executor: Any = place.executor()
        await executor.open()
        yield SlurmStage(executor, place)
        for handle in await executor.owned():
            await executor.cleanup(handle)
        await executor.close()
        return
    if kind == "agent":
        executor = machines.executor()
        await executor.open()
        yield Stage(executor, machines.storage, "n2")
        await executor.close()
        await machines.clean()
        return
    if kind == "scripted":
        executor = ScriptedExecutor()
    else:
        settings = load_settings({"TUNEPLANE_STORAGE_ROOT": str(tmp_path / "root"), "TUNEPLANE_RUNTIME": "process"})
        executor = LocalExecutor(settings, "contract")
    await executor.open()
    yield Stage(executor, tmp_path)
    for handle in await executor.owned():
        await executor.cleanup(handle)
    await executor.close()


async def test_a_launched_attempt_is_present_and_owned(stage: Stage) -> None:
    plan = stage.plan(SLEEPS)
    handle = await stage.executor.launch(plan)
    assert (handle.job_id, handle.attempt) == (plan.job_id, 1)
    seen = await stage.executor.observe(handle)
    assert (seen.presence, seen.running, seen.exit) == ("present", True, None)
    assert [(item.job_id, item.attempt) for item in await stage.executor.owned()] == [(plan.job_id, 1)]


async def test_launching_twice_gets_the_first(stage: Stage) -> None:
    plan = stage.plan(SLEEPS)
    assert await stage.executor.launch(plan) == await stage.executor.launch(plan)
    assert len(await stage.executor.owned()) == 1


async def test_a_handle_survives_the_ledger(stage: Stage) -> None:
    handle = await stage.executor.launch(stage.plan(SLEEPS))
    assert Handle.from_json(handle.to_json()) == handle
    assert (await stage.executor.observe(Handle.from_json(handle.to_json()))).presence == "present"


async def test_a_handle_says_what_it_runs_in_as_the_capabilities_do(stage: Stage) -> None:
    handle = await stage.executor.launch(stage.plan(SLEEPS))
    able = stage.executor.capabilities()
    assert (handle.runtime, handle.isolated) == (able.runtime, able.isolates)
    assert await stage.executor.owned() == [handle]


def test_a_handle_of_an_earlier_version_knows_no_runtime() -> None:
    handle = Handle.from_json({"job_id": "0" * 16, "attempt": 1, "data": {}})
    assert (handle.runtime, handle.isolated) == ("", None)


async def test_the_exit_code_is_seen(stage: Stage) -> None:
    handle = await stage.executor.launch(stage.plan("echo last words >&2; exit 3\n"))
    stage.script_end(handle, 3)
    seen = await stage.ended(handle)
    assert seen.presence == "present"
    assert seen.exit is not None
    assert seen.exit.exit_code == 3
    if not isinstance(stage.executor, ScriptedExecutor):
        assert "last words" in seen.output


async def test_stop_ends_it_and_ending_it_again_is_fine(stage: Stage) -> None:
    handle = await stage.executor.launch(stage.plan(SLEEPS))
    await stage.executor.stop(handle, timedelta(seconds=10))
    assert not (await stage.executor.observe(handle)).running
    await stage.executor.stop(handle, timedelta(seconds=10))


async def test_what_ignores_sigterm_is_killed_after_the_grace(stage: Stage) -> None:
    plan = stage.plan(DEAF)
    os.mkfifo(plan.capsule / "deaf")
    (plan.capsule / "deaf").chmod(0o666)
    handle = await stage.executor.launch(plan)
    if isinstance(stage.executor, ScriptedExecutor):
        container: Container = stage.executor.containers[handle.job_id, 1]
        container.ignores_sigterm = True
    else:
        await asyncio.to_thread((plan.capsule / "deaf").read_bytes)  # until the script has opened it, too
    await stage.executor.stop(handle, timedelta(seconds=0.2))
    seen = await stage.executor.observe(handle)
    assert seen.exit is not None
    assert seen.exit.signal == 9


async def test_cleanup_proves_absence_and_may_be_repeated(stage: Stage) -> None:
    handle = await stage.executor.launch(stage.plan(SLEEPS))
    assert await stage.executor.cleanup(handle) is CleanupState.CONFIRMED
    assert (await stage.executor.observe(handle)).presence == "absent"
    assert await stage.executor.owned() == []
    assert await stage.executor.cleanup(handle) is CleanupState.CONFIRMED


async def test_cleanup_finds_a_launch_nobody_saw_the_end_of(stage: Stage) -> None:
    plan = stage.plan(SLEEPS)
    await stage.executor.launch(plan)
    assert await stage.executor.cleanup(stage.planned(plan)) is CleanupState.CONFIRMED
    assert await stage.executor.owned() == []


async def test_cleanup_leaves_other_attempts_alone(stage: Stage) -> None:
    first = stage.plan(SLEEPS)
    second = stage.plan(SLEEPS, attempt=2, job_id=first.job_id)
    await stage.executor.launch(first)
    await stage.executor.launch(second)
    await stage.executor.cleanup(stage.planned(first))
    assert [item.attempt for item in await stage.executor.owned()] == [2]


async def test_a_launch_that_slurm_was_about_to_do_is_not_gone_for_others(tmp_path: Path) -> None:
    settings = load_settings({"TUNEPLANE_STORAGE_ROOT": str(tmp_path / "root"), "TUNEPLANE_RUNTIME": "process"})
    planned = Handle("0" * 16, 1, nodes=(f"slurm/{'0' * 16}-1/0",))
    assert await LocalExecutor(settings, "mine").cleanup(planned) is CleanupState.UNKNOWN


async def test_there_is_a_machine_with_cpus(stage: Stage) -> None:
    for node in await stage.executor.nodes():
        assert node.cpus >= 1
        assert node.memory_gb > 0
        assert (node.placeable, node.why) == (True, "")


async def test_a_node_is_measured_with_what_runs_there_and_an_unknown_one_is_not(stage: Stage) -> None:
    node = (await stage.executor.nodes())[-1]
    if isinstance(stage, SlurmStage):  # who has a card it says, and not what it does
        assert await stage.executor.sample(node.name) is None
        return
    handle = await stage.executor.launch(stage.plan(SLEEPS))
    if isinstance(stage.executor, ScriptedExecutor):
        runs = (RunFigures(handle.job_id, 1, {"memory_used": 1.0}),)
        stage.executor.measured = lambda: NodeFigures(node.name, 1.0, {"memory_used": 1.0}, (), runs)
    seen = await stage.executor.sample(node.name)
    assert seen is not None
    assert (seen.node, seen.figures["memory_used"] > 0) == (node.name, True)
    assert [(run.job_id, run.attempt, run.figures["memory_used"] > 0) for run in seen.runs] == [
        (handle.job_id, 1, True)
    ]
    if not isinstance(stage.executor, ScriptedExecutor):
        assert await stage.executor.sample("elsewhere") is None


@pytest.mark.parametrize(
    "data",
    [
        {"machines": [f"process/tp-{'0' * 16}-1-0"], "instance": "another"},
        {"slurm": 1, "id": 17, "directory": "/d/slurm", "gpus": 8},
        {"agent": 1, "machines": [{"node": "n1", "where": "docker/x"}], "main": "", "grace": 60.0},
    ],
    ids=["another console", "slurm", "agent"],
)
async def test_what_was_begun_elsewhere_is_unknown_and_never_gone(tmp_path: Path, data: dict[str, Any]) -> None:
    settings = load_settings({"TUNEPLANE_STORAGE_ROOT": str(tmp_path / "root"), "TUNEPLANE_RUNTIME": "process"})
    handle = Handle("0" * 16, 1, data)
    executor = LocalExecutor(settings, "mine")
    assert (await executor.observe(handle)).presence == "unknown"
    assert await executor.cleanup(handle) is CleanupState.UNKNOWN
    with pytest.raises(ExecutorUnreachableError):
        await executor.stop(handle, timedelta(seconds=1))
