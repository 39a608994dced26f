"""Runs a training script in its own process with a report directory, and reads what it left there."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[3] / "packages/tuneplane/src"


class Reported:
    def __init__(self, directory: Path, done: subprocess.CompletedProcess[str]) -> None:
        self.files = sorted(directory.glob("*.ndjson"))
        self.stderr = done.stderr
        self.returncode = done.returncode
        self.lines: list[dict[str, Any]] = [
            json.loads(line) for path in self.files for line in path.read_text().splitlines()
        ]

    def points(self, name: str, rank: int = 0) -> list[tuple[int, Any]]:
        found = []
        for line in self.lines:
            if line["k"] == "m" and line["rank"] == rank and name in line["series"]:
                columns = line["series"][name]
                assert len(columns["step"]) == len(columns["time"]) == len(columns["value"])
                found.extend(zip(columns["step"], columns["value"]))  # noqa: B905 - strict= needs 3.10
        return found

    def names(self) -> set[str]:
        return {name for line in self.lines if line["k"] == "m" for name in line["series"]}

    def events(self, name: str) -> list[Any]:
        return [line["data"] for line in self.lines if line["k"] == "e" and line["event"] == name]

    def samples(self) -> list[Any]:
        return [sample for line in self.lines if line["k"] == "s" for sample in line["samples"]]


def environment(directory: Path | None, **more: str) -> dict[str, str]:
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(SOURCE), **more}
    if directory is not None:
        env["TUNEPLANE_REPORT_DIR"] = str(directory)
    return env


def run_script(directory: Path, code: str, **more: str) -> Reported:
    done = subprocess.run(
        [sys.executable, "-c", code],
        env=environment(directory, **more),
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    return Reported(directory, done)
