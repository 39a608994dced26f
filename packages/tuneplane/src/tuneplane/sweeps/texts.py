"""What varies, as it is typed: `lr=1e-5,2e-5`, `lr=log:1e-6..1e-4`, `warmup=10..500`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tuneplane.contract.refusals import Refusal
from tuneplane.i18n import _
from tuneplane.recipes.index import Entry
from tuneplane.recipes.validate import parse_set_values
from tuneplane.sweeps.words import ENV_PREFIX, GOALS

_NUMBER = r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?"
_RANGE = re.compile(rf"(?P<log>log:)?(?P<low>{_NUMBER})\.\.(?P<high>{_NUMBER})\Z", re.ASCII)
_WHOLE = re.compile(r"[+-]?[0-9]{1,15}\Z", re.ASCII)
_EARLY = re.compile(r"(?P<steps>[0-9]{1,15})(?::(?P<factor>[0-9]{1,3}))?\Z", re.ASCII)


def parse_axes(
    entry: Entry | None, option: str, texts: Iterable[str], version: str | None = None
) -> tuple[dict[str, Any], list[Refusal]]:
    """`NAME=…` texts of one option as the `params` of a sweep, and what is wrong. Values get the types of the recipe's parameters."""
    params: dict[str, Any] = {}
    refusals: list[Refusal] = []
    for text in texts:
        name, equals, values = (part.strip() for part in text.partition("="))
        if not equals or not name or not values:
            message = _("{option} {text} is no name=values").format(option=option, text=text[:80])
            hint = _("write {option} learning_rate=1e-5,2e-5").format(option=option)
            refusals.append(Refusal("request-invalid", message, hint, field="sweep.params"))
        elif name in params:
            message = _("{option} gives {name} twice").format(option=option, name=name[:80])
            refusals.append(Refusal("request-invalid", message, field=f"sweep.params.{name[:80]}"))
        else:
            axis, wrong = _axis(entry, name, values, version)
            refusals += wrong
            params |= {name: axis} if axis else {}
    return params, refusals


def parse_objective(text: str | None) -> tuple[dict[str, str] | None, list[Refusal]]:
    """`METRIC:min` or `METRIC:max`."""
    if text is None:
        return None, []
    metric, _colon, goal = text.rpartition(":")
    if metric and goal in GOALS:
        return {"metric": metric, "goal": goal}, []
    message = _("--objective {text}: this is no metric with min or max").format(text=text[:80])
    return None, [Refusal("request-invalid", message, _("write it so: train/loss:min"), field="sweep.objective")]


def parse_early_stop(text: str | None) -> tuple[dict[str, int] | None, list[Refusal]]:
    """`STEPS` or `STEPS:FACTOR`."""
    if text is None:
        return None, []
    found = _EARLY.match(text)
    if found and int(found["steps"]) >= 1 and (found["factor"] is None or 2 <= int(found["factor"]) <= 16):
        steps = {"min_steps": int(found["steps"])}
        return steps | ({"factor": int(found["factor"])} if found["factor"] else {}), []
    message = _("--early-stop {text}: this is no number of steps").format(text=text[:80])
    hint = _("write 50, or 50:3: the best third goes on at step 50, 150, 450, …; the factor is 2 to 16")
    return None, [Refusal("request-invalid", message, hint, field="sweep.early_stopping")]


def _axis(
    entry: Entry | None, name: str, text: str, version: str | None
) -> tuple[dict[str, Any] | None, list[Refusal]]:
    known = entry["manifest"]["params"].get(name) if entry is not None else None
    found = _RANGE.match(text)
    if found:
        whole = bool(_WHOLE.match(found["low"]) and _WHOLE.match(found["high"]))
        integer = whole and (name.startswith(ENV_PREFIX) if known is None else known["type"] == "int")
        low, high = ((int if whole else float)(found[end]) for end in ("low", "high"))
        return {"min": low, "max": high, "log": bool(found["log"]), "integer": integer}, []
    texts = [part.strip() for part in text.split(",")]
    if known is None or entry is None:
        return {"values": texts}, []
    values: list[Any] = []
    refusals: list[Refusal] = []
    for part in texts:
        parsed, wrong = parse_set_values(entry, {name: part}, version)
        refusals += [_as_axis(item, name) for item in wrong]
        values += list(parsed.values())
    return ({"values": values} if values else None), refusals


def _as_axis(refusal: Refusal, name: str) -> Refusal:
    return Refusal(refusal.code, refusal.message, refusal.hint, field=f"sweep.params.{name}")


def merge(
    by_option: Mapping[str, tuple[dict[str, Any], list[Refusal]]],
) -> tuple[str | None, dict[str, Any], list[Refusal]]:
    """(method, params, what is wrong) of what `--grid`, `--random`, `--bayes` and `--asha` say. Method None: none of them was given."""
    given = [method for method, (params, wrong) in by_option.items() if params or wrong]
    refusals = [refusal for _params, wrong in by_option.values() for refusal in wrong]
    if len(given) > 1:
        message = _("{options} do not go together").format(options=", ".join(f"--{method}" for method in given))
        hint = _("give every parameter to one of them; random, bayes and asha take lists of values too")
        refusals.append(Refusal("request-invalid", message, hint, field="sweep.method"))
    return (given[0] if given else None), by_option[given[0]][0] if given else {}, refusals
