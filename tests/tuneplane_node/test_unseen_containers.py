"""A dockerd that is killed while it starts a container does not know afterwards that it did. Nothing runs twice for that, and
nothing stays.

The moment of its death is fixed by the runtime under containerd: a runc that ends dockerd when it has done its own part.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.services.containers import Engine as ContainerEngine
from tests.services.containers import import_image
from tests.tuneplane_node.bench import IMAGE, Bench, command_lines, is_held, until, until_told
from tests.tuneplane_node.dockerd import Daemon
from tuneplane_node.engine import LaunchRequest, NodeError, RuntimeHandle

pytestmark = pytest.mark.services


class Stage:
    """An engine over a daemon that dies when it is told to."""

    def __init__(self, daemon: Daemon, bench: Bench) -> None:
        self.daemon, self.bench, self.engine = daemon, bench, bench.engine

    async def launch_and_die(self, request: LaunchRequest, after: str) -> None:
        """`after`: what runc has just done, `create` or `start`. The daemon is up again when this returns."""
        self.daemon.die_after(after)
        with pytest.raises(NodeError) as problem:
            await self.engine.launch(request)
        assert problem.value.code == "engine-unreachable"
        await asyncio.to_thread(self.daemon.kill)  # collects it
        await asyncio.to_thread(self.daemon.start)
        with self.bench.api() as api:
            state = api.get(f"/containers/{request.name}/json").raise_for_status().json()["State"]
        assert (state["Status"], state["StartedAt"][:4]) == ("created", "0001"), (
            "this daemon knows; the test shows nothing"
        )

    async def launch_until_it_takes(self, request: LaunchRequest) -> RuntimeHandle:
        """As the console does, which backs off and asks again."""

        async def ask() -> RuntimeHandle | NodeError:
            try:
                return await self.engine.launch(request)
            except NodeError as problem:
                return problem

        found = await until_told(ask, lambda answer: isinstance(answer, RuntimeHandle) or not answer.retry)
        assert isinstance(found, RuntimeHandle)
        return found

    def notes(self) -> list[str]:
        folder = self.bench.state_root / "unseen" / "docker"
        return [path.name for path in folder.iterdir()] if folder.exists() else []

    def runs(self) -> int:
        path = self.bench.directory / "runs"
        return len(path.read_text().splitlines()) if path.exists() else 0


@pytest.fixture
async def stage(daemon: Daemon, tmp_path: Path) -> AsyncIterator[Stage]:
    daemon.make_mortal()
    import_image(ContainerEngine("docker", str(daemon.socket)), IMAGE, {"PATH": "/usr/bin:/bin"})
    bench = Bench("docker", f"unix://{daemon.socket}", IMAGE, tmp_path)
    yield Stage(daemon, bench)
    await bench.clean()


async def test_a_container_that_docker_does_not_know_to_run_is_adopted_stopped_and_removed(stage: Stage) -> None:
    bench = stage.bench
    request = bench.request(
        f"echo run >>{bench.directory}/runs; trap 'echo told >>{bench.directory}/told; exit 3' TERM; "
        f"touch {bench.directory}/ready; while :; do sleep 0.05; done"
    )
    await stage.launch_and_die(request, "start")
    await bench.exists("ready")
    handle = await stage.launch_until_it_takes(request)
    seen = await stage.engine.observe(handle)
    assert (seen.state, seen.detail) == ("running", "the engine does not know that it runs")
    await stage.engine.stop(handle, 30)
    ended = await bench.new_engine().observe(handle)  # another one knows as well
    assert (ended.state, ended.exit_code) == ("exited", None)
    assert (bench.directory / "told").read_text() == "told\n"
    assert await stage.launch_until_it_takes(request) == handle
    assert stage.runs() == 1
    assert await stage.engine.cleanup(handle)
    assert (await stage.engine.observe(handle)).state == "absent"
    assert stage.notes() == []


async def test_removing_what_docker_does_not_know_to_run_ends_all_of_it(stage: Stage) -> None:
    bench = stage.bench
    fifo = bench.fifo("held")
    escaped = f"setsid sh -c 'trap \"\" TERM; exec 3<>{fifo}; touch {bench.directory}/ready; while :; do sleep 1; done'"
    request = bench.request(f"trap '' TERM; ({escaped} &); while :; do sleep 1; done")
    await stage.launch_and_die(request, "start")
    await bench.exists("ready")
    assert is_held(fifo)
    assert await stage.engine.cleanup(bench.handle())
    assert not is_held(fifo)
    assert await stage.engine.owned() == []


async def test_a_container_that_was_made_ready_and_never_begun_begins_once(stage: Stage) -> None:
    request = stage.bench.request(f"echo run >>{stage.bench.directory}/runs; exit 8")
    await stage.launch_and_die(request, "create")
    assert (await stage.engine.observe(stage.bench.handle())).state == "created"
    handle = await stage.launch_until_it_takes(request)
    assert (await stage.bench.ended(handle)).exit_code == 8
    assert stage.runs() == 1
    assert stage.notes() == []


async def test_removing_what_was_only_made_ready_leaves_nothing_of_it(stage: Stage) -> None:
    request = stage.bench.request(f"echo run >>{stage.bench.directory}/runs")
    await stage.launch_and_die(request, "create")
    with stage.bench.api() as api:
        container = api.get(f"/containers/{request.name}/json").raise_for_status().json()["Id"]
    assert await stage.engine.cleanup(stage.bench.handle())
    assert stage.runs() == 0

    def left() -> list[int]:
        return [pid for pid, _line in command_lines() if container in _group(pid)]

    await until(left, lambda pids: pids == [])


def _group(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cgroup").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
