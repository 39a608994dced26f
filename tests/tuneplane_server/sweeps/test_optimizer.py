"""Optuna's answers are functions of the trials: the same whenever and wherever they are asked for."""

from __future__ import annotations

import math
import subprocess
import sys
from typing import Any

from tuneplane.sweeps.space import Axis
from tuneplane_server.domain.sweeps import TrialState
from tuneplane_server.features.sweeps.optimizer import Comparison, KnownTrial, go_on, suggest

SPACE = (
    Axis("lr", None, 1e-6, 1e-2, log=True),
    Axis("rank", None, 4, 64, integer=True),
    Axis("optimizer", ("adam", 1, True, None)),
)


def search(trials: int, seed: int = 7, goal: str = "min") -> list[dict[str, Any]]:
    """A whole search of a function whose best learning rate is 1e-4."""
    known: list[KnownTrial] = []
    for number in range(trials):
        params = suggest(SPACE, goal, seed, number, known)
        loss = (math.log10(params["lr"]) + 4) ** 2
        known.append(KnownTrial(params, TrialState.SUCCEEDED, loss if goal == "min" else -loss))
    return [dict(trial.params) for trial in known]


def test_a_search_is_the_same_again_and_another_seed_is_another_one() -> None:
    assert search(14) == search(14)
    assert search(3, seed=8) != search(3)


def test_every_variant_lies_in_the_space_and_keeps_the_types_of_its_values() -> None:
    for params in search(14):
        assert 1e-6 <= params["lr"] <= 1e-2
        assert isinstance(params["rank"], int)
        assert 4 <= params["rank"] <= 64
        assert any(params["optimizer"] is value for value in ("adam", 1, True, None))


def test_a_search_comes_nearer_to_the_best_than_chance_whatever_is_better() -> None:
    for goal in ("min", "max"):
        found = search(40, goal=goal)
        off = [abs(math.log10(params["lr"]) + 4) for params in found]
        assert sum(off[20:]) / 20 < sum(off[:10]) / 10


def test_trials_that_run_failed_or_were_stopped_are_taken_into_account() -> None:
    variants = search(12)
    states = [TrialState.SUCCEEDED] * 8 + [
        TrialState.FAILED,
        TrialState.CANCELLED,
        TrialState.PRUNED,
        TrialState.SUBMITTED,
    ]
    known = [
        KnownTrial(params, state, 1.0 if state is TrialState.SUCCEEDED else None, {10: 2.0, 30: math.inf})
        for params, state in zip(variants, states, strict=True)
    ]
    assert suggest(SPACE, "min", 1, 12, known) == suggest(SPACE, "min", 1, 12, known)


def test_a_trial_without_a_value_says_nothing() -> None:
    known = [KnownTrial(params, TrialState.SUCCEEDED, None) for params in search(11)]
    assert suggest(SPACE, "min", 1, 11, known)["rank"] >= 4


def test_of_those_that_come_to_a_rung_the_best_third_goes_on() -> None:
    first = [Comparison(number, 0, value) for number, value in enumerate([5.0, 3.0, 4.0, 9.0, 2.0, 1.0])]
    assert go_on("min", 10, 3, first) == [True, True, False, False, True, True]
    assert go_on("max", 10, 3, first) == [True, False, False, True, False, False]


def test_what_was_decided_stays_when_more_come() -> None:
    some = [Comparison(0, 0, 5.0), Comparison(1, 0, 3.0), Comparison(1, 1, 2.0)]
    more = [*some, Comparison(2, 0, 1.0), Comparison(2, 1, 2.5)]
    assert go_on("min", 10, 3, more)[:3] == go_on("min", 10, 3, some) == [True, True, True]
    assert go_on("min", 10, 3, more)[3:] == [True, False]


def test_what_is_no_number_does_not_go_on() -> None:
    assert go_on("min", 10, 2, [Comparison(0, 0, math.nan), Comparison(1, 0, math.inf), Comparison(2, 0, 1.0)]) == [
        False,
        True,
        True,
    ]


def test_a_console_without_such_a_sweep_does_not_load_optuna() -> None:
    code = "import sys, tuneplane_server.app; sys.exit('optuna' in sys.modules or 'numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
