"""A bench for each runtime: real Docker, real Podman, real processes, and engines that speak to them."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.services.containers import Engine as ContainerEngine
from tests.services.containers import import_image
from tests.services.packages import require_packages
from tests.services.plugin import unavailable
from tests.services.process import ServiceMissingError
from tests.tuneplane_node.bench import IMAGE, Bench
from tests.tuneplane_node.daemon.served import RemoteBench
from tests.tuneplane_node.dockerd import Daemon


def make_bench(request: pytest.FixtureRequest, runtime: str, tmp_path: Path) -> Bench:
    if runtime == "process":
        return Bench(runtime, "", None, tmp_path)
    if runtime == "node":
        return RemoteBench("process", "", None, tmp_path)
    container_engine: ContainerEngine = request.getfixturevalue(f"{runtime}_engine")
    import_image(container_engine, IMAGE, {"PATH": "/usr/bin:/bin"})
    return Bench(runtime, container_engine.url, IMAGE, tmp_path)


@pytest.fixture(
    params=[
        "process",
        pytest.param("node", marks=pytest.mark.services),
        pytest.param("docker", marks=pytest.mark.services),
        pytest.param("podman", marks=pytest.mark.services),
    ]
)
async def bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    """Runs the test on each runtime, and on processes of a node that is asked over HTTP."""
    made = make_bench(request, request.param, tmp_path)
    yield made
    await made.clean()


@pytest.fixture(
    params=[pytest.param("docker", marks=pytest.mark.services), pytest.param("podman", marks=pytest.mark.services)]
)
async def container_bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    """Runs the test on Docker and on Podman."""
    made = make_bench(request, request.param, tmp_path)
    yield made
    await made.clean()


@pytest.fixture
async def docker_bench(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Bench]:
    made = make_bench(request, "docker", tmp_path)
    yield made
    await made.clean()


@pytest.fixture
async def process_bench(tmp_path: Path) -> AsyncIterator[Bench]:
    made = Bench("process", "", None, tmp_path)
    yield made
    await made.clean()


@pytest.fixture
def daemon_home() -> Iterator[Path]:
    """A directory for a Docker daemon of one test; skips where there can be none."""
    if os.geteuid() != 0:
        unavailable(ServiceMissingError("a Docker daemon of our own needs root"))
    try:
        require_packages("docker")
    except ServiceMissingError as problem:
        unavailable(problem)
    home = Path(tempfile.mkdtemp(prefix="tp-dockerd-"))  # short: it holds a Unix socket
    yield home
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def daemon(daemon_home: Path) -> Iterator[Daemon]:
    made = Daemon(daemon_home)
    yield made
    made.end()
