"""`tp eval` and `tp bench …` against a scripted console: what is sent, what is refused before that, and what is shown."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from tests.tuneplane.cli.conftest import Tp, tree
from tests.tuneplane.cli.scripted_console import API, RUN, ScriptedConsole
from tests.tuneplane.client.scripted_server import as_json, problem
from tuneplane.contract.jobspec import JobSpec

OTHER = "06h2h3p9mnm8e4b2"
CPU = ("--profile", "cpu")


def figure(value: Any, stderr: float | None = 0.02, **more: Any) -> dict[str, Any]:
    low, high = (None, None) if stderr is None else (value - 0.04, value + 0.04)
    return {
        "name": "acc", "filter": "", "value": value, "stderr": stderr, "low": low, "high": high, "higher_is_better": True, **more,
    }  # fmt: skip


def evaluation(**changes: Any) -> dict[str, Any]:
    return {
        "run": RUN, "attempt": 1, "owner": "ann", "project": "demo", "experiment": "evaluation", "display_name": "general",
        "recipe": "evalkit/benchmark",
        "model": {
            "ref": f"run/{OTHER}/checkpoint", "run": OTHER, "step": 400, "name": "/out/checkpoint-400", "revision": None,
            "parameters": 596_000_000, "chat_template": True,
        },
        "runner": "lm-eval", "task_count": 5, "score": 0.5,
        "heads": [{"task": "arc", "n": 100, **figure(0.5)}, {"task": "ppl", "n": 100, **figure("NaN", None)}], "problem": None,
        "created_at": "2026-01-31T12:00:00Z", "settings": {"limit": 100, "apply_chat_template": True},
        "versions": {"lm_eval": "0.4.13"}, "confidence": 0.95, "seconds": 61.2,
        "tasks": [
            {"task": "arc", "pack": "arc", "group": False, "version": "1.0", "n": 100, "total": 1172, "num_fewshot": 25, "notes": [],
             "figures": [figure(0.5), figure(0.55, 0.01, name="acc_norm"), figure(12, None, higher_is_better=False, filter="strict")]},
            {"task": "judge", "pack": None, "group": False, "version": None, "n": 16, "total": 16, "num_fewshot": None,
             "notes": ["judge: tiny-judge"], "figures": [figure(0.0, 0.0)]},
        ],
        **changes,
    }  # fmt: skip


def cell(
    value: Any = 0.5, difference: dict[str, Any] | None = None, mismatches: Any = (), n: int = 100
) -> dict[str, Any]:
    return {
        "value": value, "stderr": 0.02, "low": None, "high": None, "n": n, "difference": difference,
        "mismatches": [{"setting": "version", "base": "1", "other": "2", "text": text} for text in mismatches],
    }  # fmt: skip


def apart(delta: float, significant: bool | None, *, better: bool | None = True, few: bool = False) -> dict[str, Any]:
    known = significant is not None
    return {
        "delta": delta, "low": delta - 0.05 if known else None, "high": delta + 0.05 if known else None,
        "significant": significant, "better": better, "few": few,
    }  # fmt: skip


@pytest.fixture
def ready(signed_in: ScriptedConsole) -> ScriptedConsole:
    """A console with a run to evaluate and a report to show; it takes packages."""
    signed_in.expect_packages()
    signed_in.add_job(OTHER, project="trained", display_name="sft of ann")
    signed_in.on(RUN, "/evaluation", lambda _request: as_json(evaluation()))
    signed_in.server.answers[f"{API}/evaluations"] = lambda _request: as_json(
        {
            "items": [evaluation(), evaluation(run=OTHER, score=None, problem={"code": "not-json", "text": "no JSON"})],
            "next_cursor": None,
        }
    )
    return signed_in


def sent(console: ScriptedConsole) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The one JobSpec that was submitted, and the files of its package."""
    [(_key, spec)] = console.submitted
    content = gzip.decompress(console.packages[spec["provenance"]["package_digest"]])
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        files = {item.name: file.read() for item in archive if (file := archive.extractfile(item)) is not None}
    JobSpec.model_validate(spec)
    return spec, files


def test_a_checkpoint_is_evaluated_without_an_experiment(tp: Tp, ready: ScriptedConsole) -> None:
    answer = tp("eval", OTHER[:14], "--suite", "smoke", "--step", "400", "--limit", "10", "--shots", "2", *CPU)
    assert answer.out == f"{RUN}\n"
    spec, files = sent(ready)
    assert spec["spec"]["recipe"]["name"] == "evalkit/benchmark"
    assert spec["spec"]["model"] == {"base": f"run/{OTHER}/checkpoint@step=400"}
    assert spec["metadata"] == {"name": "evaluation", "project": "trained", "display_name": "smoke · sft of ann · 400"}
    assert spec["spec"]["config"] == {
        "runner": "lm-eval", "packs": [], "tasks": ["arithmetic_sample"], "limit": 10, "num_fewshot": 2,
        "apply_chat_template": False, "allow_code": False,
    }  # fmt: skip
    assert json.loads(files["experiments/evaluation/config.yaml"]) == spec["spec"]["config"]
    assert {"experiments/evaluation/eval.py", "experiments/evaluation/tasks/arithmetic.yaml"} <= set(files)


def test_the_same_evaluation_is_the_same_package(tp: Tp, ready: ScriptedConsole) -> None:
    for _time in range(2):
        tp("eval", "hf:Qwen/Qwen3-0.6B", "--suite", "gsm8k", "--tasks", "piqa, arc_easy", "--chat-template", *CPU)
    (_first, one), (_second, two) = ready.submitted
    assert one == two
    assert len(ready.packages) == 1
    assert one["spec"]["model"] == {"base": "hf:Qwen/Qwen3-0.6B"}
    assert (one["metadata"]["project"], one["spec"]["config"]["packs"]) == ("evaluations", ["gsm8k"])
    assert one["spec"]["config"]["tasks"] == ["piqa", "arc_easy"]
    assert one["spec"]["config"]["apply_chat_template"] is True


def test_a_benchmark_in_a_lab_joins_its_project_and_leaves_the_lab_alone(
    tp: Tp, lab: Path, ready: ScriptedConsole
) -> None:
    before = tree(lab)
    tp("bench", "run", "general,ifeval", "/models/base", *CPU)
    spec, files = sent(ready)
    assert spec["metadata"]["project"] == "demo"
    assert spec["spec"]["config"]["packs"] == ["mmlu", "arc", "hellaswag", "winogrande", "truthfulqa", "ifeval"]
    assert not [name for name in files if name.startswith("experiments/first")]
    assert tree(lab) == before


def test_an_experiment_of_the_lab_says_itself_what_is_measured(tp: Tp, lab: Path, ready: ScriptedConsole) -> None:
    tp("new", "mine", "--method", "evalkit/benchmark")
    tp("eval", OTHER, "--experiment", "mine", "--set", "limit=5", *CPU)
    spec, files = sent(ready)
    assert (spec["metadata"]["name"], spec["metadata"]["project"]) == ("mine", "demo")
    assert (spec["spec"]["hyperparams"], spec["spec"]["model"]) == ({"limit": 5}, {"base": f"run/{OTHER}/checkpoint"})
    assert "experiments/mine/config.yaml" in files


def test_gates_go_with_the_evaluation(tp: Tp, ready: ScriptedConsole) -> None:
    gates = ("--gate", "gsm8k/exact_match/strict-match >= 0.4", "--gate", "validation/score<=1e-1")
    tp("eval", OTHER, "--suite", "gsm8k", *gates, *CPU)
    spec, _files = sent(ready)
    assert spec["spec"]["evaluation"] == {
        "gates": [
            {"metric": "validation/gsm8k/exact_match/strict-match", "min": 0.4},
            {"metric": "validation/score", "max": 0.1},
        ]
    }
    assert "eval" not in spec["spec"]["config"]


@pytest.mark.parametrize("text", ["gsm8k", "gsm8k>0.4", "gsm8k>=", ">=0.4", "a>=b", "a>=nan", "a>=1<=2", "a>=0.4>=0.5"])
def test_what_is_no_gate_is_refused(tp: Tp, ready: ScriptedConsole, text: str) -> None:
    answer = tp("eval", OTHER, "--suite", "smoke", "--gate", text, *CPU, code=3)
    assert "gsm8k/exact_match>=0.4" in answer.err
    assert ready.submitted == []


@pytest.mark.parametrize(("state", "code"), [("passed", 0), ("failed", 1), ("missing", 1)])
def test_a_gate_that_is_not_passed_is_the_exit_code(tp: Tp, ready: ScriptedConsole, state: str, code: int) -> None:
    gates = [
        {"metric": "validation/score", "min": 0.1, "max": 0.9, "state": "passed", "value": 0.5, "certain": None},
        {"metric": "validation/arc/acc", "min": 0.45, "max": None, "state": state, "value": 0.5, "certain": False},
    ]
    ready.on(RUN, "/evaluation", lambda _request: as_json(evaluation(gates=gates)))
    lines = tp("bench", "show", RUN, code=code).out.splitlines()
    assert lines[-2].split() == ["validation/score", "≥", "0.1", "≤", "0.9", "0.5000", "passed"]
    assert lines[-1].startswith("validation/arc/acc")
    assert "within the figure's interval" in lines[-1]
    assert ("not passed" in lines[-1]) is (state != "passed")
    assert tp("bench", "show", RUN, "--json", code=code).json["gates"] == gates


@pytest.mark.parametrize("runner", ["safety", "judge"])
def test_runners_with_questions_of_their_own_are_suites(tp: Tp, ready: ScriptedConsole, runner: str) -> None:
    tp("eval", f"run/{OTHER}/checkpoint@step=8", "--suite", runner, *CPU)
    config = sent(ready)[0]["spec"]["config"]
    assert (config["runner"], config["packs"], config["tasks"]) == (runner, [], [])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((OTHER,), "tp bench suites"),
        ((OTHER, "--suite", "code"), "--allow-code"),
        ((OTHER, "--suite", "smoke", "--limit", "0"), "limit"),
        (("Qwen/Qwen3-0.6B", "--suite", "smoke"), "hf:Qwen/Qwen3-0.6B"),
        (("hf:Qwen/Qwen3-0.6B", "--suite", "smoke", "--step", "3"), "--step"),
        ((f"run/{OTHER}/checkpoint@step=3", "--suite", "smoke", "--step", "3"), "not both"),
        (("zz", "--suite", "smoke"), "no run id"),
        ((OTHER, "--experiment", "mine", "--suite", "smoke"), "config.yaml"),
        ((OTHER, "--experiment", "mine", "--gate", "a>=1"), "config.yaml"),
        (("--suite", "smoke"), "RUN|MODEL"),
    ],
)
def test_a_wrong_question_is_a_usage_error(
    tp: Tp, ready: ScriptedConsole, arguments: tuple[str, ...], said: str
) -> None:
    answer = tp("eval", *arguments, *CPU, code=2)
    assert said in answer.err
    assert ready.submitted == []


@pytest.mark.parametrize(
    ("suites", "code", "said"),
    [
        (("generl",), "param-choice", "general"),
        (("gsm-8k",), "param-choice", "gsm8k"),
        (("zzzz",), "param-choice", "tp bench suites"),
        (("smoke", "safety"), "param-choice", "one after the other"),
        (("safety", "judge"), "param-choice", "one after the other"),
    ],
)
def test_a_suite_that_there_is_not_is_refused_with_the_nearest(
    tp: Tp, ready: ScriptedConsole, suites: tuple[str, ...], code: str, said: str
) -> None:
    options = [part for suite in suites for part in ("--suite", suite)]
    answer = tp("eval", OTHER, *options, *CPU, "--json", code=3).problem
    assert answer["code"] == code
    assert said in answer["hint"]
    assert ready.submitted == []


def test_what_admission_refuses_is_shown(tp: Tp, ready: ScriptedConsole) -> None:
    ready.refusals = [
        {"code": "model-missing", "message": "no complete checkpoint", "hint": "", "field": "spec.model.base"}
    ]
    answer = tp("eval", OTHER, "--suite", "smoke", *CPU, code=3)
    assert "no complete checkpoint" in answer.err
    assert ready.packages == {}


def test_a_dry_run_changes_nothing(tp: Tp, ready: ScriptedConsole) -> None:
    found = tp("bench", "run", "smoke", OTHER, *CPU, "--dry-run", "--json").json
    assert found["jobspec"]["spec"]["model"] == {"base": f"run/{OTHER}/checkpoint"}
    assert (ready.submitted, ready.packages) == ([], {})


def test_who_waits_is_shown_the_report(tp: Tp, ready: ScriptedConsole) -> None:
    ready.add_job()
    answer = tp("eval", OTHER, "--suite", "smoke", *CPU, "--wait")
    assert "0.5000 ± 0.0392" in answer.out
    assert tp("eval", OTHER, "--suite", "smoke", *CPU, "--wait", "--json").json["score"] == 0.5


def test_who_waits_for_a_job_that_fails_gets_its_exit_code(tp: Tp, ready: ScriptedConsole) -> None:
    ready.add_job(phase="failed", reason={"code": "user-error", "class": "user", "text": "it broke"})
    answer = tp("eval", OTHER, "--suite", "smoke", *CPU, "--wait", code=1)
    assert "it broke" in answer.out + answer.err


def test_show_has_each_figure_with_its_interval(tp: Tp, ready: ScriptedConsole) -> None:
    answer = tp("bench", "show", RUN)
    lines = answer.out.splitlines()
    assert any(line.split()[:2] == ["model", "run"] and "step 400" in line for line in lines)
    assert any("arc" in line and "0.5000 ± 0.0392" in line and "100/1172" in line and "25" in line for line in lines)
    assert any(
        "acc, strict" in line and "12.0000" in line and "±" not in line and "less is better" in line for line in lines
    )
    assert any("0.0000 ± 0.0000" in line and "judge: tiny-judge" in line for line in lines)
    assert "596 M" in answer.out
    assert "95 %" in answer.err
    assert tp("bench", "show", RUN, "--json").json == evaluation()


def test_a_report_that_cannot_be_used_fails_and_says_why(tp: Tp, ready: ScriptedConsole) -> None:
    broken = {"code": "not-json", "text": "it is cut off", "hint": "evaluate again"}
    ready.on(RUN, "/evaluation", lambda _request: as_json(evaluation(problem=broken, tasks=[], score=None)))
    answer = tp("bench", "show", RUN, code=1)
    assert answer.out == ""
    assert "it is cut off" in answer.err
    assert "evaluate again" in answer.err
    assert tp("bench", "show", RUN, "--json", code=1).json["problem"]["code"] == "not-json"


def test_a_run_without_a_report_is_not_found(tp: Tp, ready: ScriptedConsole) -> None:
    ready.on(OTHER, "/evaluation", lambda _request: problem(404, "not-found", "run has no evaluation report"))
    assert "no evaluation report" in tp("bench", "show", OTHER, code=1).err


@pytest.mark.parametrize(
    ("model", "shown"),
    [
        ({"ref": "hf:a/b"}, "hf:a/b"),
        ({"name": "/data/own-model"}, "/data/own-model"),
        ({"name": "/root/attempts/1/out/tiny-model"}, "the template's tiny model"),
        ({"run": OTHER, "ref": f"run/{OTHER}/model"}, f"run {OTHER}"),
    ],
)
def test_the_model_is_named_as_it_was_asked_for(
    tp: Tp, ready: ScriptedConsole, model: dict[str, Any], shown: str
) -> None:
    named = {"ref": None, "run": None, "step": None, "name": None, **model}
    ready.on(RUN, "/evaluation", lambda _request: as_json(evaluation(model=named)))
    line = next(line for line in tp("bench", "show", RUN).out.splitlines() if line.startswith("model"))
    assert line.split(maxsplit=1)[1] == shown


def test_ls_shows_model_score_and_tasks(tp: Tp, lab: Path, ready: ScriptedConsole) -> None:
    first, second = tp("bench", "ls", "--model", OTHER).out.splitlines()[1:]
    assert first.startswith(RUN)
    assert "step 400" in first
    assert "arc 0.5000, ppl NaN, 3 more" in first
    assert second.endswith("no JSON")
    assert ready.server.seen[-1].query == {"project": ["demo"], "model": [OTHER], "limit": ["20"]}
    tp("bench", "ls", "--all")
    assert "project" not in ready.server.seen[-1].query
    assert len(tp("bench", "ls", "--json").json["items"]) == 2


def test_compare_marks_what_is_beyond_chance_and_says_what_is_not_comparable(tp: Tp, ready: ScriptedConsole) -> None:
    rows = [
        ("arc", cell(0.6, apart(0.1, True))),
        ("arc-hard", cell(0.4, apart(-0.1, True, better=False))),
        ("piqa", cell(0.51, apart(0.01, False))),
        ("tiny", cell(0.9, apart(0.4, True, few=True), n=8)),
        ("bleu", cell(3.0, apart(2.5, None))),
        ("mmlu", cell(0.6, None, ["other version of the task (1, 2)"])),
        ("bbh", cell(0.6, None, ["other version of the task (1, 2)"])),
        ("gsm8k", cell(None)),
    ]
    ready.server.answers[f"{API}/evaluations/compare"] = lambda _request: as_json(
        {
            "confidence": 0.95,
            "runs": [evaluation(), evaluation(run=OTHER)],
            "rows": [
                {"task": name, "name": "acc", "filter": "", "higher_is_better": True, "cells": [cell(), other]}
                for name, other in rows
            ],
        }
    )
    answer = tp("bench", "compare", RUN, OTHER)
    lines = {line.split()[0]: line for line in answer.out.splitlines() if line}
    assert RUN in lines["A"]
    assert OTHER in lines["B"]
    assert "+0.1000 ± 0.0500" in lines["arc"]
    assert lines["arc"].endswith("* better")
    assert lines["arc-hard"].endswith("* worse")
    assert lines["piqa"].endswith("± 0.0500")
    assert lines["tiny"].endswith("*? better")
    assert lines["bleu"].endswith("+2.5000")
    assert lines["mmlu"].endswith("(1)")
    assert lines["bbh"].endswith("(1)")
    assert lines["gsm8k"].endswith("-")
    assert "(1) not compared: other version of the task (1, 2)" in answer.err
    assert "fewer than 30 rows" in answer.err
    assert ready.server.seen[-1].query["run"] == [RUN, OTHER]
    assert tp("bench", "compare", RUN, OTHER, "--json").json["rows"][0]["task"] == "arc"


@pytest.mark.parametrize("runs", [(), (RUN,), (RUN,) * 11])
def test_a_comparison_needs_two_to_ten_runs(tp: Tp, ready: ScriptedConsole, runs: tuple[str, ...]) -> None:
    assert "2 to 10" in tp("bench", "compare", *runs, code=2).err


def test_suites_need_no_console(tp: Tp) -> None:
    assert "arithmetic_sample" in tp("bench", "suites").out
    found = tp("bench", "suites", "--json").json
    assert {pack for suite in found["suites"] for pack in suite["packs"]} <= set(found["packs"])
    assert "general" in {suite["name"] for suite in found["suites"]}


def test_adapters_are_evaluated_over_the_base_model_of_their_run(tp: Tp, ready: ScriptedConsole) -> None:
    ready.add_job(OTHER, spec={"spec": {"model": {"base": "hf:Qwen/Qwen3-0.6B"}}})
    found: list[dict[str, Any]] = []
    artifacts = {"files": found, "checkpoints": [], "out_dir": None, "truncated": False}
    ready.on(OTHER, "/artifacts", lambda _request: as_json(artifacts))
    tp("eval", OTHER, "--suite", "smoke", *CPU)
    found.append({"attempt": 1, "path": "checkpoints/checkpoint-4/adapter_config.json", "size": 9, "sha256": None})
    tp("eval", OTHER, "--suite", "smoke", *CPU)
    assert [spec["spec"]["model"] for _key, spec in ready.submitted] == [
        {"base": f"run/{OTHER}/checkpoint"},
        {"base": "hf:Qwen/Qwen3-0.6B", "init_from": f"run/{OTHER}/checkpoint"},
    ]
