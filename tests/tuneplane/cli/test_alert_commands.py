"""`tp alert …`, `tp webhook …` and the figures of machines: what is sent, and what is shown. The real console is met in tests/e2e."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.tuneplane.cli.conftest import Tp
from tests.tuneplane.cli.scripted_console import API, RUN, ScriptedConsole
from tests.tuneplane.client.scripted_server import Reply, Request, as_json, problem

PLACE = f"{API}/projects/ann/demo"
RULE = {
    "name": "loss-high", "kind": "metric-above", "text": "a metric is above a threshold for a while", "enabled": True,
    "metric": "train/loss", "threshold": 3.0, "minutes": 10.0, "reports": 2, "origin": "own",
}  # fmt: skip
HOOK = {
    "id": "06hook",
    "url": "https://hooks.example.org/x",
    "enabled": True,
    "events": [],
    "description": "",
    "disabled_why": "",
}


@pytest.fixture
def bodies(signed_in: ScriptedConsole) -> list[tuple[str, str, Any]]:
    """(method, path, body) of every change that came in."""
    seen: list[tuple[str, str, Any]] = []

    def take(answer: Any, status: int = 200) -> Any:
        def reply(request: Request) -> Reply:
            if request.method == "GET":
                return as_json(answer)
            path = request.path.removeprefix(f"{API}/projects/")
            seen.append((request.method, path, json.loads(request.body) if request.body else None))
            return Reply(204) if request.method == "DELETE" else as_json(answer, status)

        return reply

    answers = signed_in.server.answers
    firing = [
        {
            "rule": "loss-high",
            "kind": "metric-above",
            "job_id": RUN,
            "since": "2026-01-31T12:00:00Z",
            "text": "train/loss is 4",
        }
    ]
    answers[f"{PLACE}/alerts"] = take({"rules": [RULE], "firing": firing})
    for name in ("loss-high", "reward-low", "gpu-idle"):
        answers[f"{PLACE}/alerts/{name}"] = take(RULE)

    def hooks(request: Request) -> Reply:
        if request.method == "GET":
            return as_json({"items": [HOOK]})
        return take({"webhook": HOOK, "secret": "whsec_c2VjcmV0"}, 201)(request)

    answers[f"{PLACE}/webhooks"] = hooks
    answers[f"{PLACE}/webhooks/06hook"] = take(None)
    delivery = {
        "id": "06d", "event": "test.ping", "state": "failed", "created_at": "2026-01-31T12:00:00Z", "next_at": None,
        "tries": [{"at": "2026-01-31T12:00:00Z", "status": 500, "error": "answered 500", "milliseconds": 3}],
    }  # fmt: skip
    answers[f"{PLACE}/webhooks/06hook/test"] = take(delivery, 202)
    answers[f"{PLACE}/webhooks/06hook/deliveries"] = lambda _request: as_json(
        {"items": [delivery], "next_cursor": None}
    )
    return seen


def test_rules_are_listed_with_what_fires(tp: Tp, lab: Path, bodies: list[Any]) -> None:
    text = tp("alert", "ls").out
    assert "train/loss > 3 · for 10 min · 2 reports" in text
    assert RUN in text
    assert tp("alert", "ls", "--project", "@ann/demo", "--json").json["rules"] == [RULE]


def test_only_what_is_named_is_sent_and_above_names_the_kind_of_a_new_rule(
    tp: Tp, lab: Path, bodies: list[Any]
) -> None:
    tp("alert", "set", "loss-high", "--above", "5")
    tp("alert", "set", "reward-low", "--metric", "train/reward", "--below", "0.2", "--minutes", "5")
    tp("alert", "set", "gpu-idle", "--off")
    assert [(path, body) for _method, path, body in bodies] == [
        ("ann/demo/alerts/loss-high", {"threshold": 5.0}),
        (
            "ann/demo/alerts/reward-low",
            {"metric": "train/reward", "threshold": 0.2, "minutes": 5.0, "kind": "metric-below"},
        ),
        ("ann/demo/alerts/gpu-idle", {"enabled": False}),
    ]


@pytest.mark.parametrize("arguments", [
    ("alert", "set", "loss-high"),
    ("alert", "set", "loss-high", "--above", "1", "--below", "2"),
    ("alert", "set", "loss-high", "--above", "nan"),
    ("alert", "rm", "loss-high"),  # nobody can be asked
    ("webhook", "rm", "06hook"),
    ("webhook", "add", "https://x", "--event", "of.tomorrow"),
])  # fmt: skip
def test_what_makes_no_sense_sends_nothing(tp: Tp, lab: Path, bodies: list[Any], arguments: tuple[str, ...]) -> None:
    tp(*arguments, code=2)
    assert bodies == []


def test_outside_of_a_lab_the_project_has_to_be_named(tp: Tp, bodies: list[Any]) -> None:
    assert "--project" in tp("alert", "ls", code=2).err
    assert tp("webhook", "ls", "--project", "demo").out.count("https://hooks.example.org/x") == 1


def test_a_secret_is_all_that_add_prints_and_the_rest_is_a_remark(tp: Tp, lab: Path, bodies: list[Any]) -> None:
    answer = tp("webhook", "add", "https://hooks.example.org/x", "--event", "job.failed")
    assert (answer.out, "06hook" in answer.err) == ("whsec_c2VjcmV0\n", True)
    tp("webhook", "test", "06hook")
    assert "answered 500" in tp("webhook", "log", "06hook").out
    tp("webhook", "rm", "06hook", "--yes")
    tp("alert", "rm", "loss-high", "--yes")
    assert [(method, path) for method, path, _body in bodies] == [
        ("POST", "ann/demo/webhooks"),
        ("POST", "ann/demo/webhooks/06hook/test"),
        ("DELETE", "ann/demo/webhooks/06hook"),
        ("DELETE", "ann/demo/alerts/loss-high"),
    ]
    assert bodies[0][2] == {"url": "https://hooks.example.org/x", "description": "", "events": ["job.failed"]}


def test_status_and_show_tell_what_machines_and_cards_do(tp: Tp, signed_in: ScriptedConsole) -> None:
    figures = {"use": 93.0, "memory_used": 70e9, "temperature": 61.0, "power": 512.0, "ecc_errors": 2.0, "slowed": 1.0}
    node = {
        "name": "gpu-1",
        "memory_gb": 100.0,
        "figures": {"cpu": 41.0, "memory_used": 5e9},
        "gpus": [{"index": 0, "figures": figures}],
    }
    signed_in.server.answers[f"{API}/hardware"] = lambda _request: as_json(
        {"profiles": [], "nodes": [node, {"name": "old"}]}
    )
    text = tp("status").out
    assert all(shown in text for shown in ("gpu-1", "41 %", "1 / 1")), text
    signed_in.add_job(phase="running", finished_at=None)
    latest = [
        {"node": "gpu-1", "part": "gpu", "gpu": 0, "figures": figures},
        {"node": "gpu-1", "part": "job", "gpu": None, "figures": {"cpu": 3.5}},
        {"node": "gpu-1", "part": "machine", "gpu": None, "figures": {"cpu": 41.0}},
    ]
    signed_in.server.answers[f"{API}/jobs/{RUN}/hardware"] = lambda _request: as_json({"latest": latest})
    text = tp("job", "show", RUN).out
    assert all(
        shown in text for shown in ("93 %, 70.0 GB, 61 °C, 512 W, 2 ECC errors, slowed down", "3.5 cores", "41 % CPU")
    ), text


def test_a_console_that_does_not_measure_yet_is_no_error(tp: Tp, signed_in: ScriptedConsole) -> None:
    for path in (f"{API}/hardware", f"{API}/jobs/{RUN}/hardware"):
        signed_in.server.answers[path] = lambda _request: problem(404, "not-found")
    signed_in.add_job(phase="running", finished_at=None)
    tp("status")
    tp("job", "show", RUN)
