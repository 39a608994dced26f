"""The API's shapes arranged for templates."""

from __future__ import annotations

from typing import Any

import pytest

from tuneplane_server.console.views import artifacts, environment, events, jobs, samples
from tuneplane_server.features.artifacts.service import FileEntry, Listing
from tuneplane_server.features.telemetry.sample_reader import SampleItem


def job(**changes: Any) -> dict[str, Any]:
    return {
        "id": "0mh0000000000000",
        "phase": "running",
        "desired": "run",
        "conditions": [],
        "reason": None,
        "pools": [{"series": "h200", "nodes": 2, "gpus_per_node": 8}],
        "started_at": "2026-07-31T12:00:00+00:00",
        "finished_at": "2026-07-31T12:03:05+00:00",
        "latest": {},
        "spec": None,
        "runtime": {"runtime_id": "trl-1.16", "image": None, "source": "catalog"},
    } | changes


def test_the_methods_main_metric_stands_for_the_job() -> None:
    latest = {name: {"step": 4, "value": 1.0, "time": 0.0} for name in ("train/loss", "train/reward", "system/gpu")}
    assert jobs.main_metric(latest, "train/reward") == {"name": "train/reward", "step": 4, "value": 1.0, "time": 0.0}
    for found, primary, name in (
        (latest, None, "train/loss"),
        ({"train/zeta": latest["train/loss"]}, "train/loss", "train/zeta"),
    ):
        shown = jobs.main_metric(found, primary)
        assert shown is not None
        assert shown["name"] == name
    assert jobs.main_metric({"system/gpu": latest["system/gpu"]}, None) is None


def test_a_cancel_that_is_under_way_is_marked_until_the_job_has_ended() -> None:
    assert [mark["text"] for mark in jobs.present(job(desired="cancel"))["marks"]] == ["cancel asked"]
    assert jobs.present(job(desired="cancel", phase="cancelled"))["marks"] == []


def test_conditions_stand_beside_the_phase() -> None:
    shown = jobs.present(job(conditions=[{"type": "unreachable", "since": "", "text": "cannot be asked"}]))
    assert shown["marks"] == [{"text": "unreachable", "title": "cannot be asked", "tone": "warn", "condition": True}]


@pytest.mark.parametrize(
    ("state", "marks"),
    [
        ({"phase": "queued", "paused": True}, ["paused"]),
        ({"phase": "running", "paused": True}, ["pausing"]),
        ({"phase": "running", "paused": True, "desired": "cancel"}, ["cancel asked", "pausing"]),
        ({"phase": "queued", "approval": "pending"}, ["unapproved"]),
        ({"phase": "queued", "not_before": "2026-01-01T00:00:00Z"}, ["resting"]),
        ({"phase": "failed", "paused": True, "approval": "pending"}, []),
    ],
)
def test_what_holds_a_job_back_stands_beside_the_phase(state: dict[str, Any], marks: list[str]) -> None:
    assert [mark["text"] for mark in jobs.present(job(**state))["marks"]] == marks


def test_phase_tabs_count_every_phase_in_the_order_of_a_life() -> None:
    tabs = jobs.phase_tabs({"running": 2, "failed": 1})
    assert [(tab["value"], tab["count"]) for tab in tabs][:4] == [
        ("", 3),
        ("queued", 0),
        ("starting", 0),
        ("running", 2),
    ]


def test_an_ignored_event_keeps_what_it_wanted_and_looks_quiet() -> None:
    shown = events.present({"kind": "ended", "from": "failed", "to": "failed", "ignored": True, "data": {}})
    assert (shown["ignored"], shown["tone"]) == (True, "quiet")


def test_event_data_is_flat_and_bounded() -> None:
    data = {"nodes": ["a", "b"], "verdict": {"phase": "failed", "note": None}, "long": "x" * 1000}
    details = dict(events.present({"kind": "ended", "from": "running", "to": "finishing", "data": data})["details"])
    assert details["nodes"] == "a, b"
    assert details["verdict.phase"] == "failed"
    assert "verdict.note" not in details
    assert len(details["long"]) == 401


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, ""),
        ("plain", "plain"),
        ([{"role": "user", "content": "hi"}], "hi"),
        ([{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "user: a\n\nassistant: b"),
        ([1, 2], "[\n 1,\n 2\n]"),
        ({"a": 1}, '{\n "a": 1\n}'),
    ],
)
def test_sample_texts_may_be_chats_or_anything(value: Any, text: str) -> None:
    assert samples.text_of(value) == text


@pytest.mark.parametrize("data", [{}, {"rewards": 3, "reward": "high", "messages": "no list"}, [], None, "text"])
def test_odd_samples_become_empty_cards(data: Any) -> None:
    card = samples.present(SampleItem(1, 1, 0, 1, 0.0, "completion", None, data))
    assert (card["completion"], card["reward"], card["rewards"], card["messages"]) == ("", None, {}, [])


def test_files_become_a_tree_with_sums() -> None:
    files = [
        FileEntry(1, "checkpoints/checkpoint-4/model.safetensors", 100, None),
        FileEntry(1, "checkpoints/checkpoint-4/trainer_state.json", 20, None),
        FileEntry(1, "outcome.json", 3, "ab"),
        FileEntry(2, "outcome.json", 4, "cd"),
    ]
    shown = artifacts.present(Listing(files, [], [], "/srv/out", truncated=False))
    newest, first = shown["trees"]
    assert (newest["attempt"], newest["size"], newest["count"]) == (2, 4, 1)
    assert (first["size"], first["count"], [file["name"] for file in first["files"]]) == (123, 3, ["outcome.json"])
    (checkpoints,) = first["folders"]
    (checkpoint,) = checkpoints["folders"]
    assert (checkpoints["size"], checkpoint["name"], checkpoint["count"]) == (120, "checkpoint-4", 2)


def test_a_folder_with_very_many_files_shows_some_and_says_how_many_more() -> None:
    files = [FileEntry(1, f"out/{n:05}.txt", 1, None) for n in range(1000)]
    (tree,) = artifacts.present(Listing(files, [], [], None, truncated=False))["trees"]
    (folder,) = tree["folders"]
    assert (len(folder["files"]), folder["more"], folder["count"]) == (200, 800, 1000)


def test_the_environment_shows_the_command_first_and_leaves_out_what_is_empty() -> None:
    spec = {
        "spec": {
            "recipe": {"name": "trl/sft", "version": "1.0.0", "digest": "ab" * 32},
            "config": {"a": {"b": 1}, "none": None, "empty": []},
            "env": {},
        },
        "provenance": {"git_commit": "0" * 40, "git_dirty": True, "client_version": "0.1.0"},
    }
    blocks = environment.blocks(job(spec=spec), {}, {"command": ["python", "train me.py"]})
    assert [block["title"] for block in blocks] == ["Command", "Recipe and runtime", "Resolved config"]
    assert blocks[0]["text"] == "python 'train me.py'"
    assert blocks[2]["rows"] == [("a.b", "1")]
    assert ("git commit", "0" * 40 + " with uncommitted changes") in blocks[1]["rows"]
