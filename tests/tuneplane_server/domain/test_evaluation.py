"""What of two evaluation reports may be compared, how far figures lie apart, and when that is more than chance."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneplane_server.domain.evaluation import (
    Asking,
    Figure,
    Mismatch,
    Report,
    Setting,
    Task,
    compare,
    difference,
    error_of,
    interval,
    mismatches,
    score,
)

Z95 = 1.959963984540054
SHARES = st.floats(0, 1)
ERRORS = st.floats(1e-6, 1)
ASKING = Asking("lm-eval", chat_template=True)
TASK = Task("gsm8k", 1319, 1319, (Figure("exact_match", 0.5, 0.014),), version="3.0", num_fewshot=5)


def acc(value: float, stderr: float | None = 0.02, *, higher: bool = True) -> Figure:
    return Figure("acc", value, stderr, higher_is_better=higher)


def report(*tasks: Task, **asking: object) -> Report:
    return Report(replace(ASKING, **asking), tasks)


@pytest.mark.parametrize(
    ("figure", "expected"),
    [
        (acc(0.5, 0.1), (0.5 - 0.1 * Z95, 0.5 + 0.1 * Z95)),
        (acc(0.97, 0.1), (0.97 - 0.1 * Z95, 1.0)),
        (acc(0.01, 0.1), (0.0, 0.01 + 0.1 * Z95)),
        (acc(12.5, 2.0), (12.5 - 2 * Z95, 12.5 + 2 * Z95)),
    ],
)
def test_an_interval_is_the_normal_one_and_shares_stay_shares(figure: Figure, expected: tuple[float, float]) -> None:
    assert interval(figure, 0.95) == pytest.approx(expected)


@pytest.mark.parametrize("figure", [acc(0.5, None), acc(math.nan), acc(math.inf)])
def test_what_has_no_error_or_is_no_number_has_no_interval(figure: Figure) -> None:
    assert interval(figure, 0.95) is None
    assert error_of(figure, 100) is None


def test_where_all_rows_came_out_alike_the_error_is_not_taken_for_none() -> None:
    assert error_of(acc(0.3, 0.1), 5) == 0.1
    assert error_of(acc(1.0, 0.0), 8) == pytest.approx(math.sqrt(0.9 * 0.1 / 10))
    assert error_of(acc(0.0, 0.0), 8) == pytest.approx(error_of(acc(1.0, 0.0), 8))
    assert error_of(acc(7.0, 0.0), 8) is None  # no share: nobody knows
    assert error_of(acc(1.0, 0.0), 0) is None


def test_a_difference_has_the_errors_of_both() -> None:
    found = difference(acc(0.50, 0.03), acc(0.60, 0.04), (100, 100), 0.95)
    assert found is not None
    assert found.delta == pytest.approx(0.1)
    assert (found.low, found.high) == (pytest.approx(0.1 - Z95 * 0.05), pytest.approx(0.1 + Z95 * 0.05))
    assert (found.significant, found.better, found.few) == (True, True, False)


@pytest.mark.parametrize(
    ("other", "higher", "significant", "better"),
    [
        (acc(0.59, 0.04), True, False, True),  # the interval just holds 0
        (acc(0.40, 0.04), True, True, False),
        (acc(0.40, 0.04, higher=False), False, True, True),
        (acc(0.50, 0.04), True, False, None),
        (acc(0.60, None), True, None, True),
    ],
)
def test_significant_and_better_are_two_things(
    other: Figure, higher: bool, significant: bool | None, better: bool | None
) -> None:
    found = difference(acc(0.50, 0.03, higher=higher), other, (100, 100), 0.95)
    assert found is not None
    assert (found.significant, found.better) == (significant, better)


def test_few_rows_are_told() -> None:
    found = difference(acc(0.5), acc(0.9), (100, 29), 0.95)
    assert found is not None
    assert found.few
    assert difference(acc(math.nan), acc(0.9), (100, 100), 0.95) is None
    assert difference(acc(0.9), acc(math.inf), (100, 100), 0.95) is None


@given(SHARES, SHARES, ERRORS, ERRORS, st.integers(1, 5000), st.integers(1, 5000))
def test_the_other_way_round_it_is_the_same_with_the_sign_changed(
    one: float, two: float, first: float, second: float, rows: int, others: int
) -> None:
    there = difference(acc(one, first), acc(two, second), (rows, others), 0.95)
    back = difference(acc(two, second), acc(one, first), (others, rows), 0.95)
    assert there is not None
    assert back is not None
    assert there.low is not None
    assert back.high is not None
    assert (there.delta, there.low) == (-back.delta, -back.high)
    assert (there.significant, there.few) == (back.significant, back.few)
    assert there.better is None if back.better is None else there.better is not back.better


@given(SHARES, SHARES, ERRORS, ERRORS, st.floats(0.5, 0.99))
def test_more_confidence_never_makes_more_significant(
    one: float, two: float, first: float, second: float, confidence: float
) -> None:
    loose = difference(acc(one, first), acc(two, second), (50, 50), confidence)
    strict = difference(acc(one, first), acc(two, second), (50, 50), 0.999)
    assert loose is not None
    assert strict is not None
    assert loose.significant or not strict.significant


def test_equal_models_are_called_different_about_as_seldom_as_is_said() -> None:
    """2,000 pairs of measurements of one and the same model, with a seed: 5 % are called significant, within three standard errors."""
    chance, rows, wrong, pairs = random.Random(7), 200, 0, 2000

    def measured() -> Figure:
        share = sum(chance.random() < 0.7 for _row in range(rows)) / rows
        return acc(share, math.sqrt(share * (1 - share) / (rows - 1)))

    for _pair in range(pairs):
        found = difference(measured(), measured(), (rows, rows), 0.95)
        wrong += found is not None and found.significant is True
    assert abs(wrong / pairs - 0.05) < 3 * math.sqrt(0.05 * 0.95 / pairs)


def test_what_was_measured_alike_may_be_compared() -> None:
    assert mismatches(report(TASK), report(TASK), (TASK, TASK)) == ()


@pytest.mark.parametrize(
    ("setting", "task", "asking"),
    [
        (Setting.RUNNER, {}, {"runner": "own"}),
        (Setting.JUDGE, {"judge": "big-judge"}, {}),
        (Setting.VERSION, {"version": "3.1"}, {}),
        (Setting.FEWSHOT, {"num_fewshot": 0}, {}),
        (Setting.ROWS, {"total": 1320}, {}),
        (Setting.LIMIT, {"n": 100}, {"limit": 100}),
        (Setting.CHAT_TEMPLATE, {}, {"chat_template": False}),
        (Setting.SYSTEM_PROMPT, {}, {"system_prompt": "Think."}),
        (Setting.MAX_LENGTH, {}, {"max_length": 4096}),
        (Setting.MAX_NEW_TOKENS, {}, {"max_new_tokens": 16}),
        (Setting.TEMPERATURE, {}, {"temperature": 0.7}),
    ],
)
def test_each_setting_that_differs_is_named(
    setting: Setting, task: dict[str, object], asking: dict[str, object]
) -> None:
    other = replace(TASK, **task)
    found = mismatches(report(TASK), report(other, **asking), (TASK, other))
    assert [item.setting for item in found] == [setting]
    assert found[0].base != found[0].other


def test_limits_beyond_the_rows_that_there_are_ask_the_same() -> None:
    assert mismatches(report(TASK), report(TASK, limit=5000), (TASK, TASK)) == ()


def test_rows_that_got_no_grade_are_no_other_limit() -> None:
    fewer = replace(TASK, n=1300)
    assert mismatches(report(TASK), report(fewer), (TASK, fewer)) == ()


def test_every_figure_of_every_report_has_its_row_and_the_first_report_is_the_base() -> None:
    base = report(
        replace(TASK, figures=(Figure("exact_match", 0.5, 0.01), Figure("exact_match", 0.6, 0.01, "flexible")))
    )
    better = report(
        replace(TASK, figures=(Figure("exact_match", 0.6, 0.01),)), Task("mmlu", 100, 100, (acc(0.7),), version="1")
    )
    unlike = report(TASK, chat_template=False)
    rows = compare([base, better, unlike], 0.95)
    assert [(row.task, row.name, row.filter) for row in rows] == [
        ("gsm8k", "exact_match", ""),
        ("gsm8k", "exact_match", "flexible"),
        ("mmlu", "acc", ""),
    ]
    first, second, third = rows[0].cells
    assert (first.difference, first.mismatches, first.n) == (None, (), 1319)
    assert second.difference is not None
    assert second.difference.significant
    assert third.difference is None
    assert third.mismatches == (Mismatch(Setting.CHAT_TEMPLATE, True, False),)
    assert [cell.figure is None for cell in rows[1].cells] == [False, True, True]
    only = rows[2].cells[1]  # the base has no such task: shown, not compared
    assert only.figure is not None
    assert (only.difference, only.mismatches) == (None, ())


def test_a_figure_that_the_base_lacks_is_shown_and_not_compared() -> None:
    base = report(replace(TASK, figures=()))
    (row,) = compare([base, report(TASK)], 0.95)
    assert row.cells[0].figure is None
    assert row.cells[1].figure is not None
    assert row.cells[1].difference is None


def test_the_score_is_the_mean_of_what_is_good() -> None:
    assert score([acc(0.5), acc(0.25, higher=False)]) == pytest.approx((0.5 + 0.75) / 2)
    assert score([]) is None
    assert score([acc(0.5), acc(math.nan)]) is None
