"""Pause, resume and retry with a real console, real processes and checkpoints in the layout of transformers."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.harness import Client, wait_until
from tests.e2e.trainers import counting, said, submit_counting

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def client(newcomer: Client) -> Client:
    counting(newcomer, "count")
    return newcomer


@pytest.fixture
def control(tmp_path: Path) -> Path:
    return tmp_path / "control"


def test_a_paused_run_saves_frees_its_place_and_goes_on_where_it_was(client: Client, control: Path) -> None:
    run = submit_counting(client, "count", control, COUNT=6, HOLD=3)
    wait_until("it holds at step 3", lambda: "step 3" in client.printed(run))
    assert "is told to stop and then waits" in client.tp("job", "pause", run[:12]).err
    wait_until("it is parked", lambda: client.show(run)["phase"] == "queued")
    job = client.show(run)
    assert (job["paused"], job["attempt"], job["attempts"][0]["reason"]["code"]) == (True, 2, "paused")
    assert job["resume_point"]["step"] == 3
    assert said(client, run) == ["from 0", "step 1", "step 2", "step 3", "saved 3"]

    client.console.kill()  # a pause outlives a crash
    client.console.start()
    assert client.show(run)["paused"] is True

    (control / "go").touch()
    assert client.tp("job", "resume", run).err == f"{run} goes on from step 3\n"
    done = client.wait(run)
    assert [(item["phase"], item["resumed"] and item["resumed"]["step"]) for item in done["attempts"]] == [
        ("cancelled", None),
        ("succeeded", 3),
    ]
    assert said(client, run, "--attempt", "2") == ["from 3", "step 4", "step 5", "step 6"]
    kinds = [event["kind"] for event in client.api(f"/jobs/{run}/events?limit=200")["items"]]
    assert [kind for kind in kinds if kind in ("pause", "parked", "resume", "settled")] == [
        "pause", "parked", "resume", "settled",
    ]  # fmt: skip


def test_a_failed_run_is_resumed_and_retried_as_new_runs(client: Client, control: Path) -> None:
    run = submit_counting(client, "count", control, COUNT=6, SAVE=2, FAIL=5)
    client.wait(run, "failed")
    assert [
        (item["step"], item["complete"]) for item in client.tp("job", "artifacts", run, "--json").json["checkpoints"]
    ] == [
        (2, True),
        (4, True),
    ]
    resumed = client.tp("job", "resume", run)
    new = resumed.out.strip()
    assert f"goes on from step 4 of {run}" in resumed.err
    client.wait(new, "failed")  # it fails at step 5 again, as it must
    assert said(client, new) == ["from 4", "step 5"]

    older = client.tp("job", "resume", run, "--from-step", "2", "--wait", "--json", code=1).json
    assert said(client, older["id"]) == ["from 2", "step 3", "step 4", "saved 4", "step 5"]
    again = client.tp("job", "retry", run, "--wait", "--json", code=1).json
    assert said(client, again["id"])[0] == "from 0"
    assert [(link["id"], link["kind"], link["phase"]) for link in client.show(run)["followers"]] == [
        (new, "resume", "failed"),
        (older["id"], "resume", "failed"),
        (again["id"], "retry", "failed"),
    ]
    assert f"followed by  {new} (failed)" in client.tp("job", "show", run).out


def test_an_incomplete_checkpoint_is_refused_with_why_and_with_those_to_choose_from(
    client: Client, control: Path
) -> None:
    """scenario 31"""
    run = submit_counting(client, "count", control, COUNT=6, SAVE=2, HOLD=6)
    wait_until("it holds at its end", lambda: "saved 6" in client.printed(run))
    out = next(client.console.storage.glob(f"projects/*/*/jobs/{run}/attempts/1/out"))
    (out / "checkpoints" / "checkpoint-4" / "optimizer.pt").unlink()
    (out / "checkpoints" / "checkpoint-6" / "model.safetensors").write_bytes(b"cut")
    client.tp("job", "cancel", run, "--yes", "--wait")
    answer = client.tp("job", "resume", run, "--from-step", "4", code=3)
    assert "step 4" in answer.err
    assert "it holds no optimizer state" in answer.err
    assert f"tp job resume {run} --from-step 2" in answer.err
    (control / "go").touch()
    new = client.tp("job", "resume", run).out.strip()
    client.wait(new)
    assert said(client, new)[0] == "from 2"


def test_states_that_do_not_fit_are_refused_by_name(client: Client, control: Path) -> None:
    run = submit_counting(client, "count", control, COUNT=2, HOLD=1)
    wait_until("it runs", lambda: "step 1" in client.printed(run))
    assert f"run {run} is not over: it is running" in client.tp("job", "retry", run, code=1).err
    assert "is running, and not paused" in client.tp("job", "resume", run, code=1).err
    client.tp("job", "cancel", run, "--yes", "--wait")
    before = client.show(run)
    assert "is over: it was cancelled" in client.tp("job", "pause", run, code=1).err
    late = client.tp("job", "cancel", run, "--yes", code=1)
    assert f"run {run} is over: it was cancelled, at " in late.err
    assert f"tp job show {run}" in late.err
    assert client.show(run) == before
    fresh = submit_counting(client, "count", control, COUNT=1, FAIL=1)
    client.wait(fresh, "failed")
    answer = client.tp("job", "resume", fresh, code=3)
    assert "has no complete checkpoint to go on from" in answer.err
    assert f"tp job retry {fresh}" in answer.err
