"""Runs rendered scripts in a real `sh`, with stand-ins for `srun` and `apptainer` on PATH."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tuneplane_server.executors.slurm.script import MachineExit, Part, ScriptRequest, exit_file, parse_exit, render

HERE = Path(__file__).parent
BOUND = 60.0


@dataclass
class Job:
    """One attempt in a directory of its own. `body`: the text of its bootstrap.sh."""

    root: Path
    shell: str
    request: ScriptRequest
    environment: dict[str, str]
    running: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def slurm(self) -> Path:
        return self.request.slurm_dir

    def body(self, text: str) -> None:
        (self.request.capsule / "bootstrap.sh").write_text(text)

    def change(self, **values: Any) -> None:
        self.request = replace(self.request, **values)

    def start(self, **environment: str) -> subprocess.Popen[str]:
        script = render(self.request)
        for name, text in script.files.items():
            (self.slurm / name).parent.mkdir(parents=True, exist_ok=True)
            (self.slurm / name).write_text(text)
        path = self.root / "slurm_script"
        path.write_text(script.text)
        with (self.slurm / "job.out").open("a") as output:
            process = subprocess.Popen(
                [self.shell, str(path)],
                env={**self.environment, **environment},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                text=True,
                start_new_session=True,
            )
        self.running.append(process)
        return process

    def run(self, **environment: str) -> int:
        return self.start(**environment).wait(BOUND)

    @property
    def output(self) -> str:
        return (self.slurm / "job.out").read_text()

    def end_of(self, rank: int) -> MachineExit:
        found = parse_exit((self.slurm / exit_file(rank)).read_text())
        assert found is not None
        return found

    def codes(self) -> list[int]:
        return [self.end_of(rank).code for rank in range(self.request.machines)]

    def srun_calls(self) -> list[dict[str, Any]]:
        """Those that started a machine, by rank."""
        lines = [json.loads(line) for line in (self.root / "srun.log").read_text().splitlines()]
        calls = [line for line in lines if "tuneplane" in line["command"]]
        return sorted(calls, key=lambda call: int(call["command"][call["command"].index("tuneplane") + 1]))

    def container(self, rank: int = 0) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.root / f"exec-{rank}.json").read_text())
        return found

    def wait_for(self, path: Path) -> None:
        self.wait_until(f"{path} is there", path.exists)

    def wait_until(self, what: str, condition: Callable[[], bool]) -> None:
        pause = threading.Event()
        for _ in range(int(BOUND / 0.02)):
            if condition():
                return
            pause.wait(0.02)
        raise AssertionError(f"{what}: not within {BOUND} s: {self.output}")


def _program(directory: Path, name: str, source: str) -> None:
    path = directory / name
    path.write_text(f"#!{sys.executable} -S\n" + (HERE / source).read_text())
    path.chmod(0o755)


@pytest.fixture
def shell(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """`sh` is dash on some nodes and bash on others, which behaves otherwise when it is called `sh`."""
    name = getattr(request, "param", "dash")
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not here")
    link = tmp_path / name / "sh"
    link.parent.mkdir()
    link.symlink_to(found)
    return str(link)


@pytest.fixture
def job(tmp_path: Path, shell: str) -> Iterator[Job]:
    made: list[Job] = []
    yield from _job(tmp_path, shell, made.append)
    for process in made[0].running:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(BOUND)
    _end_detached(made[0])


def _job(tmp_path: Path, shell: str, keep: Callable[[Job], None]) -> Iterator[Job]:
    root = tmp_path / "storage root 'ü'"
    for name in ("capsule", "slurm", "out", "spool", "tmp"):
        (root / name).mkdir(parents=True)
    programs = tmp_path / "bin"
    programs.mkdir()
    _program(programs, "srun", "stands_in_for_srun.py")
    _program(programs, "apptainer", "stands_in_for_apptainer.py")
    (programs / "sleep").write_text("#!/bin/sh\nexec /bin/sleep 0.2\n")  # a second of the script takes less here
    (programs / "sleep").chmod(0o755)
    image = root / "image one.sif"
    image.write_text("")
    request = ScriptRequest(
        job_id="j1",
        attempt=1,
        profile="apptainer",
        image=str(image),
        capsule=root / "capsule",
        slurm_dir=root / "slurm",
        storage_root=root,
        parts=(Part(1, 0),),
        environment_names=("GREETING", "TUNEPLANE_RUN_ID"),
        read_only=(root / "capsule",),
        writable=(root / "out",),
        grace=600,
    )
    environment = {
        "PATH": f"{Path(shell).parent}:{programs}:/usr/bin:/bin",
        "SLURM_JOB_ID": "700",
        "TMPDIR": str(root / "tmp"),
        "STAND_LOG": str(root / "srun.log"),
        "STAND_DIR": str(root),
        "TUNEPLANE_RUN_ID": "j1",
    }
    job = Job(root, shell, request, environment)
    keep(job)
    yield job


def _end_detached(job: Job) -> None:
    """Steps that a failed test left behind."""
    for path in job.slurm.glob("step-*.pid"):
        for pid in path.read_text().split():
            _kill(int(pid))


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return


def options_named(name: str, options: Sequence[Sequence[str]]) -> list[str]:
    """Values of an option of `apptainer exec`, in order."""
    return [option[1] for option in options if option[0] == name]
