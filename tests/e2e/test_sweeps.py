"""A sweep of real jobs from `tp` to its table; the console is killed in the middle of it."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import Client, wait_until

pytestmark = pytest.mark.timeout(300)

# The loss is least where LR is 2; a trial with HOLD waits for a file.
TRIAL = """
    import os, time
    from tuneplane import report
    report.init()
    rate = float(os.environ["LR"])
    for step in range(1, 6):
        report.log({"train/loss": (rate - 2) ** 2 + 1 / step}, step=step)
    report.finish()
    while rate == 1 and not os.path.exists(os.environ["GO"]):
        time.sleep(0.05)
"""
OPTIONS = ("--objective", "train/loss:min", "--observability", "platform", "--profile", "cpu", "--json")


def lab_with_trial(client: Client, name: str) -> None:
    experiment = client.new(name, "custom/custom")
    (experiment / "train.sh").write_text("exec python3 trial.py\n")
    (experiment / "trial.py").write_text(textwrap.dedent(TRIAL))


def show(client: Client, sweep: str) -> dict[str, Any]:
    found: dict[str, Any] = client.api(f"/sweeps/{sweep}")
    return found


def test_a_sweep_outlives_its_console_and_ends_with_the_best_first(newcomer: Client, tmp_path: Path) -> None:
    go = tmp_path / "go"
    lab_with_trial(newcomer, "swept")
    values = ("--grid", "env.LR=1,2,3,5", "--max-parallel", "2", "--env", f"GO={go}")
    listed = newcomer.tp("sweep", "swept", *values, *OPTIONS, "--dry-run").json
    assert listed["variants"] == [{"env.LR": value} for value in ("1", "2", "3", "5")]
    assert listed["admission"]["admitted"] is True

    sweep = newcomer.tp("sweep", "swept", *values, *OPTIONS).json["id"]
    wait_until("trials run", lambda: show(newcomer, sweep)["counts"].get("submitted"))
    newcomer.console.kill()
    go.touch()
    newcomer.console.start()
    wait_until("the sweep is over", lambda: show(newcomer, sweep)["state"] == "done")

    found = newcomer.tp("sweep", "show", sweep, "--json").json
    assert [trial["params"]["env.LR"] for trial in found["trials"]] in (["2", "1", "3", "5"], ["2", "3", "1", "5"])
    assert [trial["state"] for trial in found["trials"]] == ["succeeded"] * 4
    assert found["best"] == {"value": 0.2, "number": 1, "job_id": found["trials"][0]["job_id"]}
    assert newcomer.tp("sweep", "show", sweep).out.count("succeeded") >= 4
    jobs = [job["id"] for job in newcomer.api("/jobs?experiment=swept&limit=50")["items"]]
    assert sorted(jobs) == sorted(trial["job_id"] for trial in found["trials"])
    assert newcomer.tp("sweep", "ls").out.count(sweep) == 1
