"""Check that an answer has the shape it should have, so that a wrong one is named here and not found out as a crash later.

The shapes are the TypedDicts of `client.types`. Keys beyond them are left alone: a newer console may send more.
"""

from __future__ import annotations

from functools import cache
from types import NoneType, UnionType
from typing import Any, NotRequired, Union, get_args, get_origin, get_type_hints, is_typeddict

from tuneplane.i18n import _


def mismatch(value: Any, shape: Any, at: str = "") -> str | None:
    """What does not fit, as `path: expected …`, or None when everything does. `at` is the path so far."""
    if shape is Any:
        return None
    if is_typeddict(shape):
        return _record(value, shape, at)
    origin, arguments = get_origin(shape), get_args(shape)
    if origin in (Union, UnionType):
        return None if any(mismatch(value, part, at) is None for part in arguments) else _expected(shape, value, at)
    if origin is list:
        return _items(value, arguments[0], at)
    if origin is dict:
        return _entries(value, arguments[1], at)
    return None if _is(value, shape) else _expected(shape, value, at)


def _record(value: Any, shape: Any, at: str) -> str | None:
    if not isinstance(value, dict):
        return _expected(shape, value, at)
    for key, (kind, required) in _keys(shape).items():
        path = f"{at}.{key}" if at else key
        if key not in value:
            if required:
                return _("{path}: missing").format(path=path)
            continue
        if value[key] is None and not required:
            continue  # what may be missing may also be null: every reader asks with get()
        wrong = mismatch(value[key], kind, path)
        if wrong:
            return wrong
    return None


def _items(value: Any, kind: Any, at: str) -> str | None:
    if not isinstance(value, list):
        return _expected(list, value, at)
    return next((wrong for index, item in enumerate(value) if (wrong := mismatch(item, kind, f"{at}[{index}]"))), None)


def _entries(value: Any, kind: Any, at: str) -> str | None:
    if not isinstance(value, dict):
        return _expected(dict, value, at)
    return next((wrong for key, item in value.items() if (wrong := mismatch(item, kind, f"{at}.{key}"))), None)


def _is(value: Any, kind: Any) -> bool:
    if kind is NoneType or kind is None:
        return value is None
    if isinstance(value, bool):
        return kind is bool
    if kind is float:
        return isinstance(value, int | float)
    return isinstance(value, kind)


@cache
def _keys(shape: Any) -> dict[str, tuple[Any, bool]]:
    """key -> (type, whether it must be there)."""
    hints = get_type_hints(shape, include_extras=True)
    return {
        key: (get_args(kind)[0], False) if get_origin(kind) is NotRequired else (kind, True)
        for key, kind in hints.items()
    }


def _expected(shape: Any, value: Any, at: str) -> str:
    name = "object" if is_typeddict(shape) or shape is dict else getattr(shape, "__name__", str(shape))
    found = {dict: "object", list: "list", str: "text", NoneType: "null", bool: "true/false"}
    shown = found.get(type(value), type(value).__name__)
    return _("{path}: expected {wanted}, found {found}").format(path=at or "$", wanted=name, found=shown)
