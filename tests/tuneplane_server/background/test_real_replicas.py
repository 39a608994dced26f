"""Real console processes on one database: replicas without Redis, one that is killed, one that is paused past its lease."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.services.ports import free_port
from tests.services.process import ProcessId, spawn, stop, wait_ready
from tests.services.session import ROOT
from tests.tuneplane_server.executors.scripted import ScriptedExecutor
from tests.tuneplane_server.harness import Harness, gpu_pool, jobspec, package_of
from tuneplane_server.executors.local import LocalExecutor
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.settings import load_settings

SECONDS = 120
WAITS = "echo x >> $TUNEPLANE_OUT_DIR/started\nwhile [ ! -e $TUNEPLANE_OUT_DIR/end ]; do sleep 0.2; done\n"


@dataclass
class Console:
    """A real console process with a data directory of its own."""

    name: str
    folder: Path
    env: dict[str, str]
    argv: list[str]
    port: int = field(default_factory=free_port)
    process: ProcessId | None = None

    def start(self) -> None:
        log = self.folder / f"{self.name}.log"
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TUNEPLANE_")}
        mine = {"TUNEPLANE_DATA_DIR": str(self.folder / self.name), "TUNEPLANE_PORT": str(self.port)}
        argv = [word.format(port=self.port) for word in self.argv]
        self.process = spawn(argv, log, kept | self.env | mine)
        wait_ready(self._answers, self.process, log, seconds=90)

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        os.kill(self.process.pid, number)

    def kill(self) -> None:
        assert self.process is not None
        self.send(signal.SIGKILL)
        os.waitpid(self.process.pid, 0)
        self.process = None

    async def health(self) -> dict[str, Any]:
        async with httpx2.AsyncClient() as client:
            answer = await client.get(f"http://127.0.0.1:{self.port}/healthz", timeout=60)
        assert answer.status_code == 200, answer.text
        body: dict[str, Any] = answer.json()
        return body

    async def get(self, path: str) -> httpx2.Response:
        async with httpx2.AsyncClient() as client:
            return await client.get(f"http://127.0.0.1:{self.port}{path}", timeout=60)

    def _answers(self) -> bool:
        with suppress(httpx2.TransportError):
            return httpx2.get(f"http://127.0.0.1:{self.port}/readyz", timeout=5).status_code == 200
        return False


@dataclass
class House:
    """Consoles on one database and storage root, and a harness that submits to it and reads it."""

    harness: Harness
    folder: Path
    env: dict[str, str]
    consoles: list[Console] = field(default_factory=list)

    def console(self, name: str, *argv: str, **env: str) -> Console:
        command = list(argv) or [str(Path(sys.executable).parent / "tuneplane-server"), "serve"]
        console = Console(name, self.folder, self.env | env, command)
        self.consoles.append(console)
        return console

    async def submit(self, who: Principal, count: int = 1) -> list[str]:
        """Jobs that run until their file `end` is there."""
        digest = await self.harness.bring_package(who, package_of(WAITS))
        spec = jobspec(resources=gpu_pool(1))
        spec["provenance"]["package_digest"] = digest
        return [await self.harness.submit(who, spec) for _number in range(count)]

    async def until(self, is_so: Callable[[], Awaitable[bool]]) -> None:
        """Look again and again: the processes out there have no other way to tell us."""
        async with asyncio.timeout(SECONDS):
            while not await is_so():  # noqa: ASYNC110 - it happens in other processes
                await asyncio.sleep(0.2)

    async def phases(self, jobs: list[str]) -> list[str]:
        return [(await self.harness.job(job_id)).phase for job_id in jobs]

    async def all_in(self, jobs: list[str], phase: str) -> None:
        async def are() -> bool:
            return set(await self.phases(jobs)) == {phase}

        await self.until(are)

    async def started(self, job_id: str) -> list[str]:
        """One line for each time that the script of the job began."""
        note = self.harness.out(await self.harness.job(job_id)) / "started"
        return note.read_text().splitlines() if note.exists() else []

    async def end(self, jobs: list[str]) -> None:
        for job_id in jobs:
            (self.harness.out(await self.harness.job(job_id)) / "end").touch()
        await self.all_in(jobs, "succeeded")


def house_of(url: str, folder: Path, **env: str) -> House:
    harness = Harness(url, folder, ScriptedExecutor(gpus=16), {"TUNEPLANE_SIMULATED_GPUS": "h200:16"})
    given = {
        "TUNEPLANE_DATABASE_URL": url,
        "TUNEPLANE_STORAGE_ROOT": str(folder / "root"),
        "TUNEPLANE_RUNTIME": "process",
        "TUNEPLANE_SIMULATED_GPUS": "h200:16",
        "TUNEPLANE_OBSERVE_SECONDS": "0.5",
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep),
        **env,
    }
    return House(harness, folder, given)


async def tear_down(house: House, engines: list[tuple[Path, str]]) -> None:
    """End the consoles, then whatever their engines still run."""
    for console in house.consoles:
        if console.process is not None:
            console.send(signal.SIGCONT)
            stop(console.process)
    for data_dir, instance in engines:
        settings = load_settings({"TUNEPLANE_RUNTIME": "process", "TUNEPLANE_DATA_DIR": str(data_dir)})
        executor = LocalExecutor(settings, instance)
        for handle in await executor.owned():
            await executor.cleanup(handle)
        await executor.close()
    await house.harness.close()


@pytest.fixture
async def house(migrated_url: str, tmp_path: Path) -> AsyncIterator[House]:
    """Runs the test twice: consoles on SQLite and on Postgres."""
    house = house_of(migrated_url, tmp_path)
    yield house
    instances = ((console.folder / console.name, "instance-id") for console in house.consoles)
    engines = [(data, (data / name).read_text().strip()) for data, name in instances if (data / name).exists()]
    await tear_down(house, engines)


# --- scenario 9 -------------------------------------------------------------------------------------------------------


@pytest.mark.timeout(300)
async def test_two_real_consoles_without_redis_rest_until_one_is_killed(house: House) -> None:
    """Scenario 9: roles off on both, `/healthz` and `/readyz` say so, reading works; one is killed → the other works again."""
    first, second = house.console("first"), house.console("second")
    first.start()

    async def works() -> bool:
        health = await first.health()
        return health["consoles"] == 1 and all(role["status"] == "ok" for role in health["roles"].values())

    async def rests(console: Console) -> bool:
        health = await console.health()
        codes = [finding["code"] for finding in health["findings"]]
        off = all(role["status"] == "off" for role in health["roles"].values())
        return health["status"] == "degraded" and off and "replicas-without-redis" in codes

    await house.until(works)
    second.start()
    for console in (first, second):
        await house.until(lambda console=console: rests(console))
        ready = await console.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (200, "degraded")
        assert (await console.get("/api/v1/server")).status_code == 200
        metrics = (await console.get("/metrics")).text
        assert 'tuneplane_role_on{role="watchdog"} 0.0' in metrics
        assert "tuneplane_consoles 2.0" in metrics
    second.kill()
    await house.until(works)
    jobs = await house.submit(await house.harness.user())
    await house.all_in(jobs, "running")
    await house.end(jobs)


# --- scenario 2 -------------------------------------------------------------------------------------------------------


@pytest.mark.timeout(300)
async def test_a_console_that_is_killed_finds_its_running_processes_again(house: House) -> None:
    """Scenario 2: SIGKILL of the real console with live jobs; no phase changes, one `adopted` event each, no second start."""
    console = house.console("first")
    console.start()
    jobs = await house.submit(await house.harness.user(), 6)
    await house.all_in(jobs, "running")

    async def began() -> bool:
        return all([await house.started(job_id) for job_id in jobs])

    await house.until(began)
    handles = [(await house.harness.job(job_id)).handle for job_id in jobs]
    console.kill()
    console.start()
    for job_id, handle in zip(jobs, handles, strict=True):
        job = await house.harness.job(job_id)
        assert (job.phase, job.attempt, job.handle) == ("running", 1, handle)
        kinds = await house.harness.kinds(job_id)
        assert (kinds.count("adopted"), kinds.count("launched")) == (1, 1)
    await house.end(jobs)
    for job_id in jobs:
        assert await house.started(job_id) == ["x"]


# --- scenario 7 -------------------------------------------------------------------------------------------------------


@pytest.fixture
async def shared(migrated_postgres_url: str, redis_url: str, tmp_path: Path) -> AsyncIterator[House]:
    """Replicas on Postgres and Redis whose machine is the same."""
    house = house_of(migrated_postgres_url, tmp_path, TUNEPLANE_REDIS_URL=redis_url, TUNEPLANE_LEASE_SECONDS="5")
    yield house
    await tear_down(house, [(tmp_path / "shared", "shared")])


@pytest.fixture
def hold(tmp_path: Path) -> Iterator[Path]:
    """See `replica`."""
    folder = tmp_path / "hold"
    folder.mkdir()
    yield folder
    (folder / "go").touch()


@pytest.mark.timeout(300)
async def test_a_real_console_paused_past_its_lease_touches_no_row_and_one_process_exists(
    shared: House, hold: Path
) -> None:
    """Scenario 7: the first is paused (SIGSTOP) in the middle of a launch, the second takes over, the first wakes."""
    module = [
        sys.executable,
        "-m",
        "tests.tuneplane_server.background.replica",
        "{port}",
        str(shared.folder / "shared"),
    ]
    first, second = shared.console("first", *module, str(hold)), shared.console("second", *module)
    first.start()
    (job_id,) = await shared.submit(await shared.harness.user())
    await shared.until(_there(hold / "entered"))
    first.send(signal.SIGSTOP)
    second.start()
    await shared.all_in([job_id], "running")
    before = [(event.seq, event.kind) for event in await shared.harness.events(job_id)]
    row = await shared.harness.job(job_id)
    (hold / "go").touch()
    first.send(signal.SIGCONT)
    await shared.until(_there(hold / "returned"))

    async def looked_again() -> bool:
        health = await first.health()
        return health["redis"] == "ok" and health["roles"]["launcher"]["last_tick"] is not None

    await shared.until(looked_again)
    await shared.end([job_id])
    after = await shared.harness.events(job_id)
    assert [(event.seq, event.kind) for event in after[: len(before)]] == before
    kinds = [event.kind for event in after]
    assert (kinds.count("placed"), kinds.count("launched"), kinds.count("running")) == (1, 1, 1)
    assert (await shared.harness.job(job_id)).handle == row.handle
    assert await shared.started(job_id) == ["x"]


def _there(path: Path) -> Callable[[], Awaitable[bool]]:
    async def is_there() -> bool:
        return await asyncio.to_thread(path.exists)

    return is_there
