"""Launch requests, handles and mounts: what is refused, and that nothing secret is told."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneplane_node.engine import LABEL_ATTEMPT, LABEL_JOB, LaunchRequest, Mount, NodeError, RuntimeHandle, parse_mounts
from tuneplane_node.engine.requests import same_identity, signal_of

LABELS = {LABEL_JOB: "j", LABEL_ATTEMPT: "1"}


def request(**fields: Any) -> LaunchRequest:
    values: dict[str, Any] = {"name": "tp-1", "labels": LABELS, "command": ["sh"], **fields}
    return LaunchRequest(**values)


@pytest.mark.parametrize("fields", [
    {"name": ""}, {"name": "a"}, {"name": "A" * 10}, {"name": "-ab"}, {"name": "a" * 64}, {"name": "a/b"}, {"name": "名"},
    {"labels": {LABEL_JOB: "j"}}, {"labels": {LABEL_ATTEMPT: "1", LABEL_JOB: ""}},
    {"command": []}, {"command": ["a\0b"]},
    {"env": {"1A": "x"}}, {"env": {"A=B": "x"}}, {"env": {"A": "x\0y"}}, {"env": {"": "x"}},
    {"mounts": [Mount("relative", "/x")]}, {"mounts": [Mount("/x", "relative")]}, {"mounts": [Mount("/a/../etc", "/x")]},
    {"gpus": (1, 1)}, {"gpus": (-1,)}, {"cpus": 0}, {"cpus": -1.0}, {"cpus": float("nan")}, {"cpus": float("inf")},
    {"memory_bytes": 0}, {"workdir": "here"}, {"workdir": "/a/../b"},
])  # fmt: skip
def test_a_request_that_makes_no_sense_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(NodeError) as refusal:
        request(**fields)
    assert refusal.value.code == "request-invalid"


def test_a_refusal_does_not_tell_a_value_of_the_environment() -> None:
    with pytest.raises(NodeError) as refusal:
        request(env={"TOKEN": "s3cret\0"})
    assert "TOKEN" in str(refusal.value)
    assert "s3cret" not in str(refusal.value) + refusal.value.text()


@given(st.from_regex(r"[a-z0-9][a-z0-9-]{1,62}", fullmatch=True))
def test_a_handle_survives_being_text(name: str) -> None:
    for runtime in ("docker", "podman", "process"):
        handle = RuntimeHandle(runtime, name)
        assert RuntimeHandle.parse(str(handle)) == handle


@pytest.mark.parametrize(
    "text", ["", "docker", "docker/", "/name", "docker/../etc", "docker/a/b", "Docker/ab", "docker/ab\n"]
)
def test_text_that_is_no_handle_is_refused(text: str) -> None:
    with pytest.raises(NodeError) as refusal:
        RuntimeHandle.parse(text)
    assert refusal.value.code == "request-invalid"


def test_mounts_are_read_from_a_setting() -> None:
    assert parse_mounts("") == ()
    assert parse_mounts("/a:/b:ro, /data:/data ,/c:/d:rw,") == (
        Mount("/a", "/b", read_only=True),
        Mount("/data", "/data"),
        Mount("/c", "/d"),
    )


@pytest.mark.parametrize("text", ["/a", "/a:b", "a:/b", "/a:/b:rx", "/a:/b:ro:x", "/a/../b:/c", ":", "/a:/b;/c:/d"])
def test_a_mount_that_makes_no_sense_is_refused_with_its_form(text: str) -> None:
    with pytest.raises(NodeError) as refusal:
        parse_mounts(text)
    assert refusal.value.code == "setting-invalid"
    assert "TUNEPLANE_CONTAINER_MOUNTS" in refusal.value.text()
    assert "/host/path:/container/path" in refusal.value.hint()


@pytest.mark.parametrize(
    ("code", "number"),
    [(None, None), (0, None), (128, None), (129, 1), (137, 9), (143, 15), (192, 64), (193, None), (255, None)],
)
def test_exit_codes_stand_for_signals_as_in_a_shell(code: int | None, number: int | None) -> None:
    assert signal_of(code) == number


def test_identity_is_job_attempt_and_console() -> None:
    ours = {LABEL_JOB: "j", LABEL_ATTEMPT: "1", "tuneplane.instance": "i", "more": "x"}
    assert same_identity(ours, {**ours, "more": "y"})
    for label in (LABEL_JOB, LABEL_ATTEMPT, "tuneplane.instance"):
        assert not same_identity(ours, {**ours, label: "other"})
        assert not same_identity(ours, {key: value for key, value in ours.items() if key != label})
