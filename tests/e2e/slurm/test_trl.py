"""A real TRL run through a real Slurm 24.11: its curve is there while it runs, and it leaves what it leaves elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import Client, wait_until
from tests.e2e.slurm.consoles import controls, slurm_client
from tests.e2e.test_trl import insert_before_training
from tests.services.slurm import SlurmCluster

pytestmark = [pytest.mark.training, pytest.mark.timeout(900)]

# The job waits after its third step for a file, so that there is something to see while it runs.
HOLD = """

import os, time
from transformers import TrainerCallback


class Hold(TrainerCallback):
    def on_log(self, args, state, control, **kwargs):
        while state.global_step == 3 and not os.path.exists(os.environ["GO"]):
            time.sleep(0.05)


trainer.add_callback(Hold())
"""


@pytest.fixture
def cluster(slurm_clusters: Callable[[str], SlurmCluster]) -> SlurmCluster:
    return slurm_clusters("24.11")


@pytest.fixture
def client(cluster: SlurmCluster, training_runtime: Path) -> Iterator[Client]:
    with slurm_client(cluster, {"trl-1.16": training_runtime}) as made:
        yield made


def test_sft_through_slurm_is_seen_while_it_runs(client: Client, cluster: SlurmCluster) -> None:
    go = controls(cluster) / "trl-go"
    insert_before_training(client.new("live", "trl/sft") / "train.py", HOLD)
    run = client.submit("live", "--env", f"GO={go}")

    def seen() -> dict[str, Any] | None:
        job = client.show(run)
        assert job["phase"] in ("queued", "starting", "running"), (job["reason"], client.printed(run)[-40:])
        return job if [step for step, _value in curve(client, run)] == [1, 2, 3] else None

    job = wait_until("the first three steps are seen", seen, 300)
    assert job["phase"] == "running"
    assert job["runtime"]["ran_in"] == "apptainer"
    go.touch()
    client.wait(run)
    points = curve(client, run)
    assert [step for step, _value in points] == list(range(1, 9))
    assert points[-1][1] < points[0][1]
    assert {"train/loss", "train/learning_rate", "train/grad_norm"} <= set(
        client.api(f"/jobs/{run}/metrics")["metrics"]
    )
    assert any(point["complete"] for point in client.api(f"/jobs/{run}/artifacts")["checkpoints"])


def curve(client: Client, run: str) -> list[tuple[int, float]]:
    """As the page of a run asks for it."""
    series = client.api(f"/jobs/{run}/curves?name=train/loss")["series"].get("train/loss", [])
    return [point for part in series for point in zip(part["step"], part["value"], strict=True)]
