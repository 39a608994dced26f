"""Gates: what the figures of an evaluation are to be at least, or at most. They judge a report and change nothing about its run. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from tuneplane_server.domain.evaluation import Figure, Report, interval

METRICS = "validation/"  # as the figures are named among the metrics of the run


class GateState(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    MISSING = "missing"  # the report has no such figure, or it is no number


@dataclass(frozen=True)
class Gate:
    """`low`, `high`: the bounds, both allowed themselves; None: there is none on that side."""

    metric: str
    low: float | None = None
    high: float | None = None

    def holds(self, value: float) -> bool:
        return (self.low is None or value >= self.low) and (self.high is None or value <= self.high)


@dataclass(frozen=True)
class GateResult:
    """`certain`: both ends of the figure's interval say the same; None where there is no interval."""

    gate: Gate
    state: GateState
    value: float | None = None
    certain: bool | None = None


def figures_by_metric(report: Report, score: float | None) -> dict[str, Figure]:
    """`validation/<task>/<figure>` or `validation/<task>/<figure>/<filter>`, and `validation/score`."""
    found = {
        METRICS + "/".join(part for part in (task.task, figure.name, figure.filter) if part): figure
        for task in report.tasks
        for figure in task.figures
    }
    return found if score is None else {f"{METRICS}score": Figure("score", score), **found}


def judge(gate: Gate, figures: Mapping[str, Figure], confidence: float) -> GateResult:
    """Whether the figure that the gate names is within its bounds."""
    figure = figures.get(gate.metric)
    if figure is None or not math.isfinite(figure.value):
        return GateResult(gate, GateState.MISSING)
    holds = gate.holds(figure.value)
    around = interval(figure, confidence)
    certain = None if around is None else all(gate.holds(end) is holds for end in around)
    return GateResult(gate, GateState.PASSED if holds else GateState.FAILED, figure.value, certain)
