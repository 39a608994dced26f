"""`tp admin …` and the quota in `tp status`: what is sent, what is asked first, what is shown. The real console is met in tests/e2e."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.tuneplane.cli.conftest import Tp
from tests.tuneplane.cli.scripted_console import API, ScriptedConsole
from tests.tuneplane.client.scripted_server import Reply, Request, as_json, problem
from tuneplane.cli.quota_text import bar, duration

QUOTAS = f"{API}/admin/quotas"


def report(**changes: Any) -> dict[str, Any]:
    limits = dict.fromkeys(
        ["gpus", "jobs", "queued_jobs", "gpu_hours_day", "gpu_hours_month", "storage_gb", "profiles", "images",
         "max_seconds", "max_priority"]
    )  # fmt: skip
    return {
        "scope": "user", "name": "ada", "own": {"gpus": 8}, "limits": {**limits, "gpus": 8, "gpu_hours_day": 100.0},
        "sources": {"gpus": "own", "gpu_hours_day": "default"}, "version": 3, "updated_at": "2026-01-31T12:00:00Z",
        "updated_by": "root",
        "use": {"gpus": 2, "jobs": 1, "queued_jobs": 0, "gpu_hours_day": 99.5, "gpu_hours_month": 120.25, "storage_gb": 0.5},
        "day": {"start": "2026-01-31T00:00:00Z", "end": "2026-02-01T00:00:00Z"},
        "month": {"start": "2026-01-01T00:00:00Z", "end": "2026-02-01T00:00:00Z"},
        **changes,
    }  # fmt: skip


@pytest.fixture
def quota(signed_in: ScriptedConsole) -> list[dict[str, Any]]:
    """The bodies of the changes of ada's quota that came in."""
    changes: list[dict[str, Any]] = []

    def answer(request: Request) -> Reply:
        if request.method == "PUT":
            changes.append(json.loads(request.body))
            return as_json(report(own=changes[-1]["limits"], version=4))
        return as_json(report())

    signed_in.server.answers[f"{QUOTAS}/users/ada"] = answer
    return changes


def test_only_what_is_named_changes_and_the_version_that_was_read_goes_with_it(
    tp: Tp, quota: list[dict[str, Any]]
) -> None:
    tp("admin", "quota", "set", "ada", "--jobs", "none", "--gpu-hours-day", "12.5", "--max-duration", "90m")
    tp("admin", "quota", "set", "ada", "--gpus", "default", "--images", "r.io/a/*, r.io/b:1", "--if-version", "2")
    assert quota == [
        {"limits": {"gpus": 8, "jobs": None, "gpu_hours_day": 12.5, "max_seconds": 5400}, "version": 3},
        {"limits": {"images": ["r.io/a/*", "r.io/b:1"]}, "version": 2},
    ]


@pytest.mark.parametrize(
    "option",
    [
        ("--gpus", "1.5"), ("--gpus", "１"), ("--gpus", ""), ("--gpu-hours-day", "inf"), ("--gpu-hours-day", "nan"),
        ("--max-duration", "2 weeks"), ("--max-duration", "-1h"), ("--profiles", "a,,b"), ("--if-version", "-1"),
    ],
)  # fmt: skip
def test_a_figure_that_is_none_is_a_question_of_usage(
    tp: Tp, quota: list[dict[str, Any]], option: tuple[str, str]
) -> None:
    assert tp("admin", "quota", "set", "ada", *option, code=2).out == ""
    assert quota == []


def test_what_hurts_is_not_done_without_a_yes(tp: Tp, quota: list[dict[str, Any]], signed_in: ScriptedConsole) -> None:
    drain = {"name": "drain", "value": {"on": False}, "version": 0}
    signed_in.server.answers[f"{API}/admin/policies/drain"] = as_json(drain)
    watchdog = {"name": "watchdog", "value": {"stop_stalled": False}, "version": 0}
    signed_in.server.answers[f"{API}/admin/policies/watchdog"] = as_json(watchdog)
    for arguments in (
        ("user", "disable", "ada"),
        ("quota", "unset", "ada"),
        ("drain", "on"),
        ("policy", "set", "watchdog", "stop_stalled=true"),
        ("approvals", "reject", "06h2h3p9mnm8e49y", "--why", "no"),
    ):
        assert "--yes" in tp("admin", *arguments, code=2).err
    assert {request.method for request in signed_in.server.seen} == {"GET"}
    tp("admin", "quota", "unset", "ada", "--yes")
    assert quota == [{"limits": {}, "version": 3}]


def test_a_conflict_says_what_the_console_says(tp: Tp, signed_in: ScriptedConsole) -> None:
    answers = [as_json(report()), problem(409, "conflict", "changed meanwhile by olga", hint="look at the figures")]
    signed_in.server.answers[f"{QUOTAS}/users/ada"] = answers
    error = tp("admin", "quota", "set", "ada", "--gpus", "1", "--json", code=1).problem
    assert (error["code"], error["hint"]) == ("conflict", "look at the figures")
    assert "olga" in error["detail"]


def test_a_policy_keeps_the_fields_that_are_not_named(tp: Tp, signed_in: ScriptedConsole) -> None:
    sent: list[dict[str, Any]] = []

    def answer(request: Request) -> Reply:
        if request.method == "PUT":
            sent.append(json.loads(request.body))
            return as_json({"name": "approval", "value": sent[-1]["value"], "version": 2})
        return as_json({"name": "approval", "value": {"gpus": 8, "seconds": None}, "version": 1})

    signed_in.server.answers[f"{API}/admin/policies/approval"] = answer
    assert tp("admin", "policy", "set", "approval", "seconds=3600").out.split() == ["seconds", "3600"]
    tp("admin", "policy", "set", "approval", "gpus=none")
    assert [item["value"] for item in sent] == [{"gpus": 8, "seconds": 3600}, {"gpus": None, "seconds": None}]
    assert tp("admin", "policy", "set", "approval", "seconds", code=2).err


def test_the_status_shows_how_full_the_quota_is(tp: Tp, signed_in: ScriptedConsole) -> None:
    drain = {"on": True, "text": "new\x1b[31m disks", "since": "2026-01-31T12:00:00Z", "by": "root"}
    signed_in.server.answers[f"{API}/quota"] = as_json({"items": [report()], "drain": drain})
    out = tp("status").out
    assert "##........  2 of 8" in " ".join(out.split("\n"))
    assert "##########  99.5 of 100, anew at" in out
    assert "jobs at once" not in out  # without a limit there is nothing to fill
    assert "maintenance since" in out
    assert "\x1b" not in out
    assert tp("status", "--json").json["quota"]["items"][0]["use"]["gpus"] == 2


def test_a_console_without_quotas_has_a_status_too(tp: Tp, signed_in: ScriptedConsole) -> None:
    signed_in.server.answers[f"{API}/quota"] = problem(404, "not-found", "nothing here")
    assert "nothing is running" in tp("status").out
    assert tp("status", "--json").json["quota"] is None


@pytest.mark.parametrize(
    ("used", "limit", "shown"),
    [(0, 8, "." * 10), (0.01, 8, "#" + "." * 9), (4, 8, "#" * 5 + "." * 5), (9, 8, "#" * 10), (0, 0, "#" * 10)],
)
def test_a_bar_is_never_empty_when_something_is_used(used: float, limit: float, shown: str) -> None:
    assert bar(used, limit) == shown


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (59, "59s"), (60, "1m"), (90, "90s"), (5400, "90m"), (7200, "2h"), (172800, "2d")]
)
def test_a_duration_reads_as_the_option_takes_it(seconds: int, text: str) -> None:
    assert duration(seconds) == text


def test_retention_changes_what_is_named_and_asks_before_anything_may_be_removed(
    tp: Tp, signed_in: ScriptedConsole
) -> None:
    sent: list[dict[str, Any]] = []
    kept = {"logs_days": 30, "metrics_days": None, "samples_days": None, "total_gb": None}

    def answer(request: Request) -> Reply:
        if request.method == "PUT":
            sent.append(json.loads(request.body))
            return as_json({"value": sent[-1]["value"], "used_gb": 1.5, "version": 8})
        return as_json({"value": kept, "used_gb": 1.5, "version": 7})

    signed_in.server.answers[f"{API}/projects/ada/lab/retention"] = answer
    assert "--yes" in tp("admin", "retention", "set", "ada/lab", "total_gb=100", code=2).err
    assert tp("admin", "retention", "set", "ada", "logs_days=1", "--yes", code=2).err
    assert sent == []
    out = tp("admin", "retention", "set", "ada/lab", "samples_days=7", "total_gb=0.5", "--yes").out
    tp("admin", "retention", "set", "ada/lab", "logs_days=none")  # keeps more: nobody need be asked
    assert sent == [
        {"value": {**kept, "samples_days": 7, "total_gb": 0.5}, "version": 7},
        {"value": {**kept, "logs_days": None}, "version": 7},
    ]
    assert "1.500 GB" in out
    assert tp("admin", "retention", "show", "ada/lab", "--json").json["value"] == kept
