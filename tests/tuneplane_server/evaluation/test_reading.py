"""A report comes out of a job: whatever is in it, either figures are kept or one clear problem, and nothing breaks."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tuneplane_server.evaluation.build import figure, report, task
from tuneplane.i18n import using_language
from tuneplane_server.db.base import JsonText
from tuneplane_server.features.evaluation.kept import heads_of, report_of, score_of
from tuneplane_server.features.evaluation.problems import problem_view
from tuneplane_server.features.evaluation.reading import MAX_BYTES, Found, parse_report, read_report

RUN = "06fq9k2mc8v1x3ra"
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)


def parse(value: Any) -> Found:
    return parse_report(value if isinstance(value, bytes) else json.dumps(value).encode(), RUN)


def broken(**changes: Any) -> dict[str, Any]:
    """A good report with parts of it replaced; None takes a part out."""
    return {key: value for key, value in {**report(), **changes}.items() if value is not None}


def check_usable(found: Found) -> None:
    """What is kept goes into the database and through the domain; a problem has its words in both languages."""
    if found.report is not None:
        JsonText().process_bind_param(found.report, None)  # ty: ignore[invalid-argument-type]
        report_of(found.report)
        heads_of(found.report)
        score_of(found.report)
        return
    assert found.problem is not None
    JsonText().process_bind_param(found.problem.to_json(), None)  # ty: ignore[invalid-argument-type]
    for language in ("en", "zh-Hans"):
        with using_language(language):
            view = problem_view(found.problem.to_json())
        assert view is not None
        assert view.text.startswith("evaluations/report.json ")
        assert view.hint
        assert "{" not in view.text


def test_a_good_report_is_kept_with_the_intervals_worked_out_anew() -> None:
    lying = report(task("arc", figures=[figure(0.5, 0.1, low=0.499, high=0.501)]))
    found = parse(lying).report
    assert found is not None
    (kept,) = found["tasks"][0]["figures"]
    assert (kept["low"], kept["high"]) == (pytest.approx(0.5 - 0.196, abs=1e-4), pytest.approx(0.5 + 0.196, abs=1e-4))
    assert found["model"] == {
        "name": "Qwen/Qwen3-0.6B",
        "revision": None,
        "given": True,
        "chat_template": True,
        "parameters": 596,
    }
    assert (found["confidence"], found["seconds"], found["versions"]["lm_eval"]) == (0.95, 12.5, "0.4.13")


def test_parts_of_groups_do_not_count_for_the_score() -> None:
    parts = [task("mmlu", 0.5, pack="mmlu", group=True), task("mmlu_law", 0.1), task("mmlu_math", 0.9)]
    found = parse(report(*parts, settings={"tasks": []})).report
    assert found is not None
    assert [head["task"] for head in heads_of(found)] == ["mmlu"]
    assert score_of(found) == 0.5


def test_of_a_report_that_does_not_say_what_was_asked_for_every_task_counts() -> None:
    found = parse(report(task("a", 0.2), task("b", 0.4), task("empty", figures=[]), settings={"tasks": 3})).report
    assert found is not None
    assert score_of(found) == pytest.approx(0.3)


def test_a_number_that_json_lacks_is_a_value() -> None:
    content = json.dumps(report(task("ppl", math.inf, math.nan)), allow_nan=True).encode()
    found = parse_report(content, RUN)
    check_usable(found)
    assert found.report is not None
    assert found.report["tasks"][0]["figures"][0] | {"name": ""} == {
        "name": "", "filter": "", "value": "Infinity", "stderr": None, "low": None, "high": None, "higher_is_better": True,
    }  # fmt: skip
    assert score_of(found.report) is None


BROKEN: dict[str, tuple[Any, str, str]] = {
    "nothing": (b"", "not-json", "EOF"),
    "cut off": (json.dumps(report()).encode()[:-40], "not-json", "EOF"),
    "html": (b"<html>502</html>", "not-json", "expected value"),
    "binary": (bytes(range(256)), "not-json", ""),
    "not utf-8": (b'{"apiVersion": "\xff"}', "not-json", ""),
    "nested": (b"[" * 100_000, "not-json", "recursion"),
    "a list": ([], "not-a-report", ""),
    "a number": (12, "not-a-report", ""),
    "no version": (broken(apiVersion=None), "other-version", "tuneplane/evaluation-report/v1"),
    "next version": (broken(apiVersion="tuneplane/evaluation-report/v9"), "other-version", "v9"),
    "no tasks": (broken(tasks=None), "not-a-report", "tasks is missing"),
    "tasks no list": (broken(tasks={"a": 1}), "not-a-report", "tasks must be a list"),
    "a task twice": (report(task("a"), task("a")), "not-a-report", "gives a task twice"),
    "a figure twice": (report(task(figures=[figure(1), figure(2)])), "not-a-report", "tasks.0 gives a figure twice"),
    "more asked than there are": (report(task(n=7, total=6)), "not-a-report", "asks more rows than there are"),
    "negative count": (report(task(n=-1)), "not-a-report", "tasks.0.n must be at least 0"),
    "a huge count": (report(task(total=10**30)), "not-a-report", "tasks.0.total must be"),
    "count as text": (report(task(n="600")), "not-a-report", "tasks.0.n must be a whole number"),
    "value as text": (report(task(figures=[figure(0) | {"value": "0.5"}])), "not-a-report", "value must be a number"),
    "value missing": (report(task(figures=[{"name": "acc"}])), "not-a-report", "tasks.0.figures.0.value is missing"),
    "no name": (report(task(name="")), "not-a-report", "tasks.0.task needs"),
    "a long name": (report(task(name="x" * 500)), "not-a-report", "tasks.0.task may have at most 200"),
    "confidence of 1": (broken(interval={"confidence": 1}), "not-a-report", "interval.confidence must be at most"),
    "confidence no number": (broken(interval={"confidence": "NaN"}), "not-a-report", "must be a number"),
    "model no object": (broken(model="gpt2"), "not-a-report", "model must hold keys and values"),
    "all of it wrong": (broken(model=1, runner=1, tasks=1, versions=1, settings=1, seconds=-1), "not-a-report", "and 1 more"),
    "another run's": (broken(run={"run_id": "06fq9k2mc8v1x3rb"}), "other-run", "06fq9k2mc8v1x3rb"),
}  # fmt: skip


@pytest.mark.parametrize(("content", "code", "said"), BROKEN.values(), ids=BROKEN)
def test_a_broken_report_has_one_problem_that_says_what_is_wrong(content: Any, code: str, said: str) -> None:
    found = parse(content)
    check_usable(found)
    assert found.problem is not None
    assert found.problem.code == code
    view = problem_view(found.problem.to_json())
    assert view is not None
    assert said in view.text


@settings(max_examples=150)
@given(JSON)
def test_any_json_is_a_report_or_a_problem(value: Any) -> None:
    check_usable(parse_report(json.dumps(value).encode(), RUN))


@settings(max_examples=150)
@given(st.sampled_from(["runner", "model", "settings", "versions", "interval", "seconds", "tasks", "run"]), JSON)
def test_any_part_of_a_report_may_be_anything(part: str, value: Any) -> None:
    check_usable(parse_report(json.dumps({**report(), part: value}).encode(), RUN))


def test_a_report_with_odd_texts_is_kept_without_what_databases_refuse() -> None:
    found = parse(report(task("n\0ul"), settings={"a\0b": "\0", "big": 10**100, "deep": [[{"x": 1e999}]]}))
    check_usable(found)
    assert found.report is not None
    assert "\\u0000" not in json.dumps(found.report)
    assert (found.report["settings"]["big"], found.report["settings"]["deep"]) == ("Infinity", [[{"x": "Infinity"}]])


def test_the_file_is_read_within_bounds_and_no_link_is_followed(tmp_path: Path) -> None:
    assert read_report(tmp_path, RUN) is None
    path = tmp_path / "evaluations/report.json"
    path.parent.mkdir()
    path.write_bytes(b" " * (MAX_BYTES + 1))
    too_large = read_report(tmp_path, RUN)
    assert too_large is not None
    assert too_large.problem is not None
    assert too_large.problem.code == "too-large"
    path.unlink()
    outside = tmp_path.parent / f"{tmp_path.name}-outside.json"
    outside.write_text(json.dumps(report()))
    path.symlink_to(outside)
    link = read_report(tmp_path, RUN)
    assert link is not None
    assert link.problem is not None
    assert link.problem.code == "link"
    check_usable(link)
    path.unlink()
    path.mkdir()
    assert read_report(tmp_path, RUN) is None
