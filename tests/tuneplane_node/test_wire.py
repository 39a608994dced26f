"""What console and node say to each other: whole on its way, and readable by the version before and the one after."""

from __future__ import annotations

import dataclasses
import json
import string
from datetime import UTC, datetime
from typing import Any

import pytest

from tuneplane.i18n import _, using_language
from tuneplane_node import wire
from tuneplane_node.engine import (
    LABEL_ATTEMPT,
    LABEL_JOB,
    PROBLEMS,
    CardSample,
    Gpu,
    Inventory,
    JobSample,
    LaunchRequest,
    MachineSample,
    Mount,
    NodeError,
    Observed,
)
from tuneplane_node.engine.problems import finding
from tuneplane_node.versions import fit

MOMENT = datetime(2026, 11, 30, 12, 0, 0, 250_000, tzinfo=UTC)
INVENTORY = Inventory(
    hostname="box", architecture="x86_64", kernel="6.1", cpu_model="c", cpus=8, memory_bytes=1 << 35,
    memory_available_bytes=1 << 34, disk_bytes=1 << 40, disk_free_bytes=1 << 39,
    gpus=(Gpu(0, "h200", "NVIDIA H200", 1 << 37, "GPU-1", "580", simulated=False),),
    findings=(finding("gpu-simulated", count=8),),
)  # fmt: skip
REQUEST = LaunchRequest(
    name="tp-1", labels={LABEL_JOB: "j", LABEL_ATTEMPT: "1", "tuneplane.main": "10.0.0.1:20000"},
    command=["sh", "it's"], image="registry/a@sha256:1", env={"TOKEN": "训练\n"},
    mounts=[Mount("/a", "/a", read_only=True)], gpus=(1, 3), cpus=1.5, memory_bytes=7, workdir="/a",
)  # fmt: skip
HELLO = wire.NodeHello("id", "node-1", "0.1.0", "/data", runtime="docker", time=1.5, boot_id="b", started_at=1.0)
VALUES: list[Any] = [
    REQUEST,
    INVENTORY,
    Observed("exited", 137, 9, None, MOMENT, MOMENT, "words"),
    MachineSample(
        1.5, "box", {"cpu": 2.0}, (CardSample(0, False, {"use": 1.0}),), (JobSample({"a": "b"}, {"cpu": 1.0}),)
    ),
    finding("mount-missing", "its words"),
    HELLO,
    wire.ContainerSeen("docker/tp-1", {LABEL_JOB: "j"}, Observed("running", started_at=MOMENT)),
    wire.Announcement(HELLO, "http://10.0.0.2:8643", INVENTORY, (wire.NodeProblem("mount-missing"),), 3),
    wire.AnnounceAnswer("node-1", "refused", wire.AnswerProblem("node-name-taken", "t", "h"), 5.0, ("a", "b")),
    wire.StorageChallenge("/data", "/data/.tuneplane-identity/console-1", "n"),
    wire.StorageProof("n", "/data/x", "m", "/data", "8:1", "ext4", "/dev/sda1", "box", writable=True),
    wire.PreflightRequest("j", 1, "/data/c", "0", {"capsule.json": "1"}, "http://c", (0,), 1.0, 5, wire.MainPlace(("a",), 1)),
    wire.PreflightReport((wire.NodeProblem("mount-missing"),), (wire.MachineAddress("10.0.0.2", "eth0"),), -0.5, "10.0.0.1"),
    wire.LaunchCall(REQUEST, {"/data/c/capsule.json": "ff"}, "op", 5.0),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_every_value_arrives_as_it_was_sent(value: object) -> None:
    assert wire.from_json(type(value), json.loads(json.dumps(wire.to_json(value)))) == value


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
def test_fields_of_a_newer_version_are_ignored(value: object) -> None:
    def grown(sent: Any, shape: object) -> Any:
        if dataclasses.is_dataclass(shape):
            known = {field.name: getattr(shape, field.name) for field in dataclasses.fields(shape)}
            return {**{name: grown(sent[name], known[name]) for name in sent}, "invented_later": {"deep": [1, None]}}
        if isinstance(shape, (list, tuple)):
            return [grown(each, part) for each, part in zip(sent, shape, strict=True)]
        return sent

    assert wire.from_json(type(value), grown(json.loads(json.dumps(wire.to_json(value))), value)) == value


@pytest.mark.parametrize(
    ("shape", "least"),
    [
        (wire.NodeHello, {"node_id": "i", "name": "n", "version": "0.0.9", "storage_root": "/d"}),
        (wire.Announcement, {"hello": {"node_id": "i", "name": "n", "version": "0.0.9", "storage_root": "/d"}}),
        (wire.AnnounceAnswer, {"node": "n"}),
        (wire.StorageProof, {}),
        (wire.PreflightRequest, {"job": "j", "attempt": 1, "capsule_dir": "/c"}),
        (wire.PreflightReport, {}),
        (wire.LaunchAnswer, {"done": False}),
        (wire.ContainerSeen, {"handle": "docker/aa", "labels": {}, "observed": {"state": "running"}}),
        (wire.NodeProblem, {"code": "mount-missing"}),
    ],
)
def test_what_an_older_version_does_not_send_has_a_default(shape: type[wire.Shape], least: dict[str, Any]) -> None:
    made = shape.from_json(least).to_json()
    assert {name: made[name] for name in least if name not in ("hello", "observed")} == {
        name: value for name, value in least.items() if name not in ("hello", "observed")
    }


@pytest.mark.parametrize(
    "sent",
    [None, [], "words", {"node": 5}, {"node": "n", "state": "dancing"}, {"node": "n", "every_seconds": "soon"}, {}],
)
def test_another_shape_is_told_with_its_place(sent: object) -> None:
    with pytest.raises(wire.WireError, match="AnnounceAnswer"):
        wire.AnnounceAnswer.from_json(sent)


def test_a_request_that_makes_no_sense_is_refused_as_where_it_is_made() -> None:
    sent = wire.to_json(REQUEST) | {"name": "Not A Name"}
    with pytest.raises(NodeError) as refusal:
        wire.from_json(LaunchRequest, sent)
    assert refusal.value.code == "request-invalid"


@pytest.mark.parametrize("code", PROBLEMS)
def test_every_problem_crosses_with_its_code_and_its_words(code: str) -> None:
    values = dict.fromkeys(_placeholders(PROBLEMS[code].text + PROBLEMS[code].hint), 7)
    sent = NodeError(code, "the engine's words", **values)
    came = wire.NodeProblem.from_json(json.loads(json.dumps(wire.NodeProblem.of(sent).to_json()))).error()
    assert (came.code, came.detail, came.text(), came.hint()) == (code, sent.detail, sent.text(), sent.hint())
    assert (came.retry, came.blame) == (sent.retry, sent.blame)


def test_a_problem_of_a_newer_version_is_told_in_its_own_words() -> None:
    sent = wire.NodeProblem(
        "gpu-melted", {"index": 3}, "detail", text="GPU 3 has melted.", hint="Buy one.", retry=True, blame="user"
    )
    came = sent.error()
    assert came.code == "node-says"
    assert came.text() == "The node reports gpu-melted: GPU 3 has melted."
    assert "Buy one." in came.hint()
    assert (came.retry, came.blame, came.detail) == (True, "user", "detail")
    assert sent.finding().level == "error"


def test_a_sentence_that_takes_other_values_in_the_other_version_is_told_in_its_words() -> None:
    came = wire.NodeProblem("image-not-found", {"picture": "x"}, text="No picture x.").error()
    assert came.text() == "The node reports image-not-found: No picture x."
    odd = dataclasses.replace(finding("image-not-found", image="x"), values={"picture": 1}, text="No picture.")
    assert wire.known_finding(odd).text == "No picture."


def test_a_finding_is_said_in_the_language_of_its_reader() -> None:
    sent = json.loads(json.dumps(wire.to_json(finding("gpu-simulated", count=8))))
    with using_language("zh-Hans"):
        came = wire.known_finding(wire.from_json(type(finding("gpu-simulated", count=8)), sent))
        assert came.text == _(PROBLEMS["gpu-simulated"].text).format(count=8)
    assert came.text != finding("gpu-simulated", count=8).text


@pytest.mark.parametrize(
    ("ours", "theirs", "good"),
    [
        ("0.1.0", "0.1.9", True),
        ("0.1.0", "0.2.0rc1", True),
        ("0.1.0", "0.0.7", True),
        ("0.1.0", "0.3.0", False),
        ("0.9.0", "1.0.0", False),
        ("1.4", "1.5.2", True),
        ("0.1.0", "", False),
        ("0.1.0", "new", False),
        ("0.1.0", "0.1", True),
    ],
)
def test_versions_one_minor_apart_work_together(ours: str, theirs: str, good: bool) -> None:
    assert fit(ours, theirs) is good
    assert fit(theirs, ours) is good


def _placeholders(text: str) -> list[str]:
    return [name for _before, name, _spec, _conversion in string.Formatter().parse(text) if name]
