"""What is wrong with a sweep, all at once: its parameters against the recipe's, its size, its method, its objective.

The whole space is checked before anything is submitted: every value of a list, and both ends of a range.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tuneplane.contract.names import is_env_name
from tuneplane.contract.refusals import Refusal
from tuneplane.contract.words import MAX_METRIC_NAME, is_identity_env
from tuneplane.i18n import _
from tuneplane.recipes.index import Entry
from tuneplane.recipes.validate import check_hyperparams
from tuneplane.sweeps.space import Axis, size, space_of
from tuneplane.sweeps.words import ENV_PREFIX, MAX_TRIALS


def check_sweep(entry: Entry, sweep: Mapping[str, Any], version: str | None = None) -> list[Refusal]:
    """`sweep`: method, params, trials, objective, early_stopping as in `contract.sweep`, in a right form. Fields begin with `sweep.`."""
    space = space_of(sweep["params"])
    return [
        *(refusal for axis in space for refusal in _check_axis(entry, axis, version)),
        *_check_size(sweep, space),
        *_check_method(entry, sweep, space),
    ]


def objective_of(entry: Entry, sweep: Mapping[str, Any]) -> dict[str, str] | None:
    """`{metric, goal}`: the one asked for, else the recipe's; None when there is neither."""
    if sweep.get("objective"):
        return dict(sweep["objective"])
    metrics = entry["manifest"]["metrics"]
    if not metrics.get("primary") or not metrics.get("objective"):
        return None
    return {"metric": metrics["primary"], "goal": metrics["objective"]}


def trials_of(sweep: Mapping[str, Any]) -> int:
    """How many trials it has; of a grid all its variants."""
    space = space_of(sweep["params"])
    count = size(space)
    if sweep["method"] == "grid":
        return count or 0
    return int(sweep["trials"])


def typed(entry: Entry, sweep: Mapping[str, Any]) -> dict[str, Any]:
    """The sweep with its ranges of parameters that are whole numbers marked so."""
    known = entry["manifest"]["params"]
    params = {
        name: {**given, "integer": True}
        if given.get("values") is None and known.get(name, {}).get("type") == "int"
        else given
        for name, given in sweep["params"].items()
    }
    return {**sweep, "params": params}


# --- parameters -------------------------------------------------------------------------------------------------------


def _check_axis(entry: Entry, axis: Axis, version: str | None) -> Iterator[Refusal]:
    field = f"sweep.params.{axis.name}"
    if axis.name.startswith(ENV_PREFIX):
        yield from _check_env(axis, field)
    else:
        yield from _check_param(entry, axis, field, version)
    if axis.values is None:
        yield from _check_range(axis, field)
    elif len({_key(value) for value in axis.values}) < len(axis.values):
        yield Refusal(
            "sweep-invalid",
            _("{name} has the same value twice").format(name=axis.name),
            _("leave one of them out: it would be the same trial again"),
            field=field,
        )


def _check_param(entry: Entry, axis: Axis, field: str, version: str | None) -> Iterator[Refusal]:
    """Each thing that is wrong once, however many values have it in common."""
    values: Sequence[Any] = (axis.low, axis.high) if axis.values is None else axis.values
    if axis.values is None and axis.integer:
        values = (int(axis.low), int(axis.high))
    said: set[str] = set()
    for value in values:
        for refusal in check_hyperparams(entry, {axis.name: value}, version):
            if refusal.message not in said:
                said.add(refusal.message)
                yield replace(_without_params(entry, refusal), field=field)
        if said and _unknown(entry, axis.name):
            return


def _unknown(entry: Entry, name: str) -> bool:
    """Whether no value helps, because the method has no such parameter."""
    return name not in entry["manifest"]["params"]


def _without_params(entry: Entry, refusal: Refusal) -> Refusal:
    """A method without parameters still takes environment variables."""
    if entry["manifest"]["params"]:
        return refusal
    hint = _("this method has no parameters; vary an environment variable that the experiment reads: {example}").format(
        example="env.LEARNING_RATE"
    )
    return replace(refusal, hint=hint)


def _check_env(axis: Axis, field: str) -> Iterator[Refusal]:
    name = axis.name.removeprefix(ENV_PREFIX)
    if not is_env_name(name):
        message = _("“{name}” is no name of a variable").format(name=name[:80])
        yield Refusal("sweep-invalid", message, _("write env.NAME"), field=field)
    elif is_identity_env(name):
        message = _("the environment variable {name} belongs to the platform").format(name=name)
        yield Refusal("env-reserved", message, _("choose another name"), field=field)
    for value in axis.values or ():
        if isinstance(value, dict | list) or (isinstance(value, str) and "\0" in value):
            message = _("{name} has a value that is no text and no number").format(name=axis.name)
            yield Refusal("sweep-invalid", message, field=field)
            return


def _check_range(axis: Axis, field: str) -> Iterator[Refusal]:
    if axis.low >= axis.high:
        message = _("the range of {name} is empty: {low} is not below {high}").format(
            name=axis.name, low=axis.low, high=axis.high
        )
        yield Refusal("sweep-invalid", message, _("write the smaller number first"), field=field)
    if axis.log and axis.low <= 0:
        message = _("the range of {name} begins at {low}, and a logarithm needs more than 0").format(
            name=axis.name, low=axis.low
        )
        yield Refusal("sweep-invalid", message, _("begin above 0, or leave out log"), field=field)
    if axis.integer and (axis.low != int(axis.low) or axis.high != int(axis.high)):
        message = _("the range of {name} is of whole numbers, and its ends are not").format(name=axis.name)
        yield Refusal("sweep-invalid", message, field=field)


# --- the whole --------------------------------------------------------------------------------------------------------


def _check_size(sweep: Mapping[str, Any], space: Sequence[Axis]) -> Iterator[Refusal]:
    count, trials = size(space), sweep.get("trials")
    if sweep["method"] == "grid":
        if count is not None and count > MAX_TRIALS:
            yield Refusal(
                "sweep-too-large",
                _("the grid has {count} variants, and a sweep has at most {most} trials").format(
                    count=count, most=MAX_TRIALS
                ),
                _("take fewer values, or let random or bayes choose some of them, with trials"),
                field="sweep.params",
            )
        return
    if trials is not None and trials > MAX_TRIALS:
        yield Refusal(
            "sweep-too-large",
            _("{count} trials are asked for, and a sweep has at most {most}").format(count=trials, most=MAX_TRIALS),
            _("ask for fewer; a second sweep can go on where the first one found something"),
            field="sweep.trials",
        )
    elif trials is not None and count is not None and trials > count and sweep["method"] != "bayes":
        yield Refusal(
            "sweep-invalid",
            _("{trials} trials are asked for, and there are only {count} variants").format(trials=trials, count=count),
            _("ask for fewer trials, or take a grid, which runs each variant once"),
            field="sweep.trials",
        )


def _check_method(entry: Entry, sweep: Mapping[str, Any], space: Sequence[Axis]) -> Iterator[Refusal]:
    method, early = sweep["method"], sweep.get("early_stopping")
    if method == "grid":
        for axis in space:
            if axis.values is None:
                yield Refusal(
                    "sweep-invalid",
                    _("{name} is a range, and a grid needs values").format(name=axis.name),
                    _("list its values, or take random or bayes"),
                    field=f"sweep.params.{axis.name}",
                )
        if sweep.get("trials") is not None:
            yield Refusal(
                "sweep-invalid",
                _("a grid runs each of its variants once, so it takes no number of trials"),
                _("leave trials out, or take random"),
                field="sweep.trials",
            )
    if method == "asha" and not early:
        yield Refusal(
            "sweep-invalid",
            _("asha stops trials early, and needs to know after how many steps it may begin to"),
            _("say it with early stopping: after 50 steps, then after 150, 450, and so on"),
            field="sweep.early_stopping",
        )
    if (method == "bayes" or early) and objective_of(entry, sweep) is None:
        yield Refusal(
            "sweep-invalid",
            _("{method} names no main metric, so the sweep must say what it looks at").format(
                method=entry["manifest"]["name"]
            ),
            _("name a metric and whether less or more of it is better, for example train/loss:min"),
            field="sweep.objective",
        )
    metric = (sweep.get("objective") or {}).get("metric", "")
    if len(metric) > MAX_METRIC_NAME or "\0" in metric:
        yield Refusal("sweep-invalid", _("this is no name of a metric"), field="sweep.objective.metric")


def _key(value: Any) -> tuple[str, str]:
    return type(value).__name__, repr(value)
