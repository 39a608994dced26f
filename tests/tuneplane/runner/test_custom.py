"""custom/custom in the real runner: train.sh is started as it is, nothing else is, and both observability modes do what they say."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.tuneplane.runner.conftest import MakeJob
from tests.tuneplane.runner.ingest_server import IngestServer

# What a platform that probes would ask: interpreters, launchers, cards, packages.
PROBED = (
    "python", "python3", "pip", "uv", "conda", "nvidia-smi", "rocm-smi", "torchrun", "accelerate", "ray", "srun",
    "mpirun", "git", "bash",
)  # fmt: skip
SPY = '#!/bin/sh\necho "$(basename "$0")" >> "{log}"\n'
SCRIPT = """
{
  echo "script $0"
  echo "arguments $#"
  echo "directory $(pwd)"
} > "$TUNEPLANE_OUT_DIR/seen"
ls -A "$TUNEPLANE_WORK_DIR" > "$TUNEPLANE_OUT_DIR/work"
ls -A . > "$TUNEPLANE_OUT_DIR/experiment"
cat /proc/$$/environ > "$TUNEPLANE_OUT_DIR/env"
echo '{"step": 1, "loss": 0.5}' > "$TUNEPLANE_OUT_DIR/metrics.jsonl"
echo "step 2 loss 0.25"
"""
HINTS = [{"kind": "jsonl", "path": "metrics.jsonl"}]


def change_to(mode: str) -> Any:
    def change(capsule: dict[str, Any]) -> None:
        framework = capsule["jobspec"]["spec"]["framework"]
        framework["observability"] = mode
        if mode == "external":
            framework["observability_url"] = "https://curves.example.org/run"
        capsule["jobspec"]["spec"]["config"] = {"learning_rate": 0.5}
        capsule["recipe"]["adapter_options"]["log_hints"] = HINTS

    return change


def run_with_spies(make_job: MakeJob, tmp_path: Path, mode: str) -> tuple[Path, Path]:
    """The out dir, and the file with the name of every probed program that anybody started."""
    spies, log = tmp_path / "spies", tmp_path / "started"
    spies.mkdir()
    log.touch()
    for name in PROBED:
        (spies / name).write_text(SPY.format(log=log))
        (spies / name).chmod(0o755)
    files = {"config.yaml": "learning_rate: 0.5\n", "train.py": "raise SystemExit('nobody asked for this')\n"}
    job = make_job(SCRIPT, files=files, change=change_to(mode))
    done = job.run(PATH=f"{spies}:{os.environ['PATH']}")
    assert done.returncode == 0, done.stderr
    assert job.outcome()["result"] == "succeeded"
    return job.out, log


@pytest.mark.parametrize("mode", ["platform", "external"])
def test_the_script_is_started_and_nothing_is_probed(
    make_job: MakeJob, console: IngestServer, tmp_path: Path, mode: str
) -> None:
    out, log = run_with_spies(make_job, tmp_path, mode)
    assert log.read_text() == "", "train.sh starts none of these"
    seen = dict(line.split(" ", 1) for line in (out / "seen").read_text().splitlines())
    assert (seen["script"], seen["arguments"]) == ("train.sh", "0")
    assert seen["directory"].endswith("/lab/experiments/exp")
    assert (out / "experiment").read_text().split() == ["config.yaml", "train.py", "train.sh"]
    started = next(record for record in console.records("event") if record["event"] == "trainer-started")
    assert started["data"]["command"] == ["sh", "train.sh"]


@pytest.mark.parametrize(("mode", "library"), [("platform", True), ("external", False)])
def test_the_reporter_is_there_when_the_platform_watches_and_only_then(
    make_job: MakeJob, tmp_path: Path, mode: str, library: bool
) -> None:
    out, _log = run_with_spies(make_job, tmp_path, mode)
    env = dict(entry.split("=", 1) for entry in (out / "env").read_text().split("\0") if entry)
    assert ("PYTHONPATH" in env) == library
    assert ("tuneplane_lib" in (out / "work").read_text().split()) == library
    assert env["PYTHONUNBUFFERED"] == "1"
    for name in ("CUDA_VISIBLE_DEVICES", "OMP_NUM_THREADS", "RANK", "WORLD_SIZE", "MASTER_ADDR"):
        assert name not in env, "the script decides"


@pytest.mark.parametrize("mode", ["platform", "external"])
def test_log_lines_and_written_metrics_arrive_in_both_modes(
    make_job: MakeJob, console: IngestServer, tmp_path: Path, mode: str
) -> None:
    """External curves are somewhere else; the log, the outcome and what is written to metrics.jsonl are here all the same."""
    run_with_spies(make_job, tmp_path, mode)
    assert console.text("stdout") == b"step 2 loss 0.25\n"
    series = [record["series"] for record in console.records("metric")]
    assert [one["train/loss"]["value"] for one in series if "train/loss" in one] == [[0.5]]


def test_the_judge_of_the_console_reaches_the_script_and_its_token_no_log(
    make_job: MakeJob, console: IngestServer
) -> None:
    """Nobody's own variables can stand in for them."""
    job = make_job(
        'echo "$TUNEPLANE_JOB_JUDGE_ENDPOINT"; echo "$TUNEPLANE_JOB_JUDGE_TOKEN" | tee $TUNEPLANE_OUT_DIR/seen'
    )
    given = {
        "TUNEPLANE_JOB_JUDGE_ENDPOINT": "https://judge.example.org/v1",
        "TUNEPLANE_JOB_JUDGE_TOKEN": "judge-token-1",
    }
    own = {f"TUNEPLANE_ENV_{name}": "https://elsewhere.example.org" for name in given}
    assert job.run(90.0, **given, **own).returncode == 0
    assert (job.out / "seen").read_text() == "judge-token-1\n"
    printed = console.text("stdout").decode()
    assert "https://judge.example.org/v1" in printed
    assert "judge-token-1" not in printed


def test_without_its_script_nothing_is_run_in_its_place(make_job: MakeJob, tmp_path: Path) -> None:
    """`train.py` and another script lie beside; the job says what is missing."""

    def change(capsule: dict[str, Any]) -> None:
        capsule["recipe"]["entrypoint"]["value"] = "missing.sh"

    job = make_job("touch $TUNEPLANE_OUT_DIR/ran", files={"train.py": "open('ran', 'w')"}, change=change)
    assert job.run().returncode != 0
    outcome = json.loads((job.out / "outcome.json").read_text())
    assert outcome["result"] == "failed"
    assert outcome["reason"] == "entrypoint-missing"
    assert "the experiment has no missing.sh" in outcome["detail"]
    assert not (job.out / "ran").exists()
