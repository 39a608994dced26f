"""A Docker daemon that is killed in the middle of a job: nobody can be asked, the job lives, then it is seen again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.services.containers import Engine as ContainerEngine
from tests.services.containers import import_image
from tests.tuneplane_node.bench import IMAGE, Bench, is_held, until
from tests.tuneplane_node.dockerd import Daemon


@pytest.mark.services
async def test_a_killed_daemon_costs_no_job_and_invents_no_end(daemon: Daemon, tmp_path: Path) -> None:
    address = f"unix://{daemon.socket}"
    import_image(ContainerEngine("docker", str(daemon.socket)), IMAGE, {"PATH": "/usr/bin:/bin"})
    bench = Bench("docker", address, IMAGE, tmp_path)
    assert "engine-jobs-end-with-daemon" not in {finding.code for finding in await bench.engine.check()}
    fifo = bench.fifo("held")
    handle = await bench.launch(f"exec 3<>{fifo}; {bench.waiting_job(4)}")
    await bench.exists("ready")
    assert (await bench.engine.observe(handle)).state == "running"

    await asyncio.to_thread(daemon.kill)
    unknown = await bench.engine.observe(handle)
    assert unknown.state == "unknown"
    assert unknown.detail.startswith("engine-unreachable")
    assert not await bench.engine.cleanup(handle)
    assert is_held(fifo)

    await asyncio.to_thread(daemon.start)
    assert (await bench.engine.observe(handle)).state == "running"
    assert is_held(fifo)

    await asyncio.to_thread(daemon.kill)
    bench.let_go()
    await until(lambda: is_held(fifo), lambda held: not held)  # it ends while nobody watches
    assert (await bench.engine.observe(handle)).state == "unknown"
    await asyncio.to_thread(daemon.start)
    assert (await bench.ended(handle)).exit_code == 4
    assert await bench.engine.cleanup(handle)
    await bench.clean()
