"""Start-up of `tp` as a multiple of `python -c pass` in the same environment."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import Result, time_command

TARGETS = {"--help": 8, "--version": 8, "methods": 12, "ls": 16, "validate first": 16}


def run(runs: int = 15) -> list[Result]:
    bin_dir = Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        env = {**os.environ, "TUNEPLANE_HOME": str(root / "home"), "TUNEPLANE_LANG": "en", "LANG": "C.UTF-8"}
        lab = root / "lab"
        subprocess.run(
            [bin_dir / "tp", "init", str(lab)], env=env, cwd=root, check=True, capture_output=True, timeout=60
        )
        new = [bin_dir / "tp", "new", "first", "--method", "trl/sft"]
        subprocess.run(new, env=env, cwd=lab, check=True, capture_output=True, timeout=60)
        bare = time_command([sys.executable, "-c", "pass"], env=env, cwd=lab, runs=2 * runs)
        results = []
        for command, target in TARGETS.items():
            seconds = time_command([str(bin_dir / "tp"), *command.split()], env=env, cwd=lab, runs=runs)
            results.append(Result(f"tp {command}", seconds, "s", "python -c pass", bare, f"≤ {target}×"))
    return results
