"""`sweep.yaml` of an experiment: what varies, written down. Read with positions, so that what is wrong has a line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _
from tuneplane.lab.yamlfile import Document, read_yaml
from tuneplane.recipes.index import nearest_hint
from tuneplane.sweeps.words import GOALS, METHODS

SWEEP_FILE = "sweep.yaml"
_COUNTS = ("trials", "seed", "max_parallel")
_KEYS = ("name", "method", "params", *_COUNTS, "objective", "early_stopping")
_AXIS_KEYS = ("values", "min", "max", "log", "integer")


def read_sweep_file(path: Path) -> tuple[dict[str, Any], list[Refusal], dict[str, int]]:
    """(the sweep as `contract.sweep` has it, what is wrong with its form, path in the file -> line). Never raises for what is in it."""
    try:
        document = read_yaml(path)
    except RefusedError as error:
        return {}, error.refusals, {}
    value = document.value
    if not isinstance(value, dict):
        return {}, [_refusal(document, "", _("must hold keys and values"))], {}
    refusals = list(_check(document, value))
    if refusals:
        return {}, refusals, document.lines
    sweep = {**value, "params": {name: _axis(axis) for name, axis in value["params"].items()}}
    if isinstance(value.get("objective"), str):
        metric, _colon, goal = value["objective"].rpartition(":")
        sweep["objective"] = {"metric": metric, "goal": goal}
    return {key: item for key, item in sweep.items() if item is not None}, [], document.lines


def placed(refusal: Refusal, path: Path, lines: dict[str, int]) -> Refusal:
    """A refusal about the sweep, with the line of the file that it is about."""
    at = refusal.field.removeprefix("sweep.")
    while at and at not in lines:
        at = at.rpartition(".")[0]
    return replace(refusal, file=str(path), line=lines.get(at, 0)) if refusal.field.startswith("sweep.") else refusal


def _axis(value: Any) -> dict[str, Any]:
    return {"values": value} if isinstance(value, list) else value


def _check(document: Document, value: dict[str, Any]) -> Iterator[Refusal]:
    for key in value:
        if key not in _KEYS:
            message = _("a sweep has no key “{key}”").format(key=key[:80])
            yield _refusal(document, key, message, nearest_hint(key, list(_KEYS)) or ", ".join(_KEYS))
    if value.get("method") not in METHODS:
        yield _refusal(document, "method", _("method must be one of {methods}").format(methods=", ".join(METHODS)))
    for key in _COUNTS:
        least = 0 if key == "seed" else 1
        number = value.get(key)
        if number is not None and (isinstance(number, bool) or not isinstance(number, int) or number < least):
            yield _refusal(document, key, _("{key} must be a whole number from {least}").format(key=key, least=least))
    if value.get("name") is not None and not isinstance(value["name"], str):
        yield _refusal(document, "name", _("{key} must be text").format(key="name"))
    yield from _check_params(document, value.get("params"))
    yield from _check_objective(document, value.get("objective"))
    yield from _check_early(document, value.get("early_stopping"))


def _check_params(document: Document, params: Any) -> Iterator[Refusal]:
    if not isinstance(params, dict) or not params:
        yield _refusal(document, "params", _("params must name what varies, for example learning_rate: [1e-5, 2e-5]"))
        return
    for name, axis in params.items():
        at = f"params.{name}"
        if isinstance(axis, list):
            if not axis:
                yield _refusal(document, at, _("{name} has no values").format(name=name))
            continue
        if not isinstance(axis, dict):
            yield _refusal(document, at, _("{name} must be a list of values, or min and max").format(name=name))
            continue
        for key in axis:
            if key not in _AXIS_KEYS:
                message = _("{name} has no key “{key}”").format(name=name, key=key[:80])
                yield _refusal(document, f"{at}.{key}", message, nearest_hint(key, list(_AXIS_KEYS)))
        yield from _check_axis(document, at, name, axis)


def _check_axis(document: Document, at: str, name: str, axis: dict[str, Any]) -> Iterator[Refusal]:
    ends = [axis.get(end) for end in ("min", "max")]
    if "values" in axis:
        if not isinstance(axis["values"], list) or not axis["values"]:
            yield _refusal(document, at, _("{name} has no values").format(name=name))
        elif len(axis) > 1:
            yield _refusal(document, at, _("{name}: give values, or min and max, not both").format(name=name))
    elif not all(isinstance(end, int | float) and not isinstance(end, bool) for end in ends):
        yield _refusal(document, at, _("{name} needs min and max, and both must be numbers").format(name=name))
    for key in ("log", "integer"):
        if not isinstance(axis.get(key, False), bool):
            yield _refusal(document, f"{at}.{key}", _("{key} must be true or false").format(key=key))


def _check_objective(document: Document, objective: Any) -> Iterator[Refusal]:
    if objective is None:
        return
    if isinstance(objective, str):
        metric, _colon, goal = objective.rpartition(":")
        objective = {"metric": metric, "goal": goal}
    right = (
        isinstance(objective, dict)
        and set(objective) == {"metric", "goal"}
        and isinstance(objective["metric"], str)
        and objective["metric"]
        and objective["goal"] in GOALS
    )
    if not right:
        yield _refusal(
            document, "objective", _("objective must be a metric with min or max, for example train/loss:min")
        )


def _check_early(document: Document, early: Any) -> Iterator[Refusal]:
    if early is None:
        return
    numbers = early.values() if isinstance(early, dict) else ()
    right = (
        isinstance(early, dict)
        and {"min_steps"} <= set(early) <= {"min_steps", "factor"}
        and all(isinstance(number, int) and not isinstance(number, bool) for number in numbers)
        and early["min_steps"] >= 1
        and 2 <= early.get("factor", 2) <= 16
    )
    if not right:
        message = _("early_stopping must have min_steps, a whole number, and may have factor, 2 to 16")
        yield _refusal(document, "early_stopping", message)


def _refusal(document: Document, at: str, message: str, hint: str = "") -> Refusal:
    while at and at not in document.lines:
        at = at.rpartition(".")[0]
    line = document.lines.get(at, 0)
    return Refusal("sweep-invalid", message, hint, field=f"sweep.{at}".rstrip("."), file=str(document.path), line=line)
