"""custom/custom from submit to artifacts, in seconds: logs, metrics, samples, cancel, failure, console away."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest

from tests.e2e.harness import Client, wait_until

pytestmark = pytest.mark.timeout(300)
# The reporter is put on the trainer's path only where the platform watches; custom/custom's default is `external`.
OPTIONS = ("--observability", "platform")
EXTERNAL = ("--observability-url", "https://curves.example.org/run")


@pytest.fixture
def client(newcomer: Client) -> Client:
    return newcomer


def custom(client: Client, name: str, script: str, python: str = "") -> None:
    """An experiment whose train.sh is `script`; `python` becomes loop.py beside it."""
    experiment = client.new(name, "custom/custom")
    (experiment / "train.sh").write_text("set -eu\n" + textwrap.dedent(script))
    (experiment / "loop.py").write_text(textwrap.dedent(python))


def out_dir(client: Client, run: str) -> Path:
    return next(client.console.storage.glob(f"projects/*/*/jobs/{run}/attempts/1/out"))


# Prints and reports a numbered line per step; with a third argument it waits in the middle for the file `go`.
LOOP = """
    import os, sys, time
    from tuneplane import report
    report.init()
    count, pause = int(sys.argv[1]), float(sys.argv[2])
    out = os.environ["TUNEPLANE_OUT_DIR"]
    for step in range(1, count + 1):
        while step > count // 2 and len(sys.argv) > 3 and not os.path.exists(os.path.join(out, "go")):
            time.sleep(0.05)
        print(f"line {step}", flush=True)
        report.log({"train/loss": 1.0 / step}, step=step)
        time.sleep(pause)
    report.log_samples([{"prompt": "1+1=", "completion": "2", "reward": 1.0}], step=count, kind="completion")
    report.finish()
    with open(os.path.join(out, "result.txt"), "w") as file:
        file.write("done")
"""


def test_a_run_brings_back_logs_points_samples_and_files(client: Client, tmp_path: Path) -> None:
    custom(client, "first", "python3 loop.py 50 0.01\n", LOOP)
    run = client.submit("first", *OPTIONS, "--env", "ODD=a=b 'c' \"d\" $HOME")
    job = client.wait(run)
    assert job["reason"] is None
    assert job["cleanup"] == "confirmed"

    assert client.tp("job", "show", run, "--json").json == client.show(run)
    lines = [line for line in client.tp("job", "logs", run, "--no-follow").out.splitlines() if line.startswith("line ")]
    assert lines == [f"line {n}" for n in range(1, 51)]
    assert client.curve(run, "train/loss") == [(n, 1.0 / n) for n in range(1, 51)]
    (sample,) = client.tp("job", "samples", run, "--json").json["items"]
    assert sample["data"]["completion"] == "2"

    files = {item["path"]: item for item in client.tp("job", "artifacts", run, "--json").json["files"]}
    assert files["result.txt"]["size"] == 4
    client.tp("job", "download", run, "--output", str(tmp_path / "got"))
    assert (tmp_path / "got" / "result.txt").read_text() == "done"


def test_the_exit_code_of_the_trainer_is_the_reason(client: Client) -> None:
    custom(client, "broken", "echo about to fail; exit 7\n")
    run = client.submit("broken", *EXTERNAL)
    job = client.wait(run, "failed")
    assert job["reason"]["class"] == "user"
    assert "7" in job["reason"]["text"]
    assert job["reason"]["hint"]
    assert "about to fail" in client.tp("job", "logs", run, "--no-follow").out
    assert client.tp("job", "wait", run, code=1).code == 1


def test_cancel_reaches_the_trainer_and_its_files_are_kept(client: Client) -> None:
    script = """
        trap 'echo saving; echo saved > "$TUNEPLANE_OUT_DIR/last.txt"; exit 0' TERM
        echo started
        while :; do sleep 0.1; done
    """
    custom(client, "endless", script)
    run = client.submit("endless", *OPTIONS)
    wait_until("the trainer has started", lambda: "started" in client.printed(run))
    client.tp("job", "cancel", run, "--yes")
    client.wait(run, "cancelled")
    assert "saving" in client.tp("job", "logs", run, "--no-follow").out
    assert [f["path"] for f in client.tp("job", "artifacts", run, "--json").json["files"] if f["path"] == "last.txt"]


def test_a_console_killed_in_the_middle_costs_nothing(client: Client) -> None:
    custom(client, "steady", "python3 loop.py 200 0.01 gated\n", LOOP)
    run = client.submit("steady", *OPTIONS)
    wait_until("the first points are there", lambda: client.show(run)["latest"].get("train/loss"))
    before = client.show(run)
    client.console.kill()
    client.console.start()
    after = client.show(run)
    assert (after["phase"], after["attempt"]) == (before["phase"], before["attempt"]) == ("running", 1)
    (out_dir(client, run) / "go").touch()
    client.wait(run)
    kinds = [event["kind"] for event in client.api(f"/jobs/{run}/events?limit=200")["items"]]
    assert kinds.count("adopted") == 1
    lines = [line for line in client.tp("job", "logs", run, "--no-follow").out.splitlines() if line.startswith("line ")]
    assert lines == [f"line {n}" for n in range(1, 201)]
    assert [step for step, _ in client.curve(run, "train/loss")] == list(range(1, 201))


def test_a_run_that_ends_while_the_console_is_away_is_not_lost(client: Client) -> None:
    custom(client, "short", "python3 loop.py 60 0.01 gated\n", LOOP)
    run = client.submit("short", *OPTIONS)
    wait_until("it runs", lambda: client.show(run)["phase"] == "running")
    client.console.kill()
    out = out_dir(client, run)
    (out / "go").touch()
    wait_until("the runner has written its outcome", lambda: (out / "outcome.json").exists())
    assert json.loads((out / "outcome.json").read_text())["result"] == "succeeded"
    client.console.start()
    client.wait(run)
    assert [step for step, _ in client.curve(run, "train/loss")] == list(range(1, 61))


def test_the_same_submission_twice_is_one_run(client: Client) -> None:
    custom(client, "once", "true\n")
    first = client.tp("submit", "once", "--profile", "cpu", *OPTIONS, "--json").json["id"]
    client.wait(first)
    assert len(client.tp("job", "ls", "--json").json["items"]) == 1


def test_a_submit_leaves_the_lab_as_it_was(client: Client) -> None:
    custom(client, "clean", "true\n")

    def tree() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in sorted(client.lab.rglob("*")) if path.is_file()}

    before = tree()
    client.submit("clean", *EXTERNAL)
    assert tree() == before


def test_external_observability_needs_its_address(client: Client) -> None:
    custom(client, "blind", "true\n")
    answer = client.tp("submit", "blind", "--profile", "cpu", code=3)
    assert "--observability-url" in answer.err


def test_every_refusal_is_told_at_once(client: Client) -> None:
    custom(client, "wrong", "true\n")
    answer = client.tp("submit", "wrong", "--profile", "h300:8", "--image", "nonsense", code=3)
    assert "h300" in answer.err
    assert "nonsense" in answer.err
    assert "--observability-url" in answer.err
    assert client.tp("job", "ls", "--json").json["items"] == []
