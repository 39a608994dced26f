"""`ray.sh` on two machines of one job with a real Ray: the driver sees both, keeps its cluster while it stops, and nothing is left."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.services.ports import free_port
from tuneplane.adapters import Command, Machine
from tuneplane.adapters.ray import ray_command

pytestmark = [pytest.mark.catalog, pytest.mark.timeout(400)]
CAPSULE = {"jobspec": {"metadata": {"name": "first"}}}
# Told to stop, it still uses a card of the other machine, as a trainer does that saves a checkpoint.
DRIVER = """
import os, signal, sys, threading
import ray
told = threading.Event()
ray.init(log_to_driver=False)
signal.signal(signal.SIGTERM, lambda number, frame: told.set())  # over the one of Ray's
@ray.remote(num_gpus=1)
def where():
    return os.getcwd()
print("cards", int(ray.cluster_resources()["GPU"]), "arguments", sys.argv[1:], flush=True)
open("ready", "w").close()
assert told.wait(120)
print("directories", sorted(set(ray.get([where.remote() for _ in range(2)]))), flush=True)
sys.exit(7)
"""


@contextmanager
def running(command: Command, work: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Started as the runner does: a process group of its own."""
    for name, text in command.files.items():
        (work / name).write_text(text, encoding="utf-8")
    cwd = work / command.cwd_relative
    cwd.mkdir(parents=True)
    environment = {**os.environ, **command.env}
    with log.open("wb") as output:
        process = subprocess.Popen(
            command.argv, cwd=cwd, env=environment, stdout=output, stderr=output, process_group=0
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(30)
        for pid in started_in(work):  # Ray's sessions are their own; a test that failed left them
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def started_in(work: Path) -> list[int]:
    """Living processes whose directory is below `work`."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            if path.readlink().is_relative_to(work):
                found.append(int(path.parent.name))
    return found


def wait_for(what: Callable[[], bool], process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + 240
    while not what():
        assert process.poll() is None, log.read_text(errors="replace")[-3000:]
        assert time.monotonic() < end, log.read_text(errors="replace")[-3000:]
        time.sleep(0.2)


def of_this_cluster(address: str) -> list[str]:
    """Command lines of living processes that name the cluster's address."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if address in line:
                found.append(line[:200])
    return found


def own_address() -> str:
    """Ray registers machines by the address that others reach them at, never by the loopback one."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # nothing is sent
        return str(probe.getsockname()[0])


def head_port() -> int:
    """Ray gives its workers the ports from 10002 to 19999, and refuses a head in between."""
    return next(port for port in iter(free_port, 0) if port > 19_999)


def test_two_machines_are_one_cluster_until_the_driver_has_ended(
    framework_env: Callable[[str], Path], tmp_path: Path
) -> None:
    python, address = str(framework_env("verl") / "bin/python"), own_address()
    port = head_port()
    works = [tmp_path / "machine-0", tmp_path / "machine-1"]
    logs = [tmp_path / "0.log", tmp_path / "1.log"]
    driver = [python, "-c", DRIVER, "a 'b' $c\n"]
    commands = []
    for rank, work in enumerate(works):
        work.mkdir()
        machine = Machine(
            rank=rank, count=2, gpus_per_node=1, main_ip=address, main_port=port, python=python, work_dir=str(work)
        )
        commands.append(ray_command(CAPSULE, machine, driver))
    with running(commands[0], works[0], logs[0]) as first, running(commands[1], works[1], logs[1]) as second:
        ready = works[0] / commands[0].cwd_relative / "ready"
        wait_for(ready.exists, first, logs[0])
        for process in (first, second):
            os.killpg(process.pid, signal.SIGTERM)
        assert first.wait(120) == 7, logs[0].read_text()[-3000:]
        assert second.wait(120) == 0, logs[1].read_text()[-3000:]
    said = logs[0].read_text()
    assert "cards 2 arguments " + repr(["a 'b' $c\n"]) in said
    assert f"directories {sorted(str(work / commands[0].cwd_relative) for work in works)}" in said
    assert of_this_cluster(f"{address}:{port}") == []


def test_a_head_that_cannot_start_is_said_at_once(framework_env: Callable[[str], Path], tmp_path: Path) -> None:
    python, address = str(framework_env("verl") / "bin/python"), own_address()
    with socket.socket() as taken:
        taken.bind((address, 0))
        taken.listen()
        machine = Machine(
            count=2, main_ip=address, main_port=taken.getsockname()[1], python=python, work_dir=str(tmp_path)
        )
        command = ray_command(CAPSULE, machine, [python, "-c", "print('never')"])
        with running(command, tmp_path, tmp_path / "log") as process:
            assert process.wait(240) == 1
    said = (tmp_path / "log").read_text()
    assert "ray.sh: the Ray head could not be started" in said
    assert "never" not in said


def test_one_machine_has_a_cluster_of_its_own(framework_env: Callable[[str], Path], tmp_path: Path) -> None:
    """`RAY_ADDRESS=local`: `ray.init()` of a driver joins nothing that runs on the machine."""
    python = str(framework_env("verl") / "bin/python")
    code = "import ray; print('joined' if ray.init(num_cpus=1, num_gpus=3).address_info['gcs_address'] is None else int(ray.cluster_resources()['GPU']))"
    command = ray_command(
        CAPSULE, Machine(gpus_per_node=1, python=python, work_dir=str(tmp_path)), [python, "-c", code]
    )
    with running(command, tmp_path, tmp_path / "log") as process:
        assert process.wait(120) == 0, (tmp_path / "log").read_text()[-3000:]
    assert (tmp_path / "log").read_text().splitlines()[-1] == "3"
