"""`tp sweep …` against a scripted console: what is sent, what is refused before that, and what is shown."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.tuneplane.cli.conftest import Tp, tree
from tests.tuneplane.cli.scripted_console import API, RUN, ScriptedConsole
from tests.tuneplane.client.scripted_server import Reply, Request, as_json, problem

SWEEP = "06h2h3p9mnm8e4sw"
TRIALS = [
    {"number": 0, "state": "succeeded", "params": {"learning_rate": 1e-5}, "job_id": RUN, "phase": "succeeded",
     "value": 0.5, "step": 90, "rungs": [], "reason": None},
    {"number": 1, "state": "succeeded", "params": {"learning_rate": 2e-5}, "job_id": "06h2h3p9mnm8e4b2", "phase": "succeeded",
     "value": 0.25, "step": 90, "rungs": [], "reason": None},
    {"number": 2, "state": "failed", "params": {"learning_rate": 3e-5}, "job_id": "06h2h3p9mnm8e4b3", "phase": "failed",
     "value": None, "step": None, "rungs": [], "reason": {"code": "cuda-oom", "class": "user", "text": "out of GPU memory"}},
    {"number": 3, "state": "submitted", "params": {"learning_rate": 4e-5}, "job_id": "06h2h3p9mnm8e4b4", "phase": "running",
     "value": "NaN", "step": 3, "rungs": [], "reason": None},
]  # fmt: skip
GRID = ("--grid", "learning_rate=1e-5,2e-5", "--grid", "max_steps=10,20", "--profile", "cpu")
SUBMITTED = ("--model", "/models/tiny", "--train-data", "/data/train.jsonl")


def sweep(**changes: Any) -> dict[str, Any]:
    return {
        "id": SWEEP, "owner": "ann", "project": "demo", "experiment": "first", "name": None, "recipe": "trl/sft",
        "method": "grid", "state": "done", "why": None, "objective": {"metric": "validation/loss", "goal": "min"},
        "params": {"learning_rate": {"values": [1e-5, 2e-5, 3e-5, 4e-5]}}, "early_stopping": None, "seed": 0, "total": 4,
        "max_parallel": 4, "counts": {"succeeded": 2, "failed": 1, "submitted": 1},
        "best": {"value": 0.25, "number": 1, "job_id": "06h2h3p9mnm8e4b2"}, "created_at": "2026-01-31T12:00:00Z",
        "ended_at": None, "trials": TRIALS, **changes,
    }  # fmt: skip


@pytest.fixture
def asked(signed_in: ScriptedConsole) -> list[tuple[Any, dict[str, Any]]]:
    """(query or path, body) of what came in; the console admits every sweep."""
    signed_in.expect_packages()
    seen: list[tuple[Any, dict[str, Any]]] = []

    def sweeps(request: Request) -> Reply:
        if request.method == "GET":
            return as_json({"items": [sweep()], "next_cursor": None})
        seen.append((request.query, json.loads(request.body)))
        if "dry_run" in request.query:
            return as_json({"admitted": True, "refusals": [], "total": 4, "max_parallel": 4, "variants": []})
        return as_json(sweep(state="running"), 201)

    answers = signed_in.server.answers
    answers[f"{API}/sweeps"] = sweeps
    answers[f"{API}/sweeps/{SWEEP}"] = lambda _request: as_json(sweep())
    for verb in ("cancel", "resume"):
        answers[f"{API}/sweeps/{SWEEP}/{verb}"] = lambda _request, verb=verb: (
            seen.append((verb, {})),
            as_json(sweep(state="cancelling" if verb == "cancel" else "running"), 202),
        )[1]
    return seen


def test_a_grid_is_sent_with_typed_values_and_one_package(
    tp: Tp, lab: Path, signed_in: ScriptedConsole, asked: list[tuple[Any, dict[str, Any]]]
) -> None:
    before = tree(lab)
    answer = tp("sweep", "first", *GRID, *SUBMITTED, "--max-parallel", "2")
    assert answer.out == f"{SWEEP}\n"
    [body] = [body for query, body in asked if "dry_run" not in query]
    assert body["sweep"] == {
        "method": "grid",
        "params": {"learning_rate": {"values": [1e-5, 2e-5]}, "max_steps": {"values": [10, 20]}},
        "max_parallel": 2,
    }
    assert body["job"]["metadata"]["name"] == "first"
    assert list(signed_in.packages) == [body["job"]["provenance"]["package_digest"]]
    assert tree(lab) == before


def test_ranges_become_random_or_bayesian_searches(tp: Tp, lab: Path, asked: list[tuple[Any, dict[str, Any]]]) -> None:
    tp(
        "sweep", "run", "first", "--asha", "learning_rate=log:1e-6..1e-4", "--asha", "max_steps=10..90",
        "--asha", "env.MODE=a,b", "--trials", "9", "--seed", "7", "--early-stop", "50:4",
        "--objective", "train/loss:min", "--profile", "cpu", *SUBMITTED,
    )  # fmt: skip
    assert asked[-1][1]["sweep"] == {
        "method": "asha",
        "params": {
            "learning_rate": {"min": 1e-6, "max": 1e-4, "log": True, "integer": False},
            "max_steps": {"min": 10, "max": 90, "log": False, "integer": True},
            "env.MODE": {"values": ["a", "b"]},
        },
        "trials": 9,
        "seed": 7,
        "objective": {"metric": "train/loss", "goal": "min"},
        "early_stopping": {"min_steps": 50, "factor": 4},
    }


def test_a_file_of_the_experiment_says_what_varies_and_options_go_before_it(
    tp: Tp, lab: Path, asked: list[tuple[Any, dict[str, Any]]]
) -> None:
    (lab / "experiments/first/sweep.yaml").write_text(
        "method: bayes\nparams:\n  learning_rate: {min: 1e-6, max: 1e-4, log: true}\n  max_steps: [10, 20]\n"
        "trials: 30\nobjective: train/loss:min\n"
    )
    tp("sweep", "first", "--profile", "cpu", "--trials", "5", *SUBMITTED)
    sent = asked[-1][1]["sweep"]
    assert (sent["method"], sent["trials"]) == ("bayes", 5)
    assert sent["params"]["max_steps"] == {"values": [10, 20]}
    assert sent["objective"] == {"metric": "train/loss", "goal": "min"}


def test_everything_wrong_with_a_file_is_said_with_its_line(tp: Tp, lab: Path, signed_in: ScriptedConsole) -> None:
    path = lab / "experiments/first/sweep.yaml"
    path.write_text(
        "methd: grid\nmethod: gird\nparams:\n  learning_rate: []\n  max_steps: {min: 1, most: 3}\ntrials: no\n"
    )
    said = tp("sweep", "first", "--profile", "cpu", *SUBMITTED, "--json", code=3).problem["refusals"]
    assert {item["line"] for item in said} >= {1, 2, 4, 5, 6}
    assert any("did you mean" in item.get("hint", "") for item in said)
    path.write_text(
        "method: grid\nparams:\n  learning_rate: [1e-5, fast]\n  max_step: [1]\n  max_steps: {min: 1, max: 3}\n"
    )
    said = tp("sweep", "first", "--profile", "cpu", *SUBMITTED, "--json", code=3).problem["refusals"]
    assert {(item["code"], item.get("line")) for item in said} >= {
        ("param-type", 3),
        ("param-unknown", 4),
        ("sweep-invalid", 5),
    }
    assert any("max_steps" in item.get("hint", "") for item in said)


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (("--grid", "learning_rate=1e-5,quick"), "param-type", "quick"),
        (("--grid", "learning_rate=-1"), "param-range", "at least"),
        (("--grid", "learning_rat=1e-5"), "param-unknown", "learning_rate"),
        (("--grid", "learning_rate=1e-5,1e-5"), "sweep-invalid", "twice"),
        (("--grid", "learning_rate=1e-6..1e-4"), "sweep-invalid", "range"),
        (("--random", "learning_rate=1e-4..1e-6"), "sweep-invalid", "empty"),
        (("--random", "learning_rate=log:0..1"), "sweep-invalid", "logarithm"),
        (("--random", "max_steps=0.5..3"), "sweep-invalid", "whole numbers"),
        (("--grid", "max_steps=1", "--random", "learning_rate=1..2"), "request-invalid", "do not go together"),
        (("--grid", "learning_rate"), "request-invalid", "name=values"),
        (("--asha", "learning_rate=1..2"), "sweep-invalid", "early stopping"),
        (("--random", "learning_rate=1..2", "--trials", "5000"), "sweep-too-large", "5000"),
        (("--random", "learning_rate=1,2"), "sweep-invalid", "only 2 variants"),
        (("--grid", "learning_rate=1,2", "--trials", "2"), "sweep-invalid", "once"),
        (("--grid", "env.TUNEPLANE_RUN_ID=1"), "env-reserved", "platform"),
        (("--grid", "learning_rate=1", "--objective", "loss"), "request-invalid", "train/loss:min"),
        (("--grid", "learning_rate=1", "--early-stop", "often"), "request-invalid", "number of steps"),
        ((), "request-invalid", "what varies"),
    ],
)
def test_a_wrong_sweep_is_refused_before_anything_is_sent(
    tp: Tp, lab: Path, signed_in: ScriptedConsole, options: tuple[str, ...], code: str, words: str
) -> None:
    answer = tp("sweep", "first", *options, "--profile", "cpu", *SUBMITTED, "--json", code=3)
    assert code in {item["code"] for item in answer.problem["refusals"]}
    assert words in answer.err
    assert not any(request.method == "PUT" for request in signed_in.server.seen)


def test_a_grid_of_ten_thousand_variants_is_refused_with_the_count_and_what_to_do(
    tp: Tp, lab: Path, signed_in: ScriptedConsole
) -> None:
    hundred = ",".join(str(number) for number in range(1, 101))
    answer = tp(
        "sweep", "first", "--grid", f"max_steps={hundred}", "--grid", f"seed={hundred}", "--profile", "cpu", *SUBMITTED,
        code=3,
    )  # fmt: skip
    assert "10000" in answer.err
    assert "1000 trials" in answer.err
    assert "random or bayes" in answer.err


def test_a_dry_run_lists_the_variants_and_sends_nothing(
    tp: Tp, lab: Path, signed_in: ScriptedConsole, asked: list[tuple[Any, dict[str, Any]]]
) -> None:
    answer = tp("sweep", "first", *GRID, *SUBMITTED, "--dry-run")
    assert "1e-05          10" in answer.out
    assert "2e-05          20" in answer.out
    assert "admitted: 4 trials" in answer.out
    assert [query for query, _body in asked] == [{"dry_run": ["true"]}]
    found = tp("sweep", "first", *GRID, *SUBMITTED, "--dry-run", "--json").json
    assert found["variants"][-1] == {"learning_rate": 2e-5, "max_steps": 20}
    assert found["admission"]["admitted"] is True
    assert not signed_in.packages


def test_what_the_console_says_against_a_sweep_is_said_with_the_line(
    tp: Tp, lab: Path, signed_in: ScriptedConsole, asked: list[tuple[Any, dict[str, Any]]]
) -> None:
    (lab / "experiments/first/sweep.yaml").write_text("method: grid\nparams:\n  max_steps: [1, 2]\nmax_parallel: 2\n")
    refusal = {
        "code": "quota-never-fits",
        "message": "the user ann may have 1 jobs, and 2 trials at once want 2",
        "field": "sweep.max_parallel",
    }
    signed_in.server.answers[f"{API}/sweeps"] = lambda _request: problem(
        422, "quota-never-fits", "no", refusals=[refusal]
    )
    said = tp("sweep", "first", "--profile", "cpu", *SUBMITTED, "--json", code=3).problem["refusals"]
    assert [(item["code"], item["line"]) for item in said] == [("quota-never-fits", 4)]


def test_the_table_has_the_best_first_and_says_why_others_failed(
    tp: Tp, asked: list[tuple[Any, dict[str, Any]]]
) -> None:
    text = tp("sweep", "show", SWEEP).out
    rows = text[text.index("TRIAL") :].splitlines()
    assert [row.split()[0] for row in rows[1:]] == ["1", "0", "2", "3"]
    assert "validation/loss" in rows[0]
    assert "out of GPU memory" in text
    assert "best 0.25 (trial 1)" in text
    assert [trial["number"] for trial in tp("sweep", "show", SWEEP[:8], "--top", "1", "--json").json["trials"]] == [1]


def test_sweeps_are_listed_cancelled_and_resumed(tp: Tp, asked: list[tuple[Any, dict[str, Any]]]) -> None:
    assert SWEEP in tp("sweep", "ls").out
    assert tp("sweep", "ls", "--json").json["items"][0]["id"] == SWEEP
    tp("sweep", "cancel", SWEEP[:8], "--yes", code=2)
    tp("sweep", "cancel", SWEEP, "--yes")
    tp("sweep", "resume", SWEEP)
    assert [verb for verb, _body in asked] == ["cancel", "resume"]


def test_waiting_ends_with_the_sweep_and_its_table(
    tp: Tp, lab: Path, signed_in: ScriptedConsole, asked: list[tuple[Any, dict[str, Any]]]
) -> None:
    answer = tp("sweep", "first", *GRID, *SUBMITTED, "--wait")
    assert "done: 3 of 4 trials over" in answer.err
    assert "TRIAL" in answer.out
    signed_in.server.answers[f"{API}/sweeps/{SWEEP}"] = lambda _request: as_json(sweep(state="stopped"))
    tp("sweep", "first", *GRID, *SUBMITTED, "--wait", code=1)
