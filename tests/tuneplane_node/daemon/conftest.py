"""A node on process mode behind its real HTTP server, and daemons as processes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tuneplane_node.bench import Bench
from tests.tuneplane_node.daemon.served import Daemon, ServedNode
from tuneplane_node.engine import Engine


@pytest.fixture
async def served(process_bench: Bench, tmp_path: Path) -> AsyncIterator[ServedNode]:
    """The bench's own engine behind HTTP."""
    made = await ServedNode(process_bench.new_engine(), tmp_path / "node").start()
    yield made
    await made.stop()


@pytest.fixture
async def make_served(process_bench: Bench, tmp_path: Path) -> AsyncIterator[Callable[..., Any]]:
    """As `served`, as often as wanted and with options."""
    made: list[ServedNode] = []

    async def make(**options: Any) -> ServedNode:
        node = ServedNode(process_bench.new_engine(), tmp_path / f"node-{len(made)}", **options)
        made.append(node)
        return await node.start()

    yield make
    for node in made:
        await node.stop()


@pytest.fixture
async def daemon_process(tmp_path: Path) -> AsyncIterator[Callable[..., Daemon]]:
    """Makes daemons that nobody has started; their jobs end with the test."""
    made: list[Daemon] = []

    def make(name: str = "daemon", version: str = "", **settings: str) -> Daemon:
        daemon = Daemon(tmp_path / name, settings, version)
        made.append(daemon)
        return daemon

    yield make
    for daemon in made:
        if daemon.process is not None:
            await daemon.kill()
        await _end_jobs(daemon)


async def _end_jobs(daemon: Daemon) -> None:
    file = daemon.folder / "state/node-id"
    if not file.exists():
        return
    engine = Engine(file.read_text().strip(), daemon.folder / "state", runtime="process")
    for container in await engine.owned():
        await engine.cleanup(container.handle)
    await engine.close()
