"""A cancelled run whose processes ignore it, with real processes: what its GPUs wait for."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.tuneplane_node.bench import is_held
from tests.tuneplane_server.harness import Harness, give_up_soon, gpu_pool, jobspec, package_of
from tuneplane_server.executors.local import LocalExecutor
from tuneplane_server.settings import load_settings

DEAF = """trap '' TERM
setsid sh -c 'trap "" TERM HUP; exec 3<>$TUNEPLANE_OUT_DIR/held; touch $TUNEPLANE_OUT_DIR/up; while :; do sleep 1; done' &
while :; do sleep 1; done
"""


@pytest.fixture
async def real(migrated_sqlite_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Harness]:
    give_up_soon(monkeypatch)
    extra = {"TUNEPLANE_RUNTIME": "process", "TUNEPLANE_SIMULATED_GPUS": "h200:4"}
    roots = {"TUNEPLANE_STORAGE_ROOT": str(tmp_path / "root"), "TUNEPLANE_DATA_DIR": str(tmp_path / "data")}
    executor = LocalExecutor(load_settings(roots | extra), "real")
    harness = Harness(migrated_sqlite_url, tmp_path, executor, extra)
    yield harness
    for handle in await executor.owned():
        await executor.cleanup(handle)
    await executor.close()
    await harness.close()


async def test_gpus_are_free_only_when_nothing_holds_them(real: Harness) -> None:
    """Scenario 23: whoever looks during an abort, at whatever moment, finds the cards held as long as a process lives."""
    ada = await real.user()
    wanted = jobspec(resources=gpu_pool(2), limits={"grace": 1})
    wanted["provenance"]["package_digest"] = await real.bring_package(ada, package_of(DEAF))
    job_id = await real.submit(ada, wanted)
    out = real.out(await real.job(job_id))
    out.mkdir(parents=True)
    os.mkfifo(out / "held")
    async with asyncio.timeout(60):
        while (await real.job(job_id)).phase != "running" or not (out / "up").exists():
            await real.round()
            await asyncio.sleep(0.05)
    assert await real.held_gpus() == [0, 1]
    await real.services.jobs.cancel(ada, job_id)

    async def end() -> None:
        while (await real.job(job_id)).finished_at is None:
            await real.round()
            real.time.pass_(30)
            await asyncio.sleep(0.05)

    async with asyncio.timeout(90):
        ending = asyncio.create_task(end())
        looks = 0
        while not ending.done():
            held = await real.held_gpus()
            assert held == [0, 1] or not is_held(out / "held")
            looks += 1
            await asyncio.sleep(0.02)
        await ending
    assert looks > 1
    assert await real.held_gpus() == []
    job = await real.job(job_id)
    assert (job.phase, job.cleanup) == ("cancelled", "confirmed")
