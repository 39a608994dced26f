"""Evaluation reports side by side: what may be compared, how far two figures lie apart, and whether that may be chance. Pure.

The figures are means over rows, so their standard errors are those of a normal approximation. Two reports count as independent samples:
the error of a difference is √(a² + b²). Both models were asked the same rows, which makes the true error of the difference smaller as a
rule; what is called significant here would be so in a paired test too, nearly always.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist

type Value = str | int | float | bool | None

FEW_ROWS = 30  # fewer rows than these carry no normal approximation


@dataclass(frozen=True)
class Figure:
    """One number of a task. `stderr`: its standard error, None where nobody knows it. `value` may be NaN or infinite."""

    name: str
    value: float
    stderr: float | None = None
    filter: str = ""
    higher_is_better: bool = True


@dataclass(frozen=True)
class Task:
    """`n` rows were asked of `total`. The first figure stands for the task; a group stands for its parts."""

    task: str
    n: int
    total: int
    figures: tuple[Figure, ...] = ()
    version: str | None = None
    num_fewshot: int | None = None
    group: bool = False
    judge: str | None = None

    def figure(self, name: str, variant: str) -> Figure | None:
        return next((item for item in self.figures if (item.name, item.filter) == (name, variant)), None)


@dataclass(frozen=True)
class Asking:
    """How the model was asked, in all tasks alike. None: as each task says. `limit` None: all rows."""

    runner: str
    chat_template: bool = False
    limit: int | None = None
    system_prompt: str | None = None
    max_length: int | None = None
    max_new_tokens: int | None = None
    temperature: float | None = None


@dataclass(frozen=True)
class Report:
    asking: Asking
    tasks: tuple[Task, ...]

    def task(self, name: str) -> Task | None:
        return next((item for item in self.tasks if item.task == name), None)


class Setting(StrEnum):
    """What makes two figures of one task incomparable when it differs."""

    RUNNER = "runner"
    JUDGE = "judge"
    VERSION = "version"
    FEWSHOT = "num_fewshot"
    ROWS = "rows"
    LIMIT = "limit"
    CHAT_TEMPLATE = "chat_template"
    SYSTEM_PROMPT = "system_prompt"
    MAX_LENGTH = "max_length"
    MAX_NEW_TOKENS = "max_new_tokens"
    TEMPERATURE = "temperature"


@dataclass(frozen=True)
class Mismatch:
    """A setting in which two reports differ about a task, with the base's value and the other's."""

    setting: Setting
    base: Value
    other: Value


@dataclass(frozen=True)
class Difference:
    """`delta` = other - base. `low`, `high`: its interval, None where an error is not known. `significant`: the interval holds no 0,
    None where there is none. `better`: the other is, None when they are equal. `few`: too few rows to trust the interval.
    """

    delta: float
    low: float | None
    high: float | None
    significant: bool | None
    better: bool | None
    few: bool


@dataclass(frozen=True)
class Cell:
    """One report's figure beside the base's. `figure` None: it has none of that name. `difference` None for the base itself, where a
    figure is missing or no number, and where settings differ: those are the `mismatches`.
    """

    figure: Figure | None
    n: int = 0
    difference: Difference | None = None
    mismatches: tuple[Mismatch, ...] = ()


@dataclass(frozen=True)
class Row:
    """One figure of one task over all reports, in their order; the first report is the base."""

    task: str
    name: str
    filter: str
    higher_is_better: bool
    cells: tuple[Cell, ...]


def interval(figure: Figure, confidence: float) -> tuple[float, float] | None:
    """value ± z · stderr; what is a share stays between 0 and 1. None where the error is not known or the value is no number."""
    if figure.stderr is None or not math.isfinite(figure.value):
        return None
    reach = _z(confidence) * figure.stderr
    low, high = figure.value - reach, figure.value + reach
    return (max(0.0, low), min(1.0, high)) if 0 <= figure.value <= 1 else (low, high)


def error_of(figure: Figure, n: int) -> float | None:
    """The standard error to compare with. When all rows came out alike the sample shows none, which is not to say that there is none:
    for a share one success and one failure are added (Agresti and Caffo 2000), for anything else it is not known.
    """
    if figure.stderr is None or not math.isfinite(figure.value):
        return None
    if figure.stderr > 0:
        return figure.stderr
    if not 0 <= figure.value <= 1 or n < 1:
        return None
    share = (n * figure.value + 1) / (n + 2)
    return math.sqrt(share * (1 - share) / (n + 2))


def difference(base: Figure, other: Figure, rows: tuple[int, int], confidence: float) -> Difference | None:
    """How far `other` lies from `base`; `rows`: how many each was measured on. None when one of them is no number."""
    if not (math.isfinite(base.value) and math.isfinite(other.value)):
        return None
    delta = other.value - base.value
    better = None if delta == 0 else (delta > 0) == base.higher_is_better
    errors = error_of(base, rows[0]), error_of(other, rows[1])
    few = min(rows) < FEW_ROWS
    if errors[0] is None or errors[1] is None:
        return Difference(delta, None, None, None, better, few)
    reach = _z(confidence) * math.hypot(errors[0], errors[1])
    low, high = delta - reach, delta + reach
    return Difference(delta, low, high, low > 0 or high < 0, better, few)


def mismatches(base: Report, other: Report, tasks: tuple[Task, Task]) -> tuple[Mismatch, ...]:
    """In what the two reports were not made alike as far as the task goes (`tasks`: the base's and the other's); empty: comparable."""
    one, two = tasks
    first, second = base.asking, other.asking
    found = [
        Mismatch(Setting.RUNNER, first.runner, second.runner),
        Mismatch(Setting.JUDGE, one.judge, two.judge),
        Mismatch(Setting.VERSION, one.version, two.version),
        Mismatch(Setting.FEWSHOT, one.num_fewshot, two.num_fewshot),
        Mismatch(Setting.ROWS, one.total, two.total),
        Mismatch(Setting.CHAT_TEMPLATE, first.chat_template, second.chat_template),
        Mismatch(Setting.SYSTEM_PROMPT, first.system_prompt, second.system_prompt),
        Mismatch(Setting.MAX_LENGTH, first.max_length, second.max_length),
        Mismatch(Setting.MAX_NEW_TOKENS, first.max_new_tokens, second.max_new_tokens),
        Mismatch(Setting.TEMPERATURE, first.temperature, second.temperature),
    ]
    # Two limits beyond the rows that there are asked the same rows.
    if one.n != two.n:
        found.append(Mismatch(Setting.LIMIT, first.limit, second.limit))
    return tuple(item for item in found if item.base != item.other)


def compare(reports: Sequence[Report], confidence: float) -> list[Row]:
    """Every figure that any of the reports has, in the order of the reports; the first report is what the others are compared with."""
    rows = []
    for name, figure in _figures(reports):
        cells = [_cell(reports[0], report, name, figure, confidence) for report in reports]
        rows.append(Row(name, figure.name, figure.filter, figure.higher_is_better, tuple(cells)))
    return rows


def score(heads: Iterable[Figure]) -> float | None:
    """The mean of the figures that stand for tasks; where lower is better, 1 minus it. None of none, or of what is no number."""
    values = [item.value if item.higher_is_better else 1 - item.value for item in heads]
    if not values or not all(math.isfinite(value) for value in values):
        return None
    return math.fsum(values) / len(values)


def _cell(base: Report, report: Report, name: str, wanted: Figure, confidence: float) -> Cell:
    mine, theirs = report.task(name), base.task(name)
    figure = None if mine is None else mine.figure(wanted.name, wanted.filter)
    if mine is None or figure is None:
        return Cell(None)
    against = None if theirs is None else theirs.figure(wanted.name, wanted.filter)
    if report is base or theirs is None or against is None:
        return Cell(figure, mine.n)
    apart = mismatches(base, report, (theirs, mine))
    if apart:
        return Cell(figure, mine.n, None, apart)
    return Cell(figure, mine.n, difference(against, figure, (theirs.n, mine.n), confidence))


def _figures(reports: Sequence[Report]) -> list[tuple[str, Figure]]:
    """(task, a figure of the name) of every figure that there is, each once: tasks in order, the figures of a task together."""
    found: dict[str, dict[tuple[str, str], Figure]] = {}
    for report in reports:
        for task in report.tasks:
            of_task = found.setdefault(task.task, {})
            for figure in task.figures:
                of_task.setdefault((figure.name, figure.filter), figure)
    return [(task, figure) for task, figures in found.items() for figure in figures.values()]


def _z(confidence: float) -> float:
    return NormalDist().inv_cdf(0.5 + confidence / 2)
