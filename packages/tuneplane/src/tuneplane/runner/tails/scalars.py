"""Numbers of one step, and the lines of JSON that frameworks write them in.

verl 0.9.1, `verl/utils/tracking.py`, FileLogger: `{"step": 12, "data": {"actor/loss": 0.3, …}}`, written by orjson, which has
`null` for NaN and infinities. ms-swift 4.6, `swift/trainers/patcher.py` and `swift/megatron/callbacks/print.py`: the trainer's
log with `"global_step/max_steps": "12/100"` (Megatron: `"iteration": "12/100"`), times as text, and, at the end, one object
with the whole `log_history`. Anything else that names its step: `{"step": 12, "loss": 0.3}`.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, Dict, Mapping, NamedTuple, Optional

from tuneplane.report.values import EXACT_INT, to_number

STEP_KEYS = ("step", "global_step", "global_step/max_steps", "iteration", "iter")
_OF_ALL = re.compile(r"\s*(\d{1,15})\s*/\s*\d+\s*\Z")
_SUMMARY_KEYS = ("log_history", "last_model_checkpoint")
_MAX_DEPTH = 8
_INT_DIGITS = 300  # longer ones are infinite as doubles; Python takes quadratic time for them or refuses


class Scalars(NamedTuple):
    """`values` under the framework's own names; `time` in Unix seconds; `epoch` where the framework says it."""

    step: int
    time: float
    epoch: Optional[float]
    values: Mapping[str, float]


class NotScalarsError(ValueError):
    """The line is none of the shapes that are known."""


def read_json_line(line: bytes, now: float) -> Optional[Scalars]:
    """None for a line that rightly holds no point (a summary). Raises `NotScalarsError`."""
    try:
        value = json.loads(line, parse_int=parse_int)
    except (ValueError, RecursionError) as error:
        raise NotScalarsError(str(error)) from None
    if not isinstance(value, dict):
        raise NotScalarsError("no object")
    if any(key in value for key in _SUMMARY_KEYS):
        return None
    values: Dict[str, float] = {}
    data = value.get("data")
    if isinstance(data, dict) and "step" in value:
        _collect(values, "", data, null=math.nan)
        return Scalars(step_of(value), now, None, values)
    _collect(values, "", {key: item for key, item in value.items() if key not in STEP_KEYS and key != "epoch"})
    return Scalars(step_of(value), now, number_of(value.get("epoch")), values)


def step_of(value: Mapping[str, Any]) -> int:
    """The step that an object names. Raises `NotScalarsError`."""
    for key in STEP_KEYS:
        step = value.get(key)
        if isinstance(step, str):
            match = _OF_ALL.match(step)
            step = int(match.group(1)) if match else None
        if isinstance(step, float) and step.is_integer():
            step = int(step)
        if type(step) is int and -EXACT_INT <= step <= EXACT_INT:
            return step
    raise NotScalarsError("no step")


def number_of(value: Any) -> Optional[float]:
    """A finite number, or None."""
    return float(value) if isinstance(value, (int, float)) and value - value == 0 else None


def _collect(
    values: Dict[str, float], prefix: str, data: Mapping[str, Any], null: Optional[float] = None, depth: int = 0
) -> None:
    """Numbers of `data` under `/`-joined names. Text, lists and the like are no numbers and are left out."""
    for key, item in data.items():
        number = null if item is None else item
        if isinstance(number, (int, float)):
            values[prefix + key] = to_number(number) or 0
        elif isinstance(item, dict) and depth < _MAX_DEPTH:
            _collect(values, f"{prefix}{key}/", item, null, depth + 1)


def parse_int(text: str) -> float:
    """For `json.loads`: a whole number that no double holds is infinite, and costs no quadratic time."""
    return int(text) if len(text) <= _INT_DIGITS else float(text)
