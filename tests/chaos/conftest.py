"""A console under each runtime for the crash test, and everything gone afterwards."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.chaos import bench
from tests.chaos.docker_host import docker_settings
from tests.tuneplane_node.conftest import daemon, daemon_home  # noqa: F401 - fixtures


@pytest.fixture
def start_bench(request: pytest.FixtureRequest) -> Iterator[Callable[[str], bench.Bench]]:
    """`start_bench(runtime)`: a console on state of its own; with `docker`, on a daemon that may be killed."""
    started: list[bench.Bench] = []
    # Short, for the sockets below it; on a local disk, for the database.
    folder = Path(tempfile.mkdtemp(prefix="tp-chaos-"))

    def start(runtime: str) -> bench.Bench:
        made = request.getfixturevalue("daemon") if runtime == "docker" else None
        settings = {"TUNEPLANE_RUNTIME": runtime} if made is None else docker_settings(made)
        started.append(bench.prepare(folder, settings, made))
        return started[-1]

    yield start
    for item in started:
        item.clear()
    shutil.rmtree(folder, ignore_errors=True)
