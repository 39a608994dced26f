"""The calls of evaluations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NotRequired, TypedDict
from urllib.parse import quote

from tuneplane.client.http import Console
from tuneplane.client.types import Number


class EvaluatedModel(TypedDict):
    """`ref`: as it was asked for, None for the template's own tiny model. `run`, `step`: of a run's checkpoint."""

    ref: str | None
    run: str | None
    step: int | None
    name: str | None
    revision: NotRequired[str | None]
    parameters: NotRequired[int | None]
    chat_template: NotRequired[bool | None]


class Figure(TypedDict):
    """`filter`: empty for most. `stderr` and the interval are None where nobody knows the error."""

    name: str
    filter: str
    value: Number
    stderr: float | None
    low: Number | None
    high: Number | None
    higher_is_better: bool


class Head(Figure):
    """A task with the figure that stands for it."""

    task: str
    n: int


class EvaluatedTask(TypedDict):
    """`n` rows were asked of `total`. The first figure stands for the task."""

    task: str
    pack: str | None
    group: bool
    version: str | None
    n: int
    total: int
    num_fewshot: int | None
    notes: list[str]
    figures: list[Figure]


class GateResult(TypedDict):
    """`state`: passed, failed, missing. `certain`: both ends of the figure's interval say the same."""

    metric: str
    min: float | None
    max: float | None
    state: str
    value: float | None
    certain: bool | None


class ReportProblem(TypedDict):
    code: str
    text: str
    hint: NotRequired[str]


class Evaluation(TypedDict):
    """`run`: the one that evaluated. `tasks` and what follows it are missing in listings. `problem`: its report cannot be used."""

    run: str
    attempt: int
    owner: str
    project: str
    experiment: str
    display_name: str | None
    recipe: str
    model: EvaluatedModel
    runner: str | None
    task_count: int
    score: Number | None
    heads: list[Head]
    problem: ReportProblem | None
    created_at: str
    gates: NotRequired[list[GateResult]]
    tasks: NotRequired[list[EvaluatedTask]]
    settings: NotRequired[dict[str, Any]]
    versions: NotRequired[dict[str, str]]
    confidence: NotRequired[float | None]
    seconds: NotRequired[float | None]


class EvaluationPage(TypedDict):
    items: list[Evaluation]
    next_cursor: NotRequired[str | None]


class Mismatch(TypedDict):
    setting: str
    text: str


class Difference(TypedDict):
    """`significant` None: no error is known. `few`: too few rows for the interval to mean much."""

    delta: Number
    low: Number | None
    high: Number | None
    significant: bool | None
    better: bool | None
    few: bool


class Cell(TypedDict):
    value: Number | None
    stderr: float | None
    n: int
    difference: Difference | None
    mismatches: list[Mismatch]


class Row(TypedDict):
    task: str
    name: str
    filter: str
    higher_is_better: bool
    cells: list[Cell]


class Comparison(TypedDict):
    """`runs`: the base first; each row has a cell for every run, in this order."""

    confidence: float
    runs: list[Evaluation]
    rows: list[Row]


class EvaluationConsole(Console):
    def evaluation(self, run: str, attempt: int | None = None) -> Evaluation:
        """The report of a run. Raises `NotFoundError` when it has none."""
        return self._get(f"/jobs/{quote(run, safe='')}/evaluation", Evaluation, {"attempt": attempt})

    def iterate_evaluations(self, **filters: Any) -> Iterator[Evaluation]:
        """Newest first; filters: project, model, limit (of a page)."""
        return self._pages(lambda cursor: self._get("/evaluations", EvaluationPage, {**filters, "cursor": cursor}))

    def compare_evaluations(self, runs: Sequence[str], confidence: float | None = None) -> Comparison:
        """The first run is what the others are compared with."""
        return self._get("/evaluations/compare", Comparison, {"run": list(runs), "confidence": confidence})
