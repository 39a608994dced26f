"""A console under each runtime for the crash test, and everything gone afterwards."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.chaos import bench
from tests.services.containers import Engine, import_image
from tests.services.plugin import unavailable
from tests.services.process import ServiceMissingError
from tests.tuneplane_node.conftest import daemon, daemon_home  # noqa: F401 - fixtures
from tests.tuneplane_node.dockerd import Daemon

IMAGE = "localhost/tuneplane-test/chaos:1"
HOST_PYTHON = Path("/usr/bin/python3")
# The image is busybox; with these the machine's own Python runs in it.
MOUNTS = ("/usr", "/lib", "/lib64")


@pytest.fixture
def start_bench(request: pytest.FixtureRequest) -> Iterator[Callable[[str], bench.Bench]]:
    """`start_bench(runtime)`: a console on state of its own; with `docker`, on a daemon that may be killed."""
    started: list[bench.Bench] = []
    # Short, for the sockets below it; on a local disk, for the database.
    folder = Path(tempfile.mkdtemp(prefix="tp-chaos-"))

    def start(runtime: str) -> bench.Bench:
        made = request.getfixturevalue("daemon") if runtime == "docker" else None
        settings = {"TUNEPLANE_RUNTIME": runtime} if made is None else _docker_settings(made)
        started.append(bench.prepare(folder, settings, made))
        return started[-1]

    yield start
    for item in started:
        item.clear()
    shutil.rmtree(folder, ignore_errors=True)


def _docker_settings(made: Daemon) -> dict[str, str]:
    if not HOST_PYTHON.exists():
        unavailable(ServiceMissingError(f"there is no {HOST_PYTHON} to mount into the containers"))
    import_image(Engine("docker", str(made.socket)), IMAGE, {"PATH": "/usr/bin:/bin"})
    return {
        "TUNEPLANE_RUNTIME": "docker",
        "TUNEPLANE_CONTAINER_SOCKET": str(made.socket),
        "TUNEPLANE_IMAGE_CUSTOM": IMAGE,
        "TUNEPLANE_CONTAINER_MOUNTS": ",".join(f"{path}:{path}:ro" for path in MOUNTS if Path(path).is_dir()),
    }
