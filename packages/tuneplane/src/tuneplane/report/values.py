"""Turning what scripts log into numbers and JSON. Runs on the caller's thread for everything that may change later."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Callable, Dict, Mapping, Optional

from tuneplane.contract.words import MAX_METRIC_NAME, MAX_SAMPLE_BYTES

PLAIN_TYPES = frozenset((float, int))
_MAX_DEPTH = 8
_MAX_TEXT = 64 * 1024
EXACT_INT = 2**53
_SECRET_KEY = re.compile(
    r"(^token$|hub_token|auth_token|access_token|api_token|secret|passw(or)?d|passphrase|api_?key|credential|private_key)",
    re.I,
)

Warn = Callable[[str, str], None]


def flatten(metrics: Mapping[Any, Any], warn: Warn) -> Dict[str, float]:
    """Numbers of `metrics` under `/`-joined names. What is no number is left out, with one warning per kind of problem.

    Tensors and array scalars are read here, on the caller's thread: their value may change before a writer would come to
    them, and a reference kept in a queue would hold GPU memory.
    """
    numbers: Dict[str, float] = {}
    _flatten_into(numbers, "", metrics, 0, warn)
    return numbers


def _flatten_into(numbers: Dict[str, float], prefix: str, metrics: Mapping[Any, Any], depth: int, warn: Warn) -> None:
    for key, value in metrics.items():
        name = f"{prefix}{key}"
        if isinstance(value, Mapping):
            if depth < _MAX_DEPTH:
                _flatten_into(numbers, f"{name}/", value, depth + 1, warn)
            else:
                warn(
                    "metric-depth",
                    f"metric {name[:80]!r} is nested deeper than {_MAX_DEPTH} levels; it is not recorded",
                )
            continue
        number = to_number(value)
        if number is None:
            warn(
                "metric-value",
                f"metric {name[:80]!r} holds a {type(value).__name__}, not a number; such values are not recorded",
            )
        else:
            numbers[name] = number


def to_number(value: Any) -> Optional[float]:
    """A float or int for anything that stands for one number, None for the rest."""
    if isinstance(value, (int, float)):
        return _bounded(value)
    if value is None or isinstance(value, (str, bytes)):
        return None
    try:
        item = value.item() if hasattr(value, "item") else float(value)
        return _bounded(item) if isinstance(item, (int, float)) else None
    except Exception:  # noqa: BLE001 - foreign objects may raise anything; the caller hears of it as "not a number"
        return None


def _bounded(value: float) -> Optional[float]:
    """Plain int or float (never a subclass: JSON would print its repr). Integers that a double cannot hold become floats."""
    if isinstance(value, float):
        return float(value)
    if -EXACT_INT <= value <= EXACT_INT:
        return int(value)
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def to_wire(value: Optional[float]) -> Any:
    """JSON has no NaN or infinities: they travel as strings."""
    if value is None or value - value == 0:
        return value
    if value != value:
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def valid_name(name: str) -> bool:
    """1 to 200 printable characters. Quotes, slashes, dots and any script are fine: a name is data, never a path."""
    return 0 < len(name) <= MAX_METRIC_NAME and name.isprintable()


def to_json_value(value: Any, depth: int = 0) -> Any:
    """A JSON value for any object: numbers and text as they are, containers by content, the rest by `str`.

    Text is cut at 64 Ki characters, containers at 1,000 entries, depth at 8.
    """
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (int, float)):
        number = _bounded(value)
        return None if number is None else to_wire(number)
    if isinstance(value, str):
        return _cut(value)
    if depth >= _MAX_DEPTH:
        return _cut(_text_of(value))
    if isinstance(value, Mapping):
        return {_cut(str(key)): to_json_value(item, depth + 1) for key, item in list(value.items())[:1000]}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [to_json_value(item, depth + 1) for item in list(value)[:1000]]
    number = to_number(value)
    return to_wire(number) if number is not None else _cut(_text_of(value))


def without_secrets(value: Any) -> Any:
    """The same JSON value without entries whose name says that they are secret (`hub_token`, `api_key`, …)."""
    if isinstance(value, Mapping):
        return {key: without_secrets(item) for key, item in value.items() if not _SECRET_KEY.search(str(key))}
    if isinstance(value, list):
        return [without_secrets(item) for item in value]
    return value


def fit_sample(data: Dict[str, Any]) -> Dict[str, Any]:
    """The sample with its long texts cut so that it stays below the wire's limit (256 KiB)."""
    limit = MAX_SAMPLE_BYTES // 2
    while _weight(data) > MAX_SAMPLE_BYTES - 4096 and limit > 16:
        data = _cut_texts(data, limit)
        limit //= 2
    return data


def _weight(value: Any) -> int:
    """Bytes of `value` as the UTF-8 JSON that travels."""
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _cut_texts(value: Any, limit: int) -> Any:
    if isinstance(value, str):
        return _cut(value, limit)
    if isinstance(value, Mapping):
        return {key: _cut_texts(item, limit) for key, item in value.items()}
    if isinstance(value, list):
        return [_cut_texts(item, limit) for item in value]
    return value


def _cut(text: str, limit: int = _MAX_TEXT) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def _text_of(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - a foreign __str__ may raise anything
        return f"<{type(value).__name__}>"
