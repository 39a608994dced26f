"""Scenario 34: after many short jobs through one engine everything is as it was after the first few.

TUNEPLANE_CHAOS_JOBS=1000 runs so many; through a daemon `make chaos` does (tests/chaos/test_many_jobs_of_a_node.py).
"""

from __future__ import annotations

import asyncio
import gc
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tuneplane_node.bench import Bench, command_lines, until
from tuneplane_node.engine import Engine
from tuneplane_node.engine.supervisor import procfs

pytestmark = pytest.mark.services  # by their length

AT_ONCE = 5
JOBS = int(os.environ.get("TUNEPLANE_CHAOS_JOBS") or 250)
GROWTH_BYTES = 4 * 1024 * 1024 + JOBS * 16 * 1024  # a leak of 32 kB a job would be more


class Household:
    """What this process and machine hold, counted from the moment it is made."""

    def __init__(self) -> None:
        gc.collect()
        self.files, self.children, self.memory = open_files(), children(), resident_bytes()

    async def is_as_it_was(self) -> None:
        gc.collect()
        await until(
            open_files, lambda count: count <= self.files
        )  # pipes are closed a moment after a process has ended
        await until(lambda: children() - self.children, lambda left: left == set())
        assert resident_bytes() - self.memory < GROWTH_BYTES


async def run_many(bench: Bench, engine: Engine, count: int, name: str) -> None:
    async def run_one(number: int) -> None:
        request = bench.request("echo x >$TMPDIR/left 2>/dev/null; (sleep 0.01 &); exit 0", f"{name}-{number}")
        handle = await engine.launch(request)
        assert (await bench.ended(handle, engine)).exit_code == 0
        assert await engine.cleanup(handle)

    for first in range(0, count, AT_ONCE):
        await asyncio.gather(*(run_one(number) for number in range(first, min(first + AT_ONCE, count))))


@pytest.mark.timeout(900)
async def test_many_short_processes_leave_nothing_behind(
    process_bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scenario 34: open files, temporary files, zombies, records, processes and memory stay flat."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    engine = process_bench.new_engine(host_env={**os.environ, "TMPDIR": str(temporary)})
    await run_many(process_bench, engine, 50, "warm")
    before = Household()
    await run_many(process_bench, engine, JOBS, "job")
    await before.is_as_it_was()
    assert names_in(temporary) == []
    assert names_in(process_bench.state_root / "processes") == []
    mine = str(process_bench.state_root)
    await until(lambda: [line for _pid, line in command_lines() if mine in line], lambda lines: lines == [])


@pytest.mark.timeout(600)
async def test_short_containers_leave_nothing_behind(docker_bench: Bench, docker_processes: Callable[[], int]) -> None:
    """Scenario 34: open files, containers, processes of the daemon and memory stay flat."""
    await run_many(docker_bench, docker_bench.engine, 5, "warm")
    before, shims = Household(), docker_processes()
    await run_many(docker_bench, docker_bench.engine, 30, "job")
    await before.is_as_it_was()
    await until(docker_processes, lambda count: count <= shims)
    assert await docker_bench.engine.owned() == []
    assert names_in(docker_bench.state_root / "unseen") == []
    with docker_bench.api() as api:
        names = [name for entry in api.get("/containers/json?all=1").json() for name in entry["Names"]]
    assert [name for name in names if docker_bench.name("") in name] == []


@pytest.fixture
def docker_processes(docker_bench: Bench) -> Callable[[], int]:
    """How many shims and containers of this test's daemon are alive."""
    home = str(Path(docker_bench.address.removeprefix("unix://")).parent)
    return lambda: sum(1 for _pid, line in command_lines() if "containerd-shim" in line and home in line)


def open_files() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def children() -> set[int]:
    """Living children and zombies alike."""
    return {stat.pid for stat in procfs.every_process() if stat.parent == os.getpid()}


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()] if folder.exists() else []
