"""Optuna's part in sweeps: which variant a Bayesian search tries next, and which trials are not worth going on.

Nothing of Optuna is kept: a study is made anew from the trials at each question, in memory, seeded by the sweep and the trial's
number, and forgotten. So the answers are functions of the rows, also after a crash and on another console. Optuna is imported by
the first question only: a console without such sweeps does not pay for it. Slow: to be called from a thread.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from tuneplane.sweeps.space import Axis, rounded
from tuneplane_server.domain.sweeps import TrialState, rung

if TYPE_CHECKING:
    import optuna
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

STARTUP_TRIALS = 10  # of a Bayesian search are chosen at random, as Optuna itself does


@dataclass(frozen=True)
class KnownTrial:
    """What is known of a trial: its variant, and its value when it is over. `rungs`: step -> value, where it was compared."""

    params: Mapping[str, Any]
    state: TrialState
    value: float | None
    rungs: Mapping[int, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Comparison:
    """A trial has come to a rung with this value."""

    trial: int
    rung: int
    value: float


def suggest(space: Sequence[Axis], goal: str, seed: int, number: int, known: Sequence[KnownTrial]) -> dict[str, Any]:
    """The variant of trial `number`; `known`: all earlier ones. Tree-structured Parzen estimator over all parameters together."""
    optuna = _optuna()
    sampler = optuna.samplers.TPESampler(
        seed=_seed(seed, number), n_startup_trials=STARTUP_TRIALS, multivariate=True, constant_liar=True
    )
    study = _study(optuna, goal, sampler=sampler)
    distributions = {axis.name: _distribution(axis) for axis in space}
    for trial in known:
        study.add_trial(_frozen(optuna, space, trial, distributions))
    chosen = study.ask(distributions).params
    return {axis.name: _value(axis, chosen[axis.name]) for axis in space}


def go_on(goal: str, min_steps: int, factor: int, comparisons: Sequence[Comparison]) -> list[bool]:
    """For each comparison, in order, whether the trial goes on past it: asynchronous successive halving among those before it."""
    optuna = _optuna()
    pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=min_steps, reduction_factor=factor)
    study = _study(optuna, goal, pruner=pruner)
    trials: dict[int, optuna.Trial] = {}
    kept = []
    for item in comparisons:
        if item.trial not in trials:
            trials[item.trial] = study.ask()
        trial = trials[item.trial]
        trial.report(item.value, rung(min_steps, factor, item.rung))
        kept.append(not trial.should_prune())
    return kept


def _optuna() -> Any:
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    return optuna


def _study(optuna: Any, goal: str, **parts: Any) -> optuna.Study:
    direction = "maximize" if goal == "max" else "minimize"
    return optuna.create_study(storage=optuna.storages.InMemoryStorage(), direction=direction, **parts)


def _seed(seed: int, number: int) -> int:
    """32 bits that look like chance and are not."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{number}".encode()).digest()[:4])


def _distribution(axis: Axis) -> BaseDistribution:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if axis.values is not None:
        # Places and not the values themselves: Optuna takes only plain ones, and holds 1 and True for the same.
        return CategoricalDistribution(tuple(range(len(axis.values))))
    if axis.integer:
        return IntDistribution(int(axis.low), int(axis.high), log=axis.log)
    return FloatDistribution(axis.low, axis.high, log=axis.log)


def _frozen(
    optuna: Any, space: Sequence[Axis], trial: KnownTrial, distributions: Mapping[str, BaseDistribution]
) -> FrozenTrial:
    states = optuna.trial.TrialState
    state = {
        TrialState.SUCCEEDED: states.COMPLETE if trial.value is not None else states.FAIL,
        TrialState.PRUNED: states.PRUNED,
        TrialState.FAILED: states.FAIL,
        TrialState.CANCELLED: states.FAIL,
    }.get(trial.state, states.RUNNING)
    return optuna.trial.create_trial(
        state=state,
        value=trial.value if state is states.COMPLETE else None,
        params={axis.name: _place(axis, trial.params[axis.name]) for axis in space},
        distributions=dict(distributions),
        intermediate_values=dict(trial.rungs),
    )


def _place(axis: Axis, value: Any) -> Any:
    if axis.values is None:
        return value
    return next(place for place, one in enumerate(axis.values) if type(one) is type(value) and one == value)


def _value(axis: Axis, chosen: Any) -> Any:
    return rounded(axis, chosen) if axis.values is None else axis.values[chosen]
