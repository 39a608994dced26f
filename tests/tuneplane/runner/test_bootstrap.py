"""bootstrap.sh under the shells of real images."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.tuneplane.runner.ingest_server import IngestServer
from tests.tuneplane.runner.job_folder import JobFolder
from tuneplane.runner.bootstrap import render_bootstrap

MakeJob = Callable[..., JobFolder]
SHELLS = [shell for shell in ("dash", "busybox sh", "bash --posix") if shutil.which(shell.split()[0])]


def run(job: JobFolder, shell: str = "sh", **env: str) -> subprocess.CompletedProcess[str]:
    process = job.start(shell=shell, **env)
    out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(shell, process.returncode, out, err)


def tools(directory: Path, names: dict[str, str]) -> str:
    """A PATH that holds these programs only: name -> what it runs."""
    directory.mkdir()
    for name, target in names.items():
        (directory / name).write_text(f"#!/bin/sh\n{target}\n")
        (directory / name).chmod(0o755)
    (directory / "sh").symlink_to("/bin/sh")
    return str(directory)


@pytest.mark.parametrize("shell", SHELLS)
def test_it_starts_the_runner(make_job: MakeJob, console: IngestServer, shell: str) -> None:
    done = run(make_job("echo hello"), shell)
    assert done.returncode == 0
    assert console.text("stdout") == b"hello\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_no_python_is_said_clearly_and_exits_78(make_job: MakeJob, tmp_path: Path, shell: str) -> None:
    shim = tools(tmp_path / "bin", {"python3": "exit 127", "python": "exit 1"})
    job = make_job("true")
    program = shutil.which(shell.split()[0])
    done = run(job, f"{program} {' '.join(shell.split()[1:])}", PATH=shim, TUNEPLANE_PYTHON="")
    assert done.returncode == 78
    assert done.stderr.startswith("TUNEPLANE-BOOTSTRAP: python-missing: no Python 3.9 or newer")


@pytest.mark.parametrize("shell", SHELLS)
def test_the_users_environment_is_the_trainers_alone(make_job: MakeJob, console: IngestServer, shell: str) -> None:
    """dash stops at an OPTIND that is no number, and no Python is found on a PATH that leads nowhere."""
    passed = {"TUNEPLANE_ENV_OPTIND": "x", "TUNEPLANE_ENV_PATH": "/nowhere", "TUNEPLANE_ENV_LD_PRELOAD": "/no/lib.so"}
    job = make_job("true")
    run(job, shell, TUNEPLANE_PYTHON="", **passed)
    assert job.outcome()["result"] == "failed"  # the trainer's own shell is not found either, and the runner says so
    assert "sh" in job.outcome()["detail"]


def test_a_python_that_is_too_old_is_passed_over(make_job: MakeJob, tmp_path: Path, console: IngestServer) -> None:
    names = {"python3": "exit 1", "python3.12": f'exec "{sys.executable}" "$@"'}
    path = tools(tmp_path / "bin", names)
    done = run(make_job("echo $0"), PATH=path, TUNEPLANE_PYTHON="/no/such/python")
    assert done.returncode == 0, done.stderr


def test_without_sha256sum_python_checks_the_digests(make_job: MakeJob, tmp_path: Path) -> None:
    path = tools(tmp_path / "bin", {})
    job = make_job("true")
    assert run(job, PATH=path).returncode == 0
    (job.capsule_dir / "capsule.json").write_bytes(b"{}")
    done = run(job, PATH=path)
    assert done.returncode == 78
    assert "package-corrupt" in done.stderr


@pytest.mark.parametrize("name", ["capsule.json", "runner.pex"])
def test_a_file_that_is_not_the_consoles_is_refused(make_job: MakeJob, name: str) -> None:
    job = make_job("touch $TUNEPLANE_OUT_DIR/ran")
    with (job.capsule_dir / name).open("ab") as file:
        file.write(b" ")
    done = run(job)
    assert done.returncode == 78
    assert "TUNEPLANE-BOOTSTRAP: package-corrupt" in done.stderr
    (job.capsule_dir / name).unlink()
    done = run(job)
    assert done.returncode == 78
    assert "TUNEPLANE-BOOTSTRAP: storage-failed" in done.stderr
    assert list(job.out.iterdir()) == []


def test_a_capsule_directory_with_spaces_and_no_variable(
    make_job: MakeJob, tmp_path: Path, console: IngestServer
) -> None:
    job = make_job("echo hello")
    moved = tmp_path / "a b 'c'"
    shutil.copytree(job.capsule_dir, moved)
    environment = {**job.environment(), "TUNEPLANE_CAPSULE_DIR": ""}
    subprocess.run(["sh", str(moved / "bootstrap.sh")], env=environment, check=True, timeout=60)
    assert console.text("stdout") == b"hello\n"


def test_digests_are_checked_before_they_become_shell() -> None:
    with pytest.raises(ValueError, match="digests"):
        render_bootstrap("$(reboot)", "0" * 64)
