"""What the tests ask of a container engine beside the product: images from nothing, and a clean leave.

Speaks the Docker Engine API over the daemon's Unix socket; Podman answers the same calls.
`python -m tests.services.containers remove-all SOCKET` and `… unmount FOLDER` are the commands of a stop.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from tests.services.packages import require_packages

BUSYBOX = Path("/bin/busybox")


@dataclass(frozen=True)
class Engine:
    """A running container engine: `kind` is docker or podman, `socket` the path of its API socket."""

    kind: str
    socket: str

    @property
    def url(self) -> str:
        """In the form of DOCKER_HOST."""
        return f"unix://{self.socket}"

    def client(self) -> httpx2.Client:
        transport = httpx2.HTTPTransport(uds=self.socket)
        return httpx2.Client(transport=transport, base_url="http://engine/v1.40", timeout=60)


@dataclass(frozen=True)
class ContainerImage:
    """An image that holds busybox and nothing else, and what to mount so that a host Python runs in it.

    `mounts` are paths bound read-only at the same path inside; `python` is the interpreter they make work.
    """

    engine: Engine
    reference: str
    mounts: tuple[str, ...]
    python: str


def reachable(socket: str) -> bool:
    try:
        with Engine("any", socket).client() as client:
            return client.get("/_ping").is_success
    except httpx2.TransportError:
        return False


def import_image(engine: Engine, reference: str, environment: dict[str, str]) -> None:
    """Make image `reference` (name:tag) from busybox, as a registry-less machine can."""
    require_packages("busybox")
    changes = [f"ENV {key}={value}" for key, value in environment.items()] + ['CMD ["/bin/sh"]']
    with engine.client() as client:
        answer = client.post(
            "/images/create",
            # The tag stays in `repo`: podman 4.3 ignores the parameter of its own.
            params={"fromSrc": "-", "repo": reference, "changes": changes},
            content=_busybox_root(),
            headers={"Content-Type": "application/x-tar"},
        )
        answer.raise_for_status()
        client.get(f"/images/{reference}/json").raise_for_status()


def host_python_mounts(python: Path) -> tuple[str, ...]:
    """The host paths that `python`, the interpreter of a virtual environment, needs to run inside busybox."""
    code = "import os, sys; print(sys.prefix, sys.base_prefix, os.path.realpath(sys.executable), sep='\\n')"
    prefix, base, executable = subprocess.run(
        [str(python), "-I", "-c", code], check=True, capture_output=True, text=True, timeout=60
    ).stdout.split("\n")[:3]
    interpreter = executable if base == "/usr" else base
    libraries = [path for path in ("/usr/lib", "/lib", "/lib64") if Path(path).is_dir()]
    return (prefix, interpreter, *libraries)


def run(image: ContainerImage, *command: str) -> tuple[int, str]:
    """Run a command to its end in a container without network; returns exit code and combined output."""
    body: dict[str, Any] = {
        "Image": image.reference,
        "Cmd": list(command),
        "Tty": True,  # plain bytes in the log instead of the multiplexed frames
        "HostConfig": {"Binds": [f"{path}:{path}:ro" for path in image.mounts], "NetworkMode": "none"},
    }
    with image.engine.client() as client:
        container = client.post("/containers/create", json=body).raise_for_status().json()["Id"]
        try:
            client.post(f"/containers/{container}/start").raise_for_status()
            code = client.post(f"/containers/{container}/wait", timeout=100).raise_for_status().json()["StatusCode"]
            output = client.get(f"/containers/{container}/logs", params={"stdout": 1, "stderr": 1}).text
        finally:
            client.delete(f"/containers/{container}", params={"force": 1})
    return code, output


def remove_all(socket: str) -> None:
    """Remove every container of this engine: each belongs to this run, as the engine does."""
    with Engine("any", socket).client() as client:
        for container in client.get("/containers/json", params={"all": 1}).raise_for_status().json():
            client.delete(f"/containers/{container['Id']}", params={"force": 1, "v": 1})


def unmount(folder: str) -> None:
    """Detach what a killed engine left mounted below `folder`, deepest first."""
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    for point in sorted((p for p in points if p.startswith(folder + "/")), key=len, reverse=True):
        subprocess.run(["umount", "-l", point], check=False, timeout=60)


def _busybox_root() -> bytes:
    applets = subprocess.run([str(BUSYBOX), "--list"], check=True, capture_output=True, text=True, timeout=60).stdout
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for folder in ("bin", "usr", "usr/bin", "usr/lib", "lib", "lib64", "etc", "proc", "sys", "dev", "root"):
            _add_folder(tar, folder, 0o755)
        _add_folder(tar, "tmp", 0o1777)
        tar.add(BUSYBOX.resolve(), "bin/busybox")
        for applet in applets.split():
            if applet != "busybox":
                _add_link(tar, f"bin/{applet}", "busybox")
        _add_link(tar, "usr/bin/env", "/bin/busybox")
        _add_file(tar, "etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/tmp:/bin/sh\n")
        _add_file(tar, "etc/group", b"root:x:0:\nnogroup:x:65534:\n")
    return buffer.getvalue()


def _add_folder(tar: tarfile.TarFile, name: str, mode: int) -> None:
    info = tarfile.TarInfo(name)
    info.type, info.mode = tarfile.DIRTYPE, mode
    tar.addfile(info)


def _add_link(tar: tarfile.TarFile, name: str, target: str) -> None:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = tarfile.SYMTYPE, target
    tar.addfile(info)


def _add_file(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    info = tarfile.TarInfo(name)
    info.size, info.mode = len(content), 0o644
    tar.addfile(info, io.BytesIO(content))


if __name__ == "__main__":
    {"remove-all": remove_all, "unmount": unmount}[sys.argv[1]](sys.argv[2])
