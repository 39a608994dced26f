"""Slurm's queue is the queue: what our console shows of a run that waits there, what it lets people do, and what it counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.harness import Client, wait_until
from tests.e2e.slurm.consoles import slurm_client
from tests.e2e.slurm.holding import Held, hold, slurm_jobs
from tests.services.slurm import SlurmCluster

pytestmark = [pytest.mark.services, pytest.mark.timeout(600)]


@pytest.fixture
def client(slurm: SlurmCluster) -> Iterator[Client]:
    """Runs the test twice, on real Slurm 22.05 and 24.11. One machine of eight cards is all that the console may use."""
    with slurm_client(slurm, TUNEPLANE_SLURM_PARTITION="small", TUNEPLANE_SLURM_TIME_LIMIT="5") as made:
        yield made


def in_slurms_queue(job: dict[str, Any]) -> bool:
    return bool(job["waiting"]) and job["waiting"]["kind"] == "executor"


def cards(client: Client) -> tuple[int, int]:
    """(all, free)"""
    [h200] = [item for item in client.api("/hardware")["profiles"] if item["name"] == "h200"]
    return h200["total_gpus"], h200["free_gpus"]


def begun(client: Client, run: str) -> str:
    """The event of its start."""
    events = client.api(f"/jobs/{run}/events")["items"]
    return next(str(item["text"]) for item in events if item["kind"] == "running")


def waiting(client: Client, slurm: SlurmCluster, name: str) -> tuple[Held, dict[str, Any]]:
    """A run of all eight cards, once it is seen waiting behind another one, with its reason."""
    held = hold(client, slurm, name, profile="h200:8")
    job = held.until("it is seen in Slurm's queue with its place", lambda job: in_slurms_queue(job) and placed(job))
    return held, job


def placed(job: dict[str, Any]) -> bool:
    return job["waiting"]["position"] is not None


def passed_on(client: Client) -> dict[str, Any] | None:
    line: dict[str, Any] = client.api("/queue")
    return None if line["items"] else line


def test_two_runs_of_all_cards_one_after_the_other(slurm: SlurmCluster, client: Client) -> None:
    first = hold(client, slurm, "first", profile="h200:8")
    first.until_held()
    second, job = waiting(client, slurm, "second")
    assert (job["phase"], job["nodes"], job["started_at"]) == ("starting", [], None)
    assert job["waiting"]["text"].startswith("waits in the queue of Slurm: ")
    third, behind = waiting(client, slurm, "third")
    assert behind["waiting"]["position"] > job["waiting"]["position"]
    # Everybody looks at the same: the run, the line, the command, in both languages.
    text = client.tp("job", "show", second.run).out
    assert "waiting: waits in the queue of Slurm" in text
    # The plan that the page shows may be of a moment before the third was passed on.
    line = wait_until("nobody is left in the console's own line", lambda: passed_on(client))
    assert line["executor_queue"]["name"] == "Slurm"
    assert [item["id"] for item in line["executor_queue"]["items"]] == [second.run, third.run]
    wait_until("Slurm's word on its cards is seen", lambda: cards(client) == (8, 0))
    # A run that waits there can be taken out of that queue.
    client.tp("job", "cancel", third.run, "--yes")
    gone = third.until("it is cancelled", lambda job: job["phase"] == "cancelled")
    assert gone["started_at"] is None
    first.finished()
    job = second.until("it runs", lambda job: job["phase"] == "running")
    assert (job["nodes"], job["waiting"], job["conditions"]) == (["n1"], None, [])
    assert begun(client, second.run) == "seen running on n1"
    second.finished()
    assert len(slurm_jobs(slurm, second.run)) == len(slurm_jobs(slurm, third.run)) == 1


def test_paused_while_it_waits_and_resumed_it_is_another_job_of_slurms(slurm: SlurmCluster, client: Client) -> None:
    first = hold(client, slurm, "first", profile="h200:8")
    first.until_held()
    second, _job = waiting(client, slurm, "second")
    client.tp("job", "pause", second.run)
    second.until("it has left Slurm's queue", lambda job: job["phase"] == "queued" and job["attempt"] == 2)
    client.tp("job", "resume", second.run)
    second.until("it stands there again", in_slurms_queue)
    first.finished()
    assert second.finished()["attempt"] == 2
    assert len(slurm_jobs(slurm, second.run)) == 2
