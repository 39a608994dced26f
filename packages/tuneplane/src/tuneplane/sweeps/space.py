"""The space of a sweep, and its variants: of a grid each one, of a random search those that the seed gives.

Everything here is a function of its arguments: the same space, seed and number give the same variant on every machine, so that a
sweep goes on after a crash with the variants it would have had, and a dry run lists what will run.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tuneplane.sweeps.words import ENV_PREFIX

DIGITS = 6  # of numbers that are drawn: nobody reads more of a learning rate


@dataclass(frozen=True)
class Axis:
    """One parameter: its `values`, or a range from `low` to `high`, both included (`values` None).

    `log`: even in the logarithm; `integer`: whole numbers only.
    """

    name: str
    values: tuple[Any, ...] | None = None
    low: float = 0
    high: float = 0
    log: bool = False
    integer: bool = False


def space_of(params: Mapping[str, Mapping[str, Any]]) -> tuple[Axis, ...]:
    """The axes of a sweep's `params`, in their order: name -> {values} or {min, max, log, integer}."""
    return tuple(
        Axis(name, tuple(given["values"]))
        if given.get("values") is not None
        else Axis(
            name, None, given["min"], given["max"], bool(given.get("log", False)), bool(given.get("integer", False))
        )
        for name, given in params.items()
    )


def size(space: Sequence[Axis]) -> int | None:
    """How many variants there are; None when a range makes them endless."""
    count = 1
    for axis in space:
        if axis.values is None:
            return None
        count *= len(axis.values)
    return count


def variant(space: Sequence[Axis], index: int) -> dict[str, Any]:
    """The variant `index` (0 ≤ index < size) of a space of values; the last axis changes fastest."""
    chosen: list[tuple[str, Any]] = []
    for axis in reversed(space):
        assert axis.values is not None
        index, place = divmod(index, len(axis.values))
        chosen.append((axis.name, axis.values[place]))
    return dict(reversed(chosen))


def draw(space: Sequence[Axis], seed: int, number: int, trials: int) -> dict[str, Any]:
    """The variant of trial `number` (0 ≤ number < trials) of a random search. Of a space of values no variant comes twice."""
    count = size(space)
    if count is not None:
        return variant(space, random.Random(f"{seed}").sample(range(count), trials)[number])  # noqa: S311 - no secret
    source = random.Random(f"{seed}/{number}")  # noqa: S311 - no secret
    return {axis.name: _drawn(axis, source) for axis in space}


def rounded(axis: Axis, value: float) -> float:
    """A drawn number as it is used: few digits, still inside of the range."""
    if axis.integer:
        return min(max(round(value), math.ceil(axis.low)), math.floor(axis.high))
    return min(max(float(f"{value:.{DIGITS}g}"), axis.low), axis.high)


def split(params: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """A variant as (hyper-parameters, environment variables) of its job."""
    plain = {name: value for name, value in params.items() if not name.startswith(ENV_PREFIX)}
    env = {
        name.removeprefix(ENV_PREFIX): as_text(value) for name, value in params.items() if name.startswith(ENV_PREFIX)
    }
    return plain, env


def as_text(value: Any) -> str:
    """A value as a shell and a reader see it: `true`, `1e-05`, plain text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)


def _drawn(axis: Axis, source: random.Random) -> Any:
    if axis.values is not None:
        return axis.values[source.randrange(len(axis.values))]
    low, high = (axis.low - 0.5, axis.high + 0.5) if axis.integer else (axis.low, axis.high)
    if axis.log:
        return rounded(axis, math.exp(source.uniform(math.log(low), math.log(high))))
    return rounded(axis, source.uniform(low, high))
