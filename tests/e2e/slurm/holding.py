"""Runs on a real Slurm that wait where a test wants to do something to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.e2e.harness import Client, wait_until
from tests.e2e.slurm.consoles import controls
from tests.e2e.trainers import counting, submit_counting
from tests.services.slurm import SlurmCluster

SECONDS = 120.0


@dataclass
class Held:
    """A run of `COUNTING` that goes on to its end when it is told to."""

    client: Client
    run: str
    control: Path

    def go(self) -> None:
        (self.control / "go").touch()

    def shown(self) -> dict[str, Any]:
        return self.client.show(self.run)

    def until(self, what: str, condition: Callable[[dict[str, Any]], Any], seconds: float = SECONDS) -> dict[str, Any]:
        """The job, once it is like that."""

        def look() -> dict[str, Any] | None:
            job = self.shown()
            return job if condition(job) else None

        try:
            found: dict[str, Any] = wait_until(what, look, seconds)
        except AssertionError as error:
            job = {name: value for name, value in self.shown().items() if name != "spec"}
            raise AssertionError(f"{error}\n{job}\n{self.client.console.log()[-4000:]}") from None
        return found

    def until_held(self, step: int = 1) -> dict[str, Any]:
        """The job, once its trainer has printed this step."""
        return self.until(f"step {step} is printed", lambda _job: f"step {step}" in self.client.printed(self.run))

    def finished(self, phase: str = "succeeded") -> dict[str, Any]:
        self.go()
        return self.client.wait(self.run, phase, SECONDS)


def hold(
    client: Client, cluster: SlurmCluster, name: str, *options: str, profile: str = "h200:1", **numbers: int
) -> Held:
    """Submit a run that waits after its first step."""
    counting(client, name)
    control = controls(cluster) / f"{client.console.port}-{name}"
    numbers = {"COUNT": 2, "HOLD": 1, **numbers}
    return Held(client, submit_counting(client, name, control, *options, profile=profile, **numbers), control)


def conditions(job: dict[str, Any]) -> dict[str, str]:
    """Their texts by type."""
    return {item["type"]: item["text"] for item in job["conditions"]}


def slurm_jobs(cluster: SlurmCluster, run: str) -> list[int]:
    """The ids of all jobs that Slurm was ever given for a run and still remembers."""
    listed = cluster.run("squeue", "-ha", "-t", "all", "-o", "%A %j").splitlines()
    return [int(line.split()[0]) for line in listed if line.split()[1].startswith(f"tp-{run}-")]
