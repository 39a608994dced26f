"""How evaluations look to a reader: the shapes of the API."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from pydantic import BaseModel

from tuneplane.i18n import N_, _
from tuneplane_server.domain.evaluation import Cell, Mismatch, Row, Setting, Value, interval
from tuneplane_server.domain.series_codec import json_number
from tuneplane_server.features.evaluation.problems import ProblemView, problem_view
from tuneplane_server.features.evaluation.service import Comparison
from tuneplane_server.features.evaluation.tables import EvaluationRow

type Number = float | str
"""Strings for what JSON has no number for: "NaN", "Infinity", "-Infinity"."""

_WORDS = {
    Setting.RUNNER: N_("other runner ({base}, {other})"),
    Setting.JUDGE: N_("other judge model ({base}, {other})"),
    Setting.VERSION: N_("other version of the task ({base}, {other})"),
    Setting.FEWSHOT: N_("other number of examples ({base}, {other})"),
    Setting.ROWS: N_("other number of rows in the data ({base}, {other})"),
    Setting.LIMIT: N_("other limit of rows ({base}, {other})"),
    Setting.CHAT_TEMPLATE: N_("with and without the chat template"),
    Setting.SYSTEM_PROMPT: N_("other system message"),
    Setting.MAX_LENGTH: N_("other longest length ({base}, {other})"),
    Setting.MAX_NEW_TOKENS: N_("other longest answer ({base}, {other})"),
    Setting.TEMPERATURE: N_("other temperature ({base}, {other})"),
}


class ModelView(BaseModel):
    """`ref`: as the JobSpec has it, None for the tiny model that the template makes. `run`, `step`: of a run's checkpoint. `name`: as
    the job itself names it. The others only with the whole report.
    """

    ref: str | None
    run: str | None
    step: int | None
    name: str | None
    revision: str | None = None
    parameters: int | None = None
    chat_template: bool | None = None


class HeadView(BaseModel):
    """A task with the figure that stands for it."""

    task: str
    name: str
    filter: str
    value: Number
    stderr: float | None
    low: Number | None
    high: Number | None
    higher_is_better: bool
    n: int


class GateView(BaseModel):
    """`state`: passed, failed, missing (there is no such figure). `certain`: both ends of the figure's interval say the same."""

    metric: str
    min: float | None
    max: float | None
    state: str
    value: float | None
    certain: bool | None


class EvaluationView(BaseModel):
    """As listings show it. `run`: that evaluated, not that is evaluated. `tasks`: how many were asked for. `problem`: the report cannot
    be used; then there is nothing else of it.
    """

    run: str
    attempt: int
    owner: str
    project: str
    experiment: str
    display_name: str | None
    recipe: str
    model: ModelView
    runner: str | None
    task_count: int
    score: Number | None
    heads: list[HeadView]
    gates: list[GateView]
    problem: ProblemView | None
    created_at: datetime


class EvaluationDetail(EvaluationView):
    """`tasks`: [{task, pack, group, version, n, total, num_fewshot, notes, figures: [{name, filter, value, stderr, low, high,
    higher_is_better}]}]. `confidence`: of the intervals."""

    tasks: list[dict[str, Any]]
    settings: dict[str, Any]
    versions: dict[str, str]
    confidence: float | None
    seconds: float | None


class MismatchView(BaseModel):
    setting: str
    base: Value
    other: Value
    text: str


class DifferenceView(BaseModel):
    """Against the first run. `significant` None: no standard error is known. `few`: too few rows for the interval to mean much."""

    delta: Number
    low: Number | None
    high: Number | None
    significant: bool | None
    better: bool | None
    few: bool


class CellView(BaseModel):
    """`value` None: this run has no such figure. `mismatches`: why it is not compared."""

    value: Number | None
    stderr: float | None
    low: Number | None
    high: Number | None
    n: int
    difference: DifferenceView | None
    mismatches: list[MismatchView]


class RowView(BaseModel):
    task: str
    name: str
    filter: str
    higher_is_better: bool
    cells: list[CellView]


class ComparisonView(BaseModel):
    """`runs`: the base first. `rows`: one for each figure of a task, its cells in the order of the runs."""

    confidence: float
    runs: list[EvaluationView]
    rows: list[RowView]


def evaluation_view(row: EvaluationRow) -> EvaluationView:
    return EvaluationView(**_common(row))


def evaluation_detail(row: EvaluationRow) -> EvaluationDetail:
    kept = row.report or {}
    found = EvaluationDetail(
        **_common(row),
        tasks=kept.get("tasks", []),
        settings=kept.get("settings", {}),
        versions=kept.get("versions", {}),
        confidence=kept.get("confidence"),
        seconds=kept.get("seconds"),
    )
    for name in ("revision", "parameters", "chat_template"):
        setattr(found.model, name, kept.get("model", {}).get(name))
    return found


def comparison_view(found: Comparison) -> ComparisonView:
    return ComparisonView(
        confidence=found.confidence,
        runs=[evaluation_view(row) for row in found.runs],
        rows=[_row_view(row, found.confidence) for row in found.rows],
    )


def _common(row: EvaluationRow) -> dict[str, Any]:
    names = ("attempt", "owner", "project", "experiment", "display_name", "recipe", "runner", "created_at")
    return {
        **{name: getattr(row, name) for name in names},
        "run": row.job_id,
        "model": ModelView(ref=row.model_ref, run=row.model_run, step=row.model_step, name=row.model_name),
        "task_count": row.tasks,
        "score": None if row.score is None else json_number(row.score),
        "heads": [HeadView(**item) for item in row.heads],
        "gates": [GateView(**item) for item in row.gates],
        "problem": problem_view(row.problem),
    }


def _row_view(row: Row, confidence: float) -> RowView:
    return RowView(
        task=row.task,
        name=row.name,
        filter=row.filter,
        higher_is_better=row.higher_is_better,
        cells=[_cell_view(cell, confidence) for cell in row.cells],
    )


def _cell_view(cell: Cell, confidence: float) -> CellView:
    figure = cell.figure
    around = None if figure is None else interval(figure, confidence)
    return CellView(
        value=None if figure is None else json_number(figure.value),
        stderr=None if figure is None else figure.stderr,
        low=None if around is None else json_number(around[0]),
        high=None if around is None else json_number(around[1]),
        n=cell.n,
        difference=_difference_view(cell),
        mismatches=mismatch_views(cell.mismatches),
    )


def _difference_view(cell: Cell) -> DifferenceView | None:
    found = cell.difference
    if found is None:
        return None
    return DifferenceView(
        delta=json_number(found.delta),
        low=None if found.low is None else json_number(found.low),
        high=None if found.high is None else json_number(found.high),
        significant=found.significant,
        better=found.better,
        few=found.few,
    )


def mismatch_views(found: Sequence[Mismatch]) -> list[MismatchView]:
    return [
        MismatchView(
            setting=str(item.setting),
            base=item.base,
            other=item.other,
            text=_(_WORDS[item.setting]).format(base=_shown(item.base), other=_shown(item.other)),
        )
        for item in found
    ]


def _shown(value: Value) -> str:
    return "–" if value is None else str(value)
