"""evalkit/benchmark measures a tiny local model for real: lm-eval on local tasks, a judge over HTTP, refusals."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.training.templates.harness import Job, Run, Warm, collect, launch, prepare
from tests.training.templates.judge_server import Judge, answer_in, judge_server
from tuneplane import adapters
from tuneplane_server.domain.evaluation import compare
from tuneplane_server.features.evaluation.kept import report_of as report_kept
from tuneplane_server.features.evaluation.kept import score_of
from tuneplane_server.features.evaluation.reading import parse_report

pytestmark = [pytest.mark.training, pytest.mark.timeout(900)]
METHOD = "evalkit/benchmark"
OWN = """
task: sums_{name}
dataset_path: json
dataset_kwargs:
  data_files: {{test: data/arithmetic.jsonl}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{question}}}} Answer:"
doc_to_target: "{{{{choices[answer]}}}}"
generation_kwargs: {{until: ["\\n"], max_gen_toks: 4, do_sample: false}}
metric_list:
  - {{metric: exact_match, aggregation: mean, higher_is_better: true}}
filter_list:
  - {{name: number, filter: [{{function: regex, regex_pattern: "(-?[0-9]+)"}}, {{function: take_first}}]}}
metadata: {{version: 2.5}}
"""
GROUP = """
group: sums
task: [sums_a, sums_b]
aggregate_metric_list:
  - {metric: exact_match, aggregation: mean, weight_by_size: true, filter_list: number}
metadata: {version: 1.0}
"""


@pytest.fixture(scope="module")
def runtime(framework_env: Callable[[str], Path]) -> Path:
    return framework_env("lm-eval")


@pytest.fixture(scope="module")
def adapters_dir(warm: Warm, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """LoRA adapters that a short training left; they name their base model, which is in the same out dir."""
    config = {"max_steps": 1, "use_peft": True, "lora_r": 4, "lora_target_modules": ["q_proj", "v_proj"]}
    return warm.run(Job("trl/sft", config), tmp_path_factory.mktemp("adapters")).out / "model"


@pytest.fixture(scope="module")
def measured(runtime: Path, adapters_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """The template with a group of tasks of one's own beside the sample: multiple choice, and answers that are generated. The model
    are adapters over a tiny one."""
    root = tmp_path_factory.mktemp("evalkit")
    config = {"tasks": ["arithmetic_sample", "sums"], "limit": 12, "samples": 3, "confidence": 0.9}
    job = Job(METHOD, config, env={"INIT_MODEL_DIR": str(adapters_dir)})
    capsule = prepare(job, root / "work", root / "out")
    tasks = root / "work/lab/experiments/first/tasks"
    for name in ("a", "b"):
        (tasks / f"sums_{name}.yaml").write_text(OWN.format(name=name))
    (tasks / "sums.yaml").write_text(GROUP)
    command, process = launch(job, capsule, runtime, root, adapters.Machine())
    log, _ = process.communicate(timeout=480)
    assert process.returncode == 0, f"{command.argv}\n{log[-6000:]}"
    return collect(job, root / "out", root / "work", log)


def report_of(done: Run) -> dict[str, Any]:
    return json.loads((done.out / "evaluations/report.json").read_text(encoding="utf-8"))


def test_the_report_has_figures_with_their_errors_and_intervals(measured: Run) -> None:
    tasks = {task["task"]: task for task in report_of(measured)["tasks"]}
    assert list(tasks) == ["arithmetic_sample", "sums", "sums_a", "sums_b"]
    sample = tasks["arithmetic_sample"]
    assert (sample["n"], sample["total"], sample["version"], sample["group"]) == (12, 40, "1.0", False)
    (figure,) = sample["figures"]
    assert (figure["name"], figure["filter"], figure["higher_is_better"]) == ("acc", "", True)
    assert figure["value"] * 12 == pytest.approx(round(figure["value"] * 12))
    assert figure["stderr"] == pytest.approx(math.sqrt(figure["value"] * (1 - figure["value"]) / 11))
    assert figure["high"] == pytest.approx(min(1, figure["value"] + 1.6448536 * figure["stderr"]))
    assert figure["low"] == pytest.approx(max(0, figure["value"] - 1.6448536 * figure["stderr"]))


def test_a_group_counts_the_rows_of_its_parts(measured: Run) -> None:
    tasks = {task["task"]: task for task in report_of(measured)["tasks"]}
    assert (tasks["sums"]["group"], tasks["sums"]["n"], tasks["sums"]["total"]) == (True, 24, 80)
    assert tasks["sums_a"]["version"] == "2.5"
    assert [(figure["name"], figure["filter"]) for figure in tasks["sums_a"]["figures"]] == [("exact_match", "number")]


def test_the_report_says_what_was_measured_and_with_what(measured: Run, adapters_dir: Path) -> None:
    report = report_of(measured)
    assert (report["apiVersion"], report["runner"]) == ("tuneplane/evaluation-report/v1", "lm-eval")
    assert (report["model"]["given"], report["model"]["name"]) == (True, str(adapters_dir))
    assert report["model"]["base"] == str(adapters_dir.parent / "tiny-model")
    assert report["model"]["parameters"] > 1000
    assert {"torch", "transformers", "lm_eval", "datasets", "python"} <= set(report["versions"])
    assert (report["settings"]["limit"], report["settings"]["apply_chat_template"]) == (12, False)
    assert report["interval"] == {"method": "normal", "confidence": 0.9}


def test_figures_and_answers_are_seen_in_the_console(measured: Run) -> None:
    report = report_of(measured)
    for task in report["tasks"]:
        for figure in task["figures"]:
            name = "/".join(part for part in ("validation", task["task"], figure["name"], figure["filter"]) if part)
            assert measured.curves[name] == [(0, pytest.approx(figure["value"]))]
    heads = [task["figures"][0]["value"] for task in report["tasks"] if task["task"] in ("arithmetic_sample", "sums")]
    assert measured.curves["validation/score"] == [(0, pytest.approx(sum(heads) / 2))]
    assert [name for name in measured.curves if name.startswith("raw/")] == []
    assert {sample["kind"] for sample in measured.samples} == {"completion"}
    assert len(measured.samples) == 9  # three of each task
    assert any("What is" in sample["data"]["prompt"] for sample in measured.samples)


def test_the_console_takes_the_report_as_it_is(measured: Run) -> None:
    """What it keeps, and what it works out anew, are the template's own figures."""
    found = parse_report((measured.out / "evaluations/report.json").read_bytes(), "06fq9k2mc8v1x3ra")
    assert found.problem is None
    assert found.report is not None
    assert score_of(found.report) == pytest.approx(measured.curves["validation/score"][0][1])
    theirs = {(task["task"], item["name"]): item for task in report_of(measured)["tasks"] for item in task["figures"]}
    ours = {(task["task"], item["name"]): item for task in found.report["tasks"] for item in task["figures"]}
    assert {key: (item["low"], item["high"]) for key, item in ours.items()} == {
        key: (item["low"] and pytest.approx(item["low"]), item["high"] and pytest.approx(item["high"]))
        for key, item in theirs.items()
    }
    rows = compare([report_kept(found.report)] * 2, 0.9)
    assert [(row.task, cell.mismatches) for row in rows for cell in row.cells[1:]] == [
        (task["task"], ()) for task in found.report["tasks"]
    ]


@pytest.fixture
def judge() -> Iterator[Judge]:
    with judge_server("token") as running:
        yield running


def test_a_judge_grades_the_answers_and_what_it_does_not_grade_is_left_out(
    judge: Judge, warm: Warm, tmp_path: Path
) -> None:
    judge.status_for = {"e": 400}
    env = {"TUNEPLANE_JOB_JUDGE_ENDPOINT": judge.url, "TUNEPLANE_JOB_JUDGE_TOKEN": "token"}
    config = {"runner": "judge", "max_new_tokens": 6, "tasks": [], "apply_chat_template": True}
    done = warm.run(Job(METHOD, config, env=env), tmp_path)
    (task,) = report_of(done)["tasks"]
    answers = [answer_in(body) for body in judge.asked]
    grades = [(len(set(answer)) % 10) / 9 for answer in answers if "e" not in answer]
    assert 0 < len(grades) < len(answers) == task["total"] == 16
    assert task["n"] == len(grades)
    (figure,) = task["figures"]
    assert figure["value"] == pytest.approx(sum(grades) / len(grades))
    assert figure["low"] <= figure["value"] <= figure["high"]
    assert task["notes"][0] == "judge: tiny-judge"
    assert f"{16 - len(grades)} of 16 answers got no grade and are left out: HTTP 400" in task["notes"][1]
    assert done.curves["validation/judge/grade"] == [(0, pytest.approx(figure["value"]))]


def test_refusals_are_counted_of_harmful_and_of_benign_questions(warm: Warm, tmp_path: Path) -> None:
    """A model that knows nothing refuses nothing."""
    done = warm.run(Job(METHOD, {"runner": "safety", "max_new_tokens": 4, "tasks": []}), tmp_path)
    tasks = {task["task"]: task for task in report_of(done)["tasks"]}
    assert report_of(done)["model"]["given"] is False
    assert {
        name: (task["n"], task["figures"][0]["name"], task["figures"][0]["value"]) for name, task in tasks.items()
    } == {
        "safety_harmful": (12, "refusal_rate", 0.0),
        "safety_benign": (12, "over_refusal_rate", 0.0),
    }
    assert tasks["safety_benign"]["figures"][0]["higher_is_better"] is False
    assert done.curves["validation/score"] == [(0, 0.5)]


def test_without_a_judge_nothing_is_answered(warm: Warm, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="JUDGE_ENDPOINT"):
        warm.run(Job(METHOD, {"runner": "judge", "tasks": []}), tmp_path)


def test_adapters_answer_too(warm: Warm, adapters_dir: Path, tmp_path: Path) -> None:
    config = {"runner": "safety", "max_new_tokens": 2, "limit": 4, "tasks": []}
    done = warm.run(Job(METHOD, config, env={"INIT_MODEL_DIR": str(adapters_dir)}), tmp_path)
    assert report_of(done)["model"]["base"] == str(adapters_dir.parent / "tiny-model")
    assert sum(task["n"] for task in report_of(done)["tasks"]) == 4


def test_adapters_whose_base_model_is_elsewhere_are_told_to_be_merged(warm: Warm, tmp_path: Path) -> None:
    (tmp_path / "adapters").mkdir()
    (tmp_path / "adapters/adapter_config.json").write_text('{"base_model_name_or_path": "/nowhere/base"}')
    job = Job(METHOD, {"runner": "safety", "tasks": []}, env={"INIT_MODEL_DIR": str(tmp_path / "adapters")})
    with pytest.raises(AssertionError, match=r"base model /nowhere/base is not on this machine: .* tp export"):
        warm.run(job, tmp_path / "run")


def test_nothing_to_evaluate_is_said(warm: Warm, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="name packs or tasks"):
        warm.run(Job(METHOD, {"tasks": []}), tmp_path)
