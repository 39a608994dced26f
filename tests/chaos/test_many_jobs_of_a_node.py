"""Scenario 34: after many short jobs through one real daemon everything is as it was after the first few.

A hundred in the usual run, a thousand in `make chaos` or with TUNEPLANE_CHAOS_JOBS.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.tuneplane_node.bench import command_lines, until, until_told
from tests.tuneplane_node.daemon.served import Daemon
from tuneplane_node.client import NodeClient
from tuneplane_node.engine import LABEL_ATTEMPT, LABEL_JOB, LaunchRequest
from tuneplane_node.engine.supervisor import procfs

pytestmark = pytest.mark.services

ROUNDS = int(os.environ.get("TUNEPLANE_CHAOS_ROUNDS") or 20)
JOBS = int(os.environ.get("TUNEPLANE_CHAOS_JOBS") or (1000 if ROUNDS >= 200 else 100))
AT_ONCE = 5
GROWTH_BYTES = 16 * 1024 * 1024  # a leak of 20 kB a job would be more


class Household:
    """What a daemon holds: open files, children and zombies, resident memory."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.files, self.children, self.memory = self.open_files(), self.children_now(), self.resident_bytes()

    def open_files(self) -> int:
        return sum(1 for _ in Path(f"/proc/{self.pid}/fd").iterdir())

    def children_now(self) -> set[int]:
        return {stat.pid for stat in procfs.every_process() if stat.parent == self.pid}

    def resident_bytes(self) -> int:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    async def is_as_it_was(self) -> None:
        await until(self.open_files, lambda count: count <= self.files)
        await until(self.children_now, lambda children: children <= self.children)
        assert self.resident_bytes() - self.memory < GROWTH_BYTES


@pytest.fixture
async def daemon(tmp_path: Path) -> AsyncIterator[Daemon]:
    (tmp_path / "tmp").mkdir()
    made = Daemon(tmp_path / "daemon", {"TMPDIR": str(tmp_path / "tmp"), "TUNEPLANE_SIMULATED_GPUS": "h200:8"})
    await made.start()
    yield made
    await made.kill()


@pytest.mark.timeout(1800)
async def test_many_short_jobs_leave_a_daemon_as_it_was(daemon: Daemon, tmp_path: Path) -> None:
    """Files, descriptors, zombies, ports and memory stay flat."""
    assert daemon.process is not None
    client = daemon.client()
    await run_many(client, 25, "warm")
    await daemon.says("Containers taken over")
    before = Household(daemon.process.pid)
    await run_many(client, JOBS, "job")
    await before.is_as_it_was()
    print(
        f"{JOBS} jobs: {before.memory >> 20} MB before, {before.resident_bytes() >> 20} MB after, {before.files} files"
    )
    assert await client.containers() == []
    assert names_in(tmp_path / "tmp") == []
    assert names_in(daemon.folder / "state/processes") == []
    assert '"ports": {}' in (daemon.folder / "state/ports.json").read_text()
    mine = str(daemon.folder / "state/processes")
    await until(lambda: [line for _pid, line in command_lines() if mine in line], lambda lines: lines == [])
    await client.close()


async def run_many(client: NodeClient, count: int, name: str) -> None:
    async def run_one(number: int) -> None:
        job = f"{name}-{number}"
        assert await client.reserve_port(job, 1) > 0
        request = LaunchRequest(
            name=f"tp-{job}",
            labels={LABEL_JOB: job, LABEL_ATTEMPT: "1"},
            command=["sh", "-c", "echo x >$TMPDIR/left; (sleep 0.01 &); exit 0"],
            gpus=(number % 8,),
        )
        handle = await client.launch(request)
        ended = await until_told(lambda: client.observe(handle), lambda seen: seen.state == "exited")
        assert ended.exit_code == 0
        assert await until_told(lambda: client.cleanup_attempt(job, 1), bool)

    for first in range(0, count, AT_ONCE):
        await asyncio.gather(*(run_one(number) for number in range(first, min(first + AT_ONCE, count))))


def names_in(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()] if folder.exists() else []
