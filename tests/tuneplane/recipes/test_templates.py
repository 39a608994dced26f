"""The templates as files: they validate, they share what they should, their samples are sound; custom's really trains."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tuneplane.lab.config import load_config
from tuneplane.recipes import index
from tuneplane.recipes.new import write_experiment
from tuneplane.recipes.validate import check_config
from tuneplane.runner.library import write_library

TRL = [method for method in index.methods() if method.startswith("trl/")]
COLUMNS = {
    "trl/sft": {"messages"},
    "trl/dpo": {"prompt", "chosen", "rejected"},
    "trl/kto": {"prompt", "completion", "label"},
    "trl/rm": {"prompt", "chosen", "rejected"},
    "trl/grpo": {"prompt", "answer"},
    "trl/grpo-judge": {"prompt", "reference"},
    "trl/rloo": {"prompt", "answer"},
    "trl/opsd": {"prompt", "solution"},
}


def template(method: str) -> Path:
    return index.CATALOG / method / "template"


@pytest.mark.parametrize("method", index.methods())
def test_an_untouched_experiment_validates(tmp_path: Path, method: str) -> None:
    (tmp_path / "tuneplane.yaml").write_text("apiVersion: tuneplane/project/v1\nname: lab\n")
    entry = index.entry(method)
    config = load_config(write_experiment(tmp_path, "first", entry))
    assert check_config(entry, config.values, config.positions) == []


@pytest.mark.parametrize("method", TRL)
def test_the_first_run_is_short_saves_midway_and_is_seeded(tmp_path: Path, method: str) -> None:
    config = load_config(write_experiment(tmp_path, "first", index.entry(method))).values
    assert (config["max_steps"], config["save_steps"], config["logging_steps"], config["seed"]) == (8, 4, 1, 42)


@pytest.mark.parametrize("name", ["base_model.py", "job_data.py"])
def test_the_templates_share_their_common_files_byte_for_byte(name: str) -> None:
    assert len({(template(method) / name).read_bytes() for method in TRL}) == 1


@pytest.mark.parametrize("method", index.methods())
def test_the_scripts_are_readable_by_the_runtimes_python(method: str) -> None:
    version = index.entry(method)["manifest"]["runtime"]["versions"]
    wanted = next(iter(version.values())).get("python", "3.9")
    feature = tuple(int(part) for part in wanted.split("."))
    for path in template(method).glob("*.py"):
        ast.parse(path.read_text(encoding="utf-8"), feature_version=(feature[0], feature[1]))
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 120


@pytest.mark.parametrize("method", TRL)
def test_the_sample_rows_have_the_columns_of_the_method_and_none_is_there_twice(method: str) -> None:
    lines: list[str] = []
    for name in ("train.jsonl", "validation.jsonl"):
        rows = (template(method) / "data" / name).read_text(encoding="utf-8").splitlines()
        assert 16 <= len(rows) <= 200
        assert all(set(json.loads(row)) == COLUMNS[method] for row in rows)
        lines += rows
    assert len(set(lines)) == len(lines)


def run_custom(experiment: Path, out: Path, report_dir: Path | None = None, **env: str) -> list[str]:
    environment = {"PATH": os.environ["PATH"], "TUNEPLANE_OUT_DIR": str(out), **env}
    if report_dir is not None:
        write_library(str(report_dir / "library"))
        (report_dir / "report").mkdir()
        environment |= {
            "PYTHONPATH": str(report_dir / "library"),
            "TUNEPLANE_REPORT_DIR": str(report_dir / "report"),
        }
    bin_dir = out / "bin"
    bin_dir.mkdir(parents=True)
    (bin_dir / "python3").symlink_to(sys.executable)
    environment["PATH"] = f"{bin_dir}:{environment['PATH']}"
    done = subprocess.run(
        ["sh", "train.sh"], cwd=experiment, env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    return [line for line in done.stdout.splitlines() if line.startswith("step ")]


def reported(folder: Path) -> dict[str, list[list[Any]]]:
    """Metric name -> [[step, value], …] from the report files."""
    points: dict[str, list[list[Any]]] = {}
    for path in sorted((folder / "report").glob("*.ndjson")):
        for line in path.read_text(encoding="utf-8").splitlines():
            for name, columns in json.loads(line).get("series", {}).items():
                points.setdefault(name, []).extend(map(list, zip(columns["step"], columns["value"], strict=True)))
    return points


def test_the_custom_template_trains_saves_and_resumes(tmp_path: Path) -> None:
    experiment = write_experiment(tmp_path, "first", index.entry("custom/custom"))
    whole = run_custom(experiment, tmp_path / "whole")
    losses = [float(line.split()[3]) for line in whole]
    assert len(losses) == 40
    assert sum(losses[-5:]) < sum(losses[:5]) / 2
    half = tmp_path / "whole/checkpoints/checkpoint-20"
    assert (half / "COMPLETE").exists()
    resumed = run_custom(experiment, tmp_path / "resumed", TUNEPLANE_RESUME_FROM=str(half))
    assert resumed == whole[20:]


def test_the_custom_template_reports_when_it_can(tmp_path: Path) -> None:
    experiment = write_experiment(tmp_path, "first", index.entry("custom/custom"))
    lines = run_custom(experiment, tmp_path / "out", tmp_path / "reporting")
    curve = reported(tmp_path / "reporting")["train/loss"]
    assert [f"step {step} loss {value:.4f}" for step, value in curve] == [line.split(" accuracy")[0] for line in lines]
