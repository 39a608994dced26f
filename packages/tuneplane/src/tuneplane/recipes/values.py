"""Is a value what a configuration key takes? The key is described as in the recorded schema; every answer is a sentence for people."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, NamedTuple

from tuneplane.i18n import _
from tuneplane.recipes.index import nearest_hint

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?\Z", re.ASCII)


class Problem(NamedTuple):
    """`code` of the refusal; `at` is the path below the key (`[2]`, `.a`), empty for the value itself."""

    code: str
    message: str
    hint: str = ""
    at: str = ""


def check_value(key: str, value: Any, spec: Mapping[str, Any]) -> list[Problem]:
    """Everything wrong with the value of `key`. `spec`: {type: [int float bool str dict list list[…] any], nullable, choices, length (of a list), min, max, exclusive_min, exclusive_max}."""
    unfit = list(check_finite(key, value))
    if unfit:
        return unfit
    if value is None and spec.get("nullable"):
        return []
    if not any(_fits(value, kind) for kind in spec["type"]):
        return _wrong_items(key, value, spec) or [Problem("param-type", *_wrong_type(key, value, spec))]
    if isinstance(value, list):
        return _check_length(key, value, spec) or [
            problem._replace(at=f"[{index}]")
            for index, item in enumerate(value)
            for problem in _check_plain(f"{key}[{index}]", item, spec)
        ]
    return _check_plain(key, value, spec)


def _check_length(key: str, value: list[Any], spec: Mapping[str, Any]) -> list[Problem]:
    if len(value) == spec.get("length", len(value)):
        return []
    message = _("{key} must have {wanted} items, not {found}").format(key=key, wanted=spec["length"], found=len(value))
    return [Problem("param-range", message)]


def check_finite(key: str, value: Any, at: str = "") -> Iterator[Problem]:
    """NaN and infinities anywhere in a value: JSON has neither, so no job could carry them."""
    if isinstance(value, float) and not isfinite(value):
        message = _("{key} is {value}; numbers must be finite").format(key=key + at, value=value)
        yield Problem("number-not-finite", message, at=at)
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from check_finite(key, item, f"{at}.{name}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from check_finite(key, item, f"{at}[{index}]")


def parse_text(key: str, text: str, spec: Mapping[str, Any]) -> tuple[Any, list[Problem]]:
    """The value that `text` means for a key of one plain type (`--set key=text`), with what is wrong with it."""
    if text == "null" and spec.get("nullable"):
        return None, []
    value: Any = text
    kinds = spec["type"]
    if "bool" in kinds and text in ("true", "false"):
        value = text == "true"
    elif "int" in kinds and re.fullmatch(r"[+-]?[0-9]{1,15}", text, re.ASCII):
        value = int(text)
    elif "float" in kinds and (_NUMBER.match(text) or text.lower().lstrip("+-") in ("nan", "inf", "infinity")):
        value = float(text)
    if isinstance(value, str) and "str" not in kinds:
        message = _("{key} must be {wanted}, not “{value}”").format(key=key, wanted=_wanted(spec), value=text)
        return None, [Problem("param-type", message)]
    return value, check_value(key, value, spec)


def _fits(value: Any, kind: str) -> bool:
    if kind == "any":
        return True
    if kind.startswith("list["):
        return isinstance(value, list) and all(_fits(item, kind[5:-1]) for item in value)
    if isinstance(value, bool):
        return kind == "bool"
    if kind == "float":
        return isinstance(value, int | float)
    return isinstance(value, {"int": int, "bool": bool, "str": str, "dict": dict, "list": list}[kind])


def _check_plain(key: str, value: Any, spec: Mapping[str, Any]) -> list[Problem]:
    if isinstance(value, str) and "choices" in spec:
        if value in spec["choices"]:
            return []
        choices = [str(choice) for choice in spec["choices"]]
        message = _("{key} must be one of {choices}, not “{value}”").format(
            key=key, choices=", ".join(choices), value=_cut(value)
        )
        return [Problem("param-choice", message, nearest_hint(value, choices))]
    if isinstance(value, int | float) and not isinstance(value, bool):
        bound = _broken_bound(value, spec)
        if bound:
            message = _("{key} must be {bound}, not {value}").format(key=key, bound=bound, value=_cut(value))
            return [Problem("param-range", message)]
    return []


def _broken_bound(value: float, spec: Mapping[str, Any]) -> str:
    if "min" in spec and value < spec["min"]:
        return _("at least {limit}").format(limit=spec["min"])
    if "exclusive_min" in spec and value <= spec["exclusive_min"]:
        return _("more than {limit}").format(limit=spec["exclusive_min"])
    if "max" in spec and value > spec["max"]:
        return _("at most {limit}").format(limit=spec["max"])
    if "exclusive_max" in spec and value >= spec["exclusive_max"]:
        return _("less than {limit}").format(limit=spec["exclusive_max"])
    return ""


def _wrong_items(key: str, value: Any, spec: Mapping[str, Any]) -> list[Problem]:
    """The items that make a list unfit, when a list of something else would do."""
    kinds = [kind[5:-1] for kind in spec["type"] if kind.startswith("list[")]
    if not isinstance(value, list) or not kinds:
        return []
    plain = {**spec, "type": kinds, "nullable": False}
    return [
        Problem("param-type", *_wrong_type(f"{key}[{index}]", item, plain), at=f"[{index}]")
        for index, item in enumerate(value)
        if not any(_fits(item, kind) for kind in kinds)
    ]


def _wrong_type(key: str, value: Any, spec: Mapping[str, Any]) -> tuple[str, str]:
    message = _("{key} must be {wanted}, not {found}").format(key=key, wanted=_wanted(spec), found=found_words(value))
    kinds: list[str] = spec["type"]
    if isinstance(value, str) and _NUMBER.match(value) and {"int", "float"} & set(kinds):
        number = float(value)
        better = str(int(number)) if number.is_integer() and "int" in kinds else value
        return message, _("it is in quotes, so it is text; write {value} without them").format(value=better)
    if isinstance(value, bool) and "str" in kinds:
        word = next((word for word in spec.get("choices", ()) if word == ("yes" if value else "no")), "")
        if word:
            return message, _("YAML takes a bare {word} for {value}; write it in quotes: “{word}”").format(
                word=word, value=found_words(value)
            )
    if isinstance(value, float) and value.is_integer() and "int" in kinds:
        return message, _("write {value}").format(value=int(value))
    if not isinstance(value, list) and any(_fits([value], kind) for kind in kinds):
        return message, _("write it in brackets: [{value}]").format(value=value)
    return message, ""


def _wanted(spec: Mapping[str, Any]) -> str:
    words = {
        "int": _("a whole number"),
        "float": _("a number"),
        "bool": _("true or false"),
        "str": _("text"),
        "dict": _("keys and values"),
        "any": _("any value"),
        "list": _("a list"),
        "list[int]": _("a list of whole numbers"),
        "list[str]": _("a list of texts"),
        "list[float]": _("a list of numbers"),
    }
    if "choices" in spec:
        words["str"] = _("one of {choices}").format(choices=", ".join(spec["choices"]))
    kinds = [words.get(kind, kind) for kind in spec["type"]]
    wanted = _(" or ").join(kinds)
    return _("{kinds} or null").format(kinds=wanted) if spec.get("nullable") else wanted


def found_words(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _("the text “{value}”").format(value=_cut(value))
    if isinstance(value, list):
        return _("a list")
    return _("keys and values") if isinstance(value, dict) else _cut(value)


def _cut(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:60]}…"
