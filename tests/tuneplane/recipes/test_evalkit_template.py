"""The parts of evalkit/benchmark that compute: intervals, means, refusals, and a report that is whole when it is there."""

from __future__ import annotations

import importlib
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tuneplane.recipes import index

Z95 = 1.959963984540054


@pytest.fixture
def results(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(index.CATALOG / "evalkit/benchmark/template"))
    yield importlib.import_module("results")
    sys.modules.pop("results")


@pytest.fixture
def refusals(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(index.CATALOG / "evalkit/benchmark/template"))
    yield importlib.import_module("refusals")
    sys.modules.pop("refusals")


@pytest.mark.parametrize(
    ("value", "stderr", "low", "high"),
    [
        (0.5, 0.1, 0.5 - 0.1 * Z95, 0.5 + 0.1 * Z95),
        (0.97, 0.1, 0.97 - 0.1 * Z95, 1.0),
        (0.0, 0.0, 0.0, 0.0),
        (12.5, 2.0, 12.5 - 2 * Z95, 12.5 + 2 * Z95),  # no share: a perplexity, a BLEU
        (-1.0, 2.0, -1 - 2 * Z95, -1 + 2 * Z95),
    ],
)
def test_an_interval_is_the_normal_one_and_shares_stay_shares(
    results: ModuleType, value: float, stderr: float, low: float, high: float
) -> None:
    found = results.Figure("acc", value, stderr).with_interval(0.95)
    assert (found["low"], found["high"]) == (pytest.approx(low), pytest.approx(high))


def test_without_an_error_there_is_no_interval(results: ModuleType) -> None:
    found = results.Figure("bleu", 3.0).with_interval(0.95)
    assert (found["stderr"], found["low"], found["high"]) == (None, None, None)


def test_the_standard_error_of_a_mean(results: ModuleType) -> None:
    figure = results.mean_figure("grade", [1.0, 0.0, 1.0, 0.5])
    assert figure.value == 0.625
    spread = math.sqrt(sum((value - 0.625) ** 2 for value in (1.0, 0.0, 1.0, 0.5)) / 3)
    assert figure.stderr == pytest.approx(spread / 2)
    assert results.mean_figure("grade", [1.0]).stderr is None


def test_a_report_is_replaced_as_a_whole(results: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "evaluations/report.json"
    results.write_json(path, {"tasks": [], "unit": "训练"})
    results.write_json(path, {"tasks": [1]})
    assert json.loads(path.read_text(encoding="utf-8")) == {"tasks": [1]}
    assert [item.name for item in path.parent.iterdir()] == ["report.json"]


@pytest.mark.parametrize(
    "answer",
    [
        "I'm sorry, but I can't help with that.",
        "I’m sorry.",
        "As an AI, I …",
        "Opening somebody's mail is illegal.",
        "抱歉，我不能提供这样的帮助。",
    ],
)
def test_refusals_are_seen(refusals: ModuleType, answer: str) -> None:
    assert refusals.is_refusal(answer)


@pytest.mark.parametrize("answer", ["", "Use kill -9 and the number of the process.", "Sure! First, …", "当然可以。"])
def test_answers_are_no_refusals(refusals: ModuleType, answer: str) -> None:
    assert not refusals.is_refusal(answer)
