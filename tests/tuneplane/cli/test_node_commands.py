"""`tp admin node …`: what is sent, what is asked first, what is shown. The real console is met in tests/e2e."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tuneplane.cli.conftest import Tp
from tests.tuneplane.cli.scripted_console import API, RUN, ScriptedConsole
from tests.tuneplane.client.scripted_server import Request, as_json, problem

NODES = f"{API}/nodes"


def node(name: str = "gpu-1", **changes: Any) -> dict[str, Any]:
    """A node as `GET /nodes/{name}` gives it."""
    cards = [
        {"index": 0, "series": "h200", "product": "NVIDIA H200", "memory_gb": 139.7, "simulated": False, "job_id": RUN}
    ]
    runs = [{"job_id": RUN, "attempt": 2, "gpus": [0], "cpus": 0, "memory_gb": 0, "since": "2026-01-31T12:00:00Z"}]
    return {
        "name": name, "node_id": "a1", "address": "http://10.0.0.1:8643", "version": "0.1.0", "state": "ready",
        "state_by": "system:nodes", "state_at": "2026-01-31T12:00:00Z", "health": "ready", "problem": None,
        "placeable": True, "last_heard": "2026-01-31T12:00:00Z", "joined_at": "2026-01-31T12:00:00Z",
        "proved_at": "2026-01-31T12:00:00Z", "clock_offset": -0.25, "storage_root": "/data/tuneplane", "runtime": "docker",
        "isolated": True, "simulated": False, "cpus": 64, "memory_gb": 1024.0, "cards": cards, "runs": runs, "fences": [],
        "findings": [], **changes,
    }  # fmt: skip


WRONG = {"code": "storage-other", "text": "not the same directory", "hint": "mount it\x1b[31m", "detail": ""}


@pytest.fixture
def sent(signed_in: ScriptedConsole) -> list[str]:
    """The changes of gpu-1 that came in."""
    seen: list[str] = []
    answers = signed_in.server.answers

    def answer(request: Request) -> Any:
        if request.method != "GET":
            seen.append(f"{request.method} {request.path} {request.query.get('force', [''])[0]}".strip())
        return as_json(node(state="removed" if request.method == "DELETE" else "ready"))

    answers[f"{NODES}/gpu-1"] = answer
    for verb, state in (("cordon", "cordoned"), ("drain", "draining"), ("uncordon", "ready")):
        answers[f"{NODES}/gpu-1/{verb}"] = lambda request, state=state: (
            seen.append(f"{request.method} {request.path}") or as_json(node(state=state))
        )
    return seen


def test_the_list_shows_each_node_and_then_what_is_wrong(tp: Tp, signed_in: ScriptedConsole) -> None:
    away = node("gpu-2", health="refused", problem=WRONG, runs=[], state="draining", cards=[])
    twin = {"name": "gpu-1", "node_id": "b2", "address": "http://b", "problem": WRONG | {"text": "the name is taken"}}
    signed_in.server.answers[NODES] = as_json({"items": [node(), away], "refused": [twin]})
    out = tp("admin", "node", "ls").out
    first, second = out.splitlines()[1:3]
    assert first.split()[:5] == ["gpu-1", "ready", "-", "1", "/"]
    assert ("refused" in second, "drained" in second) == (True, True)
    assert "gpu-2: not the same directory" in out
    assert "gpu-1: the name is taken" in out
    assert "mount it" in out
    assert "\x1b" not in out
    assert tp("admin", "node", "ls", "--json").json["items"][1]["name"] == "gpu-2"


def test_an_empty_list_says_how_a_node_joins(tp: Tp, signed_in: ScriptedConsole) -> None:
    signed_in.server.answers[NODES] = as_json({"items": [], "refused": []})
    done = tp("admin", "node", "ls")
    assert (done.out, "tuneplane-node serve" in done.err) == ("", True)


def test_a_node_is_shown_with_cards_runs_and_what_is_to_be_cleaned_up(tp: Tp, signed_in: ScriptedConsole) -> None:
    fences = [{"job_id": "b" * 16, "attempt": 1, "since": "2026-01-31T12:00:00Z"}]
    findings = [{"code": "x", "level": "warning", "text": "no driver", "hint": "", "detail": ""}]
    shown = node(state="cordoned", state_by="olga", fences=fences, findings=findings, placeable=False)
    signed_in.server.answers[f"{NODES}/gpu-1"] = as_json(shown)
    out = tp("admin", "node", "show", "gpu-1").out
    for words in (
        "by olga",
        "NVIDIA H200",
        "139.7 GB",
        RUN,
        "b" * 16,
        "warning: no driver",
        "-0.2 s",
        "64 CPUs, 1024 GB",
    ):
        assert words in out
    assert tp("admin", "node", "show", "gpu-1", "--json").json["name"] == "gpu-1"


def test_what_was_left_on_a_node_is_shown_and_ended(tp: Tp, signed_in: ScriptedConsole) -> None:
    left = [
        {"job_id": "c" * 16, "attempt": 2, "node_id": "0123456789ab", "running": True, "gpus": [0, 1]},
        {"job_id": "d" * 16, "attempt": 1, "node_id": "0123456789ab", "running": False, "gpus": []},
        {"job_id": "e" * 16, "attempt": 1, "node_id": "0123456789ab", "running": True, "gpus": None},
    ]
    signed_in.server.answers[f"{NODES}/gpu-1"] = as_json(node(left_jobs=left))
    out = tp("admin", "node", "show", "gpu-1").out
    assert "LEFT" in out
    assert all(words in out for words in ("c" * 16, "d" * 16, "e" * 16, "0123456789ab", "ended", "?"))
    signed_in.server.answers[f"{NODES}/gpu-1/left-jobs/{'c' * 16}/end"] = as_json(node())
    assert "--yes" in tp("admin", "node", "end", "gpu-1", "c" * 16, code=2).err
    assert "gpu-1" in tp("admin", "node", "end", "gpu-1", "c" * 16, "--attempt", "2", "--yes").out
    asked = signed_in.server.seen[-1]
    assert (asked.method, asked.path) == ("POST", f"{NODES}/gpu-1/left-jobs/{'c' * 16}/end")
    assert tp("admin", "node", "end", "gpu-1", "c" * 16, "--yes", "--json").json["name"] == "gpu-1"


def test_a_name_becomes_one_part_of_the_path(tp: Tp, signed_in: ScriptedConsole) -> None:
    assert tp("admin", "node", "show", "../jobs", code=1).err
    assert [request.path for request in signed_in.server.seen][-1].endswith("/nodes/..%2Fjobs")


def test_what_changes_a_node_is_asked_first(tp: Tp, sent: list[str]) -> None:
    for verb in ("cordon", "drain", "remove"):
        assert "--yes" in tp("admin", "node", verb, "gpu-1", code=2).err
    assert sent == []
    assert "gpu-1" in tp("admin", "node", "cordon", "gpu-1", "--yes").out
    assert RUN in tp("admin", "node", "drain", "gpu-1", "--yes").out
    tp("admin", "node", "uncordon", "gpu-1")
    tp("admin", "node", "remove", "gpu-1", "--yes")
    assert tp("admin", "node", "remove", "gpu-1", "--force", "--yes", "--json").json["state"] == "removed"
    assert sent == [
        f"POST {NODES}/gpu-1/cordon",
        f"POST {NODES}/gpu-1/drain",
        f"POST {NODES}/gpu-1/uncordon",
        f"DELETE {NODES}/gpu-1",
        f"DELETE {NODES}/gpu-1 true",
    ]


def test_a_node_that_is_used_again_and_still_refused_says_so(tp: Tp, signed_in: ScriptedConsole) -> None:
    signed_in.server.answers[f"{NODES}/gpu-1/uncordon"] = as_json(node(health="refused", problem=WRONG))
    assert "not the same directory" in tp("admin", "node", "uncordon", "gpu-1").err


def test_runs_in_the_way_are_named(tp: Tp, signed_in: ScriptedConsole) -> None:
    signed_in.server.answers[f"{NODES}/gpu-1"] = lambda request: (
        as_json(node()) if request.method == "GET" else problem(409, "conflict", f"1 run still holds cards: {RUN}")
    )
    assert RUN in tp("admin", "node", "remove", "gpu-1", "--yes", code=1).err


def test_help_has_an_example_for_each(tp: Tp) -> None:
    for verb in ("ls", "show", "cordon", "uncordon", "drain", "remove"):
        assert f"tp admin node {verb}" in tp("admin", "node", verb, "--help").out
