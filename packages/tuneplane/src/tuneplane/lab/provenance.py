"""Which commit of the user's repository a job came from. Asks git, writes nothing: not even git's index is refreshed."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass

from tuneplane.contract.words import EXPERIMENTS_DIR, LAB_MARKER
from tuneplane.lab.experiments import Experiment
from tuneplane.lab.find import Lab
from tuneplane.lab.plan import SHARED_DIRS

_TIMEOUT_SECONDS = 10


@dataclass(frozen=True)
class GitState:
    """`commit` in full; `dirty` whether what the package holds differs from it. None where git has no answer."""

    commit: str | None = None
    dirty: bool | None = None


def git_state(lab: Lab, experiment: Experiment) -> GitState:
    """The state of the repository around the lab; all None when there is none, no git, or no answer in time."""
    commit = _git(lab, "rev-parse", "--verify", "HEAD")
    if commit is None:
        return GitState()
    paths = [LAB_MARKER, f"{EXPERIMENTS_DIR}/{experiment.name}", *SHARED_DIRS]
    changes = _git(lab, "status", "--porcelain", "--untracked-files=normal", "--", *paths)
    return GitState(commit.strip(), None if changes is None else bool(changes.strip()))


def _git(lab: Lab, *arguments: str) -> str | None:
    # A lab that came from elsewhere may configure programs for git to run; fsmonitor is the one that these commands would start.
    command = ["git", "-C", str(lab.root), "-c", "core.fsmonitor=false", *arguments]
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=_TIMEOUT_SECONDS,
            check=False,
            text=True,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None
