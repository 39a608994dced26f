"""The commit a job came from, asked of a real git, which is left exactly as it was."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.tuneplane.lab.conftest import LabOnDisk
from tuneplane.lab.provenance import GitState, git_state


def git(root: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=x", "-c", "user.email=x@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(["git", "-C", root, *identity, *arguments], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repo(demo: LabOnDisk) -> LabOnDisk:
    git(demo.root, "init", "-q")
    git(demo.root, "add", ".")
    git(demo.root, "commit", "-qm", "one")
    return demo


def state(demo: LabOnDisk) -> GitState:
    return git_state(demo.lab, demo.experiment)


def test_the_commit_is_told_in_full_and_clean_is_clean(repo: LabOnDisk) -> None:
    assert state(repo) == GitState(git(repo.root, "rev-parse", "HEAD"), dirty=False)


@pytest.mark.parametrize(
    ("name", "dirty"),
    [
        ("experiments/first/config.yaml", True),
        ("experiments/first/new.py", True),
        ("common/new.py", True),
        ("experiments/other/new.py", False),
        ("notes.txt", False),
    ],
)
def test_dirty_means_that_the_package_differs(repo: LabOnDisk, name: str, dirty: bool) -> None:
    repo.write(name, "changed: true\n")
    assert state(repo).dirty is dirty


def test_without_a_repository_or_a_commit_nothing_is_claimed(demo: LabOnDisk) -> None:
    assert state(demo) == GitState()
    git(demo.root, "init", "-q")
    assert state(demo) == GitState()


def test_without_git_nothing_is_claimed(repo: LabOnDisk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert state(repo) == GitState()


def test_git_writes_nothing_and_runs_nothing_of_the_lab(repo: LabOnDisk, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    trap.write_text(f"#!/bin/sh\ntouch {tmp_path}/sprung\n")
    trap.chmod(0o755)
    git(repo.root, "config", "core.fsmonitor", str(trap))
    os.utime(repo.experiment.config, (1, 1))  # git would refresh its index for this
    before = {path: path.read_bytes() for path in (repo.root / ".git").rglob("*") if path.is_file()}
    assert state(repo).dirty is False
    assert {path: path.read_bytes() for path in (repo.root / ".git").rglob("*") if path.is_file()} == before
    assert not (tmp_path / "sprung").exists()
