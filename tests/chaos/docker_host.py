"""What a console has to be told to run jobs on a Docker daemon of a test."""

from __future__ import annotations

from pathlib import Path

from tests.services.containers import Engine, import_image
from tests.services.plugin import unavailable
from tests.services.process import ServiceMissingError
from tests.tuneplane_node.dockerd import Daemon

IMAGE = "localhost/tuneplane-test/chaos:1"
HOST_PYTHON = Path("/usr/bin/python3")
# The image is busybox; with these the machine's own Python runs in it.
MOUNTS = ("/usr", "/lib", "/lib64")


def docker_settings(daemon: Daemon) -> dict[str, str]:
    return image_settings(Engine("docker", str(daemon.socket)))


def image_settings(engine: Engine) -> dict[str, str]:
    """Makes the image; skips where there is no Python to mount into it."""
    if not HOST_PYTHON.exists():
        unavailable(ServiceMissingError(f"there is no {HOST_PYTHON} to mount into the containers"))
    import_image(engine, IMAGE, {"PATH": "/usr/bin:/bin"})
    return {
        "TUNEPLANE_RUNTIME": "docker",
        "TUNEPLANE_CONTAINER_SOCKET": engine.socket,
        "TUNEPLANE_IMAGE_CUSTOM": IMAGE,
        "TUNEPLANE_CONTAINER_MOUNTS": ",".join(f"{path}:{path}:ro" for path in MOUNTS if Path(path).is_dir()),
    }
