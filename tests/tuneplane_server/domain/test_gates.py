"""Gates over the figures of a report."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneplane_server.domain.evaluation import Asking, Figure, Report, Task
from tuneplane_server.domain.gates import Gate, GateResult, GateState, figures_by_metric, judge

FIGURES = {"validation/arc/acc": Figure("acc", 0.5, 0.1), "validation/ppl": Figure("ppl", math.inf)}


def test_figures_are_named_as_among_the_metrics_of_the_run() -> None:
    task = Task("gsm8k", 1, 1, (Figure("exact_match", 0.4, None, "strict-match"), Figure("exact_match", 0.5)))
    report = Report(Asking("lm-eval"), (task,))
    found = figures_by_metric(report, 0.45)
    assert {name: figure.value for name, figure in found.items()} == {
        "validation/score": 0.45,
        "validation/gsm8k/exact_match/strict-match": 0.4,
        "validation/gsm8k/exact_match": 0.5,
    }
    assert "validation/score" not in figures_by_metric(report, None)


@pytest.mark.parametrize(
    ("gate", "state", "certain"),
    [
        (Gate("validation/arc/acc", low=0.2), GateState.PASSED, True),
        (Gate("validation/arc/acc", low=0.45), GateState.PASSED, False),
        (Gate("validation/arc/acc", low=0.5), GateState.PASSED, False),
        (Gate("validation/arc/acc", low=0.55), GateState.FAILED, False),
        (Gate("validation/arc/acc", low=0.9), GateState.FAILED, True),
        (Gate("validation/arc/acc", high=0.4), GateState.FAILED, False),
        (Gate("validation/arc/acc", high=0.1), GateState.FAILED, True),
        (Gate("validation/arc/acc", low=0.1, high=0.9), GateState.PASSED, True),
        (Gate("validation/arc/f1", low=0.1), GateState.MISSING, None),
        (Gate("validation/ppl", high=9.0), GateState.MISSING, None),
    ],
)
def test_a_gate_is_passed_failed_or_has_no_figure(gate: Gate, state: GateState, certain: bool | None) -> None:
    found = judge(gate, FIGURES, 0.95)
    assert (found.state, found.certain) == (state, certain)


def test_without_an_interval_nobody_says_how_certain_it_is() -> None:
    gate = Gate("validation/score", low=0.4)
    assert judge(gate, {"validation/score": Figure("score", 0.5)}, 0.95) == GateResult(gate, GateState.PASSED, 0.5)


@given(st.floats(0, 1), st.floats(0.001, 0.3), st.floats(0, 1))
def test_a_gate_and_its_opposite_are_never_both_certain(value: float, stderr: float, bound: float) -> None:
    figures = {"m": Figure("acc", value, stderr)}
    least, most = judge(Gate("m", low=bound), figures, 0.95), judge(Gate("m", high=bound), figures, 0.95)
    assert {least.state, most.state} >= {GateState.PASSED}
    assert not (least.certain and most.certain and least.state is most.state)
