"""What a probe tells becomes findings, each with what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from tuneplane_server.executors.port import Finding
from tuneplane_server.executors.slurm.probe.answers import Answer, ExitVerdict
from tuneplane_server.executors.slurm.probe.judging import Asked, Seen, judge, judge_exit

ASKED = Asked("gpu", "/data", "http://10.0.0.1:8642", "apptainer", cards=1, answers_here=True)
SEEN = Seen(1_000_000.0, 1_000_002.0)
TOLD = {
    "nonce": "a" * 64, "host": "n1", "uid": "1001", "user": "trainer", "file_system": "nfs", "tmp_free_kb": "104857600",
    "http_tool": "curl", "http_status": "200", "http_said": "", "container": "apptainer version 1.3.4", "container_problem": "",
    "cards": "0", "products": "GPU 0: NVIDIA H200;", "time": "1000001",
}  # fmt: skip
ANSWER = Answer.of(TOLD)


def only(found: Sequence[Finding], code: str) -> Finding:
    (one,) = [finding for finding in found if finding.code == code]
    return one


def test_a_good_node_is_told_line_by_line() -> None:
    found = judge(ASKED, ANSWER, SEEN)
    assert {item.level for item in found} == {"info"}
    assert [item.code for item in found] == ["probe-storage", "probe-ingest", "probe-container", "probe-cards", "probe-disk"]  # fmt: skip
    assert "trainer (uid 1001)" in found[0].text
    assert "apptainer version 1.3.4" in found[2].text
    assert found[3].detail == "GPU 0: NVIDIA H200"
    assert "100.0 GB" in found[4].text


@pytest.mark.parametrize(
    ("changes", "asked", "level", "said"),
    [
        ({"http_status": 0, "http_said": "(7) refused"}, ASKED, "error", "TUNEPLANE_INGEST_URL"),
        ({"http_status": 0}, replace(ASKED, answers_here=False), "error", "tuneplane-server serve"),
        ({"http_status": 502}, ASKED, "error", "TUNEPLANE_INGEST_URL"),
        ({"http_tool": "", "http_status": 0}, ASKED, "warning", "curl, wget, python3 and bash"),
    ],
)
def test_a_console_that_is_not_reached(changes: dict[str, object], asked: Asked, level: str, said: str) -> None:
    finding = only(judge(asked, replace(ANSWER, **changes), SEEN), "probe-ingest")
    assert finding.level == level
    assert "http://10.0.0.1:8642" in finding.text
    assert said in finding.hint


@pytest.mark.parametrize(
    ("profile", "problem", "said"),
    [
        ("apptainer", "missing", "neither apptainer nor singularity"),
        ("enroot-pyxis", "missing", "pyxis"),
        ("oci", "no-oci-conf", "oci.conf"),
        ("oci", "ignored", "on the compute node itself"),
        ("oci", "failed", "bundle"),
    ],
)
def test_a_container_runtime_that_is_not_there(profile: str, problem: str, said: str) -> None:
    asked = replace(ASKED, container=profile)
    finding = only(judge(asked, replace(ANSWER, container_problem=problem), SEEN), "probe-container")
    assert finding.level == "error"
    assert said in finding.text
    assert "TUNEPLANE_SLURM_CONTAINER" in finding.hint


def test_cards_are_looked_at_where_one_was_asked_for() -> None:
    assert only(judge(ASKED, replace(ANSWER, cards=""), SEEN), "probe-cards").level == "error"
    assert only(judge(ASKED, replace(ANSWER, products=""), SEEN), "probe-cards").detail == "CUDA_VISIBLE_DEVICES=0"
    none_asked = judge(replace(ASKED, cards=0), replace(ANSWER, cards=""), SEEN)
    assert not [item for item in none_asked if item.code == "probe-cards"]


@pytest.mark.parametrize(("free", "level"), [(4.9, "warning"), (5.0, "info"), (None, None)])
def test_the_room_in_tmp(free: float | None, level: str | None) -> None:
    found = [item for item in judge(ASKED, replace(ANSWER, tmp_free_gb=free), SEEN) if item.code == "probe-disk"]
    assert [item.level for item in found] == ([level] if level else [])


@pytest.mark.parametrize(
    ("time", "said"),
    [
        (1_000_002 + 61, "61 s ahead"),
        (1_000_002 + 59, ""),
        (1_000_000 - 90, "89 s behind"),
        (1_000_000 - 60, ""),
        (None, ""),
    ],
)
def test_only_a_clock_that_is_proved_wrong_is_told(time: int | None, said: str) -> None:
    found = [item for item in judge(ASKED, replace(ANSWER, time=time), SEEN) if item.code == "probe-clock"]
    assert bool(found) == bool(said)
    assert all(said in item.text and item.level == "warning" for item in found)


@pytest.mark.parametrize(
    ("code", "storage", "http", "container"),
    [(64, "ok", True, True), (65, "missing", True, True), (64 + 2 + 8, "other", False, True), (64 + 3 + 16, "forbidden", True, False), (64 + 4 + 8 + 16, "read-only", False, False)],
)  # fmt: skip
def test_the_exit_code_tells_what_no_file_could(code: int, storage: str, http: bool, container: bool) -> None:
    verdict = ExitVerdict.of(code)
    assert verdict == ExitVerdict(storage, http, container)  # ty: ignore[invalid-argument-type]
    assert verdict is not None
    found = judge_exit(ASKED, verdict)
    assert {item.level for item in found} == {"error"}
    assert [item.code for item in found] == ["probe-storage"] + ["probe-ingest"] * (not http) + ["probe-container"] * (not container)  # fmt: skip
    assert "/data" in found[0].text


@pytest.mark.parametrize("code", [None, 0, 1, 63, 64 + 5, 64 + 7, 126, 127, 128, 137, 192])
def test_any_other_exit_code_tells_nothing(code: int | None) -> None:
    assert ExitVerdict.of(code) is None


def test_an_answer_with_less_in_it_is_still_one() -> None:
    answer = Answer.of({"nonce": "x", "time": "soon", "tmp_free_kb": ""})
    assert (answer.time, answer.tmp_free_gb, answer.http_status, answer.host) == (None, None, 0, "?")
