"""From `tp submit` to a living trainer, in process mode and in Docker beside a bare `docker run`; what the runner costs meanwhile."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.measure import Result, cpu_seconds, memory_mb, wait_for
from tests.e2e.harness import Client, Console
from tests.services import docker
from tests.services.containers import ContainerImage, Engine, host_python_mounts, import_image
from tests.services.session import ServiceSession

SCRIPT = 'set -eu\ndate +%s.%N > "$TUNEPLANE_OUT_DIR/started"\nwhile :; do sleep 1; done\n'
WATCH_SECONDS = 20.0
RUNS = 3


def run() -> list[Result]:
    session = ServiceSession.create()
    try:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            return _process(root / "process") + _docker(root / "docker", session)
    finally:
        session.close()


def _process(root: Path) -> list[Result]:
    with_runner: list[tuple[float, float, float]] = []
    client = _client(root, {})
    try:
        for _ in range(RUNS):
            run, typed = _submit(client)
            started = _started(client, run)
            with_runner.append((started - typed, *_runner_cost(run)))
            _end(client, run)
    finally:
        client.console.stop()
    seconds = sorted(value[0] for value in with_runner)[RUNS // 2]
    return [
        Result("tp submit → trainer, process", seconds, "s", target="≤ 1.5 s"),
        Result("runner, memory", max(value[1] for value in with_runner), "MB", target="≤ 60 MB"),
        Result("runner, share of a core", max(value[2] for value in with_runner) * 100, "%", target="≤ 1 %"),
    ]


def _docker(root: Path, session: ServiceSession) -> list[Result]:
    engine = Engine("docker", session.get("docker", docker.start)["socket"])
    import_image(engine, "localhost/tuneplane-bench/python:1", {"PATH": "/usr/bin:/bin"})
    image = ContainerImage(
        engine, "localhost/tuneplane-bench/python:1", host_python_mounts(Path("/usr/bin/python3")), "/usr/bin/python3"
    )
    mounts = ",".join(f"{path}:{path}:ro" for path in image.mounts)
    client = _client(
        root,
        {"TUNEPLANE_RUNTIME": "docker", "TUNEPLANE_CONTAINER_SOCKET": engine.url, "TUNEPLANE_CONTAINER_MOUNTS": mounts},
    )
    try:
        bare = sorted(_bare(image, root) for _ in range(RUNS))[RUNS // 2]
        seconds = []
        for _ in range(RUNS):
            run, typed = _submit(client, "--image", image.reference)
            seconds.append(_started(client, run) - typed)
            _end(client, run)
    finally:
        client.console.stop()
    return [
        Result("tp submit → trainer, Docker", sorted(seconds)[RUNS // 2], "s", "docker run", bare, "≤ docker run + 1 s")
    ]


def _bare(image: ContainerImage, root: Path) -> float:
    """Seconds of `docker run` to the first word of the container."""
    volumes = [f"--volume={path}:{path}:ro" for path in image.mounts]
    start = time.time()
    done = subprocess.run(
        ["docker", "run", "--rm", "--network=host", *volumes, image.reference, "date", "+%s"],
        env=os.environ | {"DOCKER_HOST": image.engine.url}, cwd=root, check=True, capture_output=True, timeout=60,
    )  # fmt: skip
    assert done.stdout
    return time.time() - start


def _client(root: Path, settings: dict[str, str]) -> Client:
    console = Console(root / "console", settings).start()
    client = Client(root / "client", console, console.add_user()).prepare()
    experiment = client.new("idle", "custom/custom")
    (experiment / "train.sh").write_text(SCRIPT)
    return client


def _submit(client: Client, *options: str) -> tuple[str, float]:
    typed = time.time()
    answer: dict[str, Any] = client.tp(
        "submit", "idle", "--profile", "cpu", "--observability-url", "https://curves.example.org", *options, "--json"
    ).json
    return str(answer["id"]), typed


def _started(client: Client, run: str) -> float:
    """Unix time at which the trainer's first command ran."""
    pattern = f"projects/*/*/jobs/{run}/attempts/1/out/started"
    wait_for("the trainer", lambda: any(path.read_text().strip() for path in client.console.storage.glob(pattern)), 60)
    return float(next(client.console.storage.glob(pattern)).read_text())


def _runner_cost(run: str) -> tuple[float, float]:
    """(MB, share of one core) of the runner while its trainer idles."""
    pids = [
        int(path.name)
        for path in Path("/proc").iterdir()
        if path.name.isdigit()
        and re.search(rb"runner\.pex", _read(path / "cmdline"))
        and run.encode() in _read(path / "cmdline")
    ]
    pids = [pid for pid in pids if b"python" in _read(Path(f"/proc/{pid}/cmdline")).split(b"\0")[0]]
    before = cpu_seconds(pids)
    time.sleep(WATCH_SECONDS)
    return memory_mb(pids), (cpu_seconds(pids) - before) / WATCH_SECONDS


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _end(client: Client, run: str) -> None:
    client.tp("job", "cancel", run, "--yes")
    client.tp("job", "wait", run, code=None)
    assert json.loads(client.tp("job", "show", run, "--json").out)["phase"] == "cancelled"
