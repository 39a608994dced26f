"""A real Docker daemon that stops or loses a container under a running job, and what the ledger says of it (scenarios 4 to 6)."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.chaos.docker_host import docker_settings
from tests.services.containers import Engine as ContainerEngine
from tests.services.containers import unmount
from tests.tuneplane_node.bench import until
from tests.tuneplane_node.conftest import daemon, daemon_home  # noqa: F401 - fixtures
from tests.tuneplane_node.dockerd import Daemon
from tests.tuneplane_server.harness import Harness, give_up_soon, jobspec, package_of
from tuneplane_server.executors.local import LocalExecutor
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.jobs.tables import JobRow
from tuneplane_server.settings import load_settings

LOOP = "touch $TUNEPLANE_OUT_DIR/up\nwhile :; do sleep 0.1; done\n"
SECONDS = 90


class Machine:
    """A console's roles over one daemon."""

    def __init__(self, harness: Harness, docker: Daemon) -> None:
        self.harness, self.daemon = harness, docker

    async def until(self, job_id: str, is_so: Callable[[JobRow], bool]) -> JobRow:
        """Rounds of the roles until it is so; the time that a handler rests passes at once."""
        async with asyncio.timeout(SECONDS):
            while not is_so(job := await self.harness.job(job_id)):
                await self.harness.round()
                self.harness.time.pass_(30 if job.phase == "finishing" else 0.1)
                await asyncio.sleep(0.05)
            return job

    async def started(self, who: Principal, script: str, **spec: Any) -> str:
        wanted = jobspec(**spec)
        wanted["provenance"]["package_digest"] = await self.harness.bring_package(who, package_of(script))
        job_id = await self.harness.submit(who, wanted)
        up = self.harness.out(await self.harness.job(job_id)) / "up"
        await self.until(job_id, lambda job: job.phase == "running" and up.exists())
        return job_id

    async def while_away(self, job_id: str) -> None:
        """Nobody can be asked: the phase stays, a condition says why."""
        job = await self.until(job_id, lambda job: bool(job.conditions))
        assert (job.phase, [item["type"] for item in job.conditions]) == ("running", ["unreachable"])

    def containers(self) -> list[str]:
        with ContainerEngine("docker", str(self.daemon.socket)).client() as client:
            return [item["Id"] for item in client.get("/containers/json", params={"all": 1}).raise_for_status().json()]


@pytest.fixture
async def machine(
    migrated_sqlite_url: str,
    tmp_path: Path,
    daemon: Daemon,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
) -> AsyncIterator[Machine]:
    give_up_soon(monkeypatch)
    extra = docker_settings(daemon)
    roots = {"TUNEPLANE_STORAGE_ROOT": str(tmp_path / "root"), "TUNEPLANE_DATA_DIR": str(tmp_path / "data")}
    executor = LocalExecutor(load_settings(roots | extra), "real")
    await executor.open()
    harness = Harness(migrated_sqlite_url, tmp_path, executor, extra)
    yield Machine(harness, daemon)
    for handle in await executor.owned():
        await executor.cleanup(handle)
    await executor.close()
    await harness.close()


@pytest.mark.services
async def test_a_daemon_that_is_told_to_stop_and_keeps_its_containers_costs_no_run(machine: Machine) -> None:
    """Scenario 4: the run goes on, and is found again."""
    harness, ada = machine.harness, await machine.harness.user()
    job_id = await machine.started(ada, LOOP)
    await asyncio.to_thread(machine.daemon.stop)
    await machine.while_away(job_id)
    await harness.restart()  # the console as well
    await asyncio.to_thread(machine.daemon.start)
    job = await machine.until(job_id, lambda job: not job.conditions)
    assert (job.phase, job.attempt) == ("running", 1)
    assert (await harness.kinds(job_id)).count("adopted") == 1
    assert len(machine.containers()) == 1
    await harness.services.jobs.cancel(ada, job_id)
    assert (await machine.until(job_id, lambda job: job.finished_at is not None)).phase == "cancelled"


@pytest.mark.services
async def test_a_daemon_that_ends_its_containers_when_it_stops_interrupts_the_run(machine: Machine) -> None:
    """Scenario 4: it ends as interrupted, never as succeeded, though its trainer ends with 0 when it is told."""
    machine.daemon.live_restore = False
    await asyncio.to_thread(machine.daemon.stop)
    await asyncio.to_thread(machine.daemon.start)
    script = "trap 'exit 0' TERM\n" + LOOP
    job_id = await machine.started(await machine.harness.user(), script)
    await asyncio.to_thread(machine.daemon.stop)
    await machine.harness.round()
    assert (await machine.harness.job(job_id)).phase != "succeeded"
    await asyncio.to_thread(machine.daemon.start)
    job = await machine.until(job_id, lambda job: job.finished_at is not None)
    assert (job.phase, job.reason and job.reason["code"]) == ("failed", "interrupted")
    assert machine.containers() == []


@pytest.mark.services
async def test_a_container_that_disappears_while_the_daemon_is_away_is_lost_and_tried_again(machine: Machine) -> None:
    """Scenario 5: lost within one observation of the daemon's return, class infra; another attempt, as the job allows."""
    job_id = await machine.started(await machine.harness.user(), LOOP, limits={"retries": {"infra": 1}})
    (container,) = machine.containers()
    await asyncio.to_thread(machine.daemon.kill)
    await machine.while_away(job_id)
    await asyncio.to_thread(destroy, machine.daemon, container)
    await asyncio.to_thread(machine.daemon.start)
    await machine.harness.round()
    ended = next(event for event in await machine.harness.events(job_id) if event.kind == "ended")
    assert ended.ignored is False
    job = await machine.until(job_id, lambda job: job.attempt == 2 and job.phase == "running")
    attempts = (await machine.harness.services.jobs.attempts([job_id]))[job_id]
    assert [(item.n, item.phase, item.reason and item.reason["code"]) for item in attempts] == [
        (1, "lost", "container-lost"),
        (2, "running", None),
    ]
    assert job.finished_at is None


@pytest.mark.services
async def test_a_run_that_the_daemon_forgot_to_have_started_trains_once(machine: Machine) -> None:
    """The daemon dies in the start, the run comes to its end, and nobody knows that it ever began: it is started again."""
    harness = machine.harness
    machine.daemon.make_mortal()
    script = 'echo started >> "$TUNEPLANE_OUT_DIR/starts"\n'
    wanted = jobspec()
    ada = await harness.user()
    wanted["provenance"]["package_digest"] = await harness.bring_package(ada, package_of(script))
    machine.daemon.die_after("start")
    job_id = await harness.submit(ada, wanted)
    await harness.round()
    out = harness.out(await harness.job(job_id))
    await until(lambda: (out / "outcome.json").exists() and not runners(out.parent), bool)
    await asyncio.to_thread(machine.daemon.kill)  # collects it
    await asyncio.to_thread(machine.daemon.start)
    job = await machine.until(job_id, lambda job: job.finished_at is not None)
    assert (job.phase, job.attempt, job.cleanup) == ("succeeded", 1, "confirmed")
    assert (out / "starts").read_text() == "started\n"
    assert machine.containers() == []


def runners(attempt: Path) -> list[bytes]:
    """The command lines of the runners of an attempt that are alive."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and str(attempt) in (line := (entry / "cmdline").read_bytes()).decode():
                found.append(line)
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


def destroy(docker: Daemon, container: str) -> None:
    """A container goes with all the daemon knew of it, as when somebody cleans up its disk."""
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and container in (entry / "cgroup").read_text():
                os.kill(int(entry.name), signal.SIGKILL)
        except (FileNotFoundError, ProcessLookupError):
            continue
    folder = docker.home / "data" / "containers" / container
    unmount(str(folder))
    shutil.rmtree(folder)


async def test_a_wrapper_that_ends_with_0_and_leaves_no_outcome_is_no_success(
    migrated_sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scenario 6, with real processes: the Python that the job finds ends at once, and says that all is well."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").write_text("#!/bin/sh\nexit 0\n")
    (tmp_path / "bin/python3").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin{os.pathsep}{os.environ['PATH']}")
    roots = {"TUNEPLANE_STORAGE_ROOT": str(tmp_path / "root"), "TUNEPLANE_DATA_DIR": str(tmp_path / "data")}
    executor = LocalExecutor(load_settings(roots | {"TUNEPLANE_RUNTIME": "process"}), "real")
    harness = Harness(migrated_sqlite_url, tmp_path, executor)
    who = await harness.user()
    await harness.bring_package(who)
    job_id = await harness.submit(who)
    async with asyncio.timeout(SECONDS):
        while (job := await harness.job(job_id)).finished_at is None:
            await harness.round()
            harness.time.pass_(1)
            await asyncio.sleep(0.05)
    assert (job.phase, job.reason and job.reason["code"]) == ("failed", "no-outcome")
    assert await executor.owned() == []
    await executor.close()
    await harness.close()
