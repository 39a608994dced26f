"""Broken `config.yaml` files, generated from the schemas of the catalog: each with one fault whose code and line are known beforehand.

What fits a key is judged here anew and not by the product's own check.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tuneplane.recipes import index

# Cross-framework keys are taken out of the config before the framework's own are looked at.
SHARED = ("data.train", "data.validation", "data.volumes", "data.output_dataset", "data.environment", "data.taskset", "data.quality", "eval", "defaults")  # fmt: skip
VALUES: tuple[Any, ...] = ("words", 3, 2.5, True, [1], ["a"], None, {"a": 1})
KINDS: dict[str, tuple[type, ...]] = {
    "int": (int,), "float": (int, float), "bool": (bool,), "str": (str,), "dict": (dict,), "list": (list,),
}  # fmt: skip

Keys = dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Broken:
    """`text` is the file; its fault is at `line` and gets `code`; the hint holds `hint`."""

    method: str
    kind: str
    key: str
    text: str
    line: int
    code: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.method} {self.kind} {self.key}"


def generate(count: int, seed: int) -> list[Broken]:
    """`count` files over all methods and kinds of faults in turn; the same for the same seed."""
    random_ = random.Random(seed)
    makers: list[Callable[[_Method, random.Random], Broken | None]] = [
        wrong_type, out_of_range, no_choice, unknown_key, owned_key, not_finite,
    ]  # fmt: skip
    found: list[Broken] = []
    methods = [_Method(name) for name in index.methods()]
    turn = 0
    while len(found) < count:
        again, which = divmod(turn, len(methods))
        # A method that takes any key refuses no more than numbers that are none.
        maker = makers[(which + again) % len(makers)] if methods[which].all else not_finite
        made = maker(methods[which], random_)
        found += [made] if made is not None else []
        turn += 1
        assert turn < 100 * count
    return found


class _Method:
    def __init__(self, name: str) -> None:
        self.name = name
        entry = index.entry(name)
        self.owned: dict[str, str] = entry["manifest"]["adapter_options"]["owned"]
        self.all: Keys = index.config_keys(entry) or {}
        self.sections = {key[:at] for key in [*self.all, *self.owned] for at in range(len(key)) if key[at] == "."}
        self.plain: Keys = {key: spec for key, spec in sorted(self.all.items()) if self._plain(key)}

    def _plain(self, key: str) -> bool:
        return key not in self.sections and not _below(key, self.owned) and not _below(key, SHARED)

    def pick(self, random_: random.Random, fits: Callable[[dict[str, Any]], bool]) -> str | None:
        """A key whose spec `fits`."""
        keys = [key for key, spec in self.plain.items() if fits(spec)]
        return random_.choice(keys) if keys else None

    def broken(self, random_: random.Random, kind: str, key: str, value: str, code: str, hint: str = "") -> Broken:
        text, line = _file(random_, key, value)
        return Broken(self.name, kind, key, text, line, code, hint)


def wrong_type(method: _Method, random_: random.Random) -> Broken | None:
    key = method.pick(random_, lambda spec: bool(_misfits(spec)))
    if key is None:
        return None
    value = random_.choice(_misfits(method.plain[key]))
    return method.broken(random_, "type", key, json.dumps(value), "param-type")


def out_of_range(method: _Method, random_: random.Random) -> Broken | None:
    key = method.pick(random_, lambda spec: bool(_outside(spec)))
    if key is None:
        return None
    value = random_.choice(_outside(method.plain[key]))
    return method.broken(random_, "range", key, json.dumps(value), "param-range")


def no_choice(method: _Method, random_: random.Random) -> Broken | None:
    key = method.pick(random_, lambda spec: "str" in spec["type"] and len(spec.get("choices", ())) > 0)
    if key is None:
        return None
    choices = method.plain[key]["choices"]
    value = f"{random_.choice(choices)}x"
    return None if value in choices else method.broken(random_, "choice", key, json.dumps(value), "param-choice")


def unknown_key(method: _Method, random_: random.Random) -> Broken | None:
    """A key that is one letter away from one that the framework has."""
    key = method.pick(random_, lambda _spec: True)
    if key is None:
        return None
    above, dot, last = key.rpartition(".")
    at = random_.randrange(1, len(last)) if len(last) > 4 else 0
    if at == 0 or above == "data" or any(_below(above, {name}) for name, spec in method.all.items() if _open(spec)):
        return None
    misspelt = f"{above}{dot}{last[:at]}{last[at + 1 :]}"
    if misspelt in method.all or misspelt in method.sections or misspelt in method.owned:
        return None
    return method.broken(random_, "unknown", misspelt, "1", "param-unknown", "did you mean")


def owned_key(method: _Method, random_: random.Random) -> Broken | None:
    keys = sorted(key for key in method.owned if not _below(key, SHARED))
    if not keys:
        return None
    key = random_.choice(keys)
    return method.broken(random_, "owned", key, "1", "key-platform-owned", method.owned[key])


def not_finite(method: _Method, random_: random.Random) -> Broken | None:
    key = method.pick(random_, lambda spec: "float" in spec["type"]) or ("anything" if not method.all else None)
    if key is None:
        return None
    value = random_.choice([".nan", ".inf", "-.inf", "1e999"])
    return method.broken(random_, "finite", key, value, "number-not-finite")


def _file(random_: random.Random, key: str, value: str) -> tuple[str, int]:
    """The file and the line of the key in it: nested as its path says, or as one dotted key; comments anywhere."""
    parts = key.split(".") if random_.random() < 0.8 else [key]
    lines = list(_comments(random_))
    for depth, part in enumerate(parts[:-1]):
        lines += [f"{'  ' * depth}{_quoted(part)}:", *_comments(random_)]
    lines.append(f"{'  ' * (len(parts) - 1)}{_quoted(parts[-1])}: {value}")
    line = len(lines)
    return "\n".join([*lines, *_comments(random_)]) + "\n", line


def _comments(random_: random.Random) -> Iterator[str]:
    yield from ("# a remark" if random_.random() < 0.5 else "" for _line in range(random_.randrange(4)))


def _quoted(part: str) -> str:
    """YAML 1.1 takes bare `on`, `n` and numbers for something else than text."""
    return part if part.isidentifier() and len(part) > 3 else json.dumps(part)


def _misfits(spec: dict[str, Any]) -> list[Any]:
    return [value for value in VALUES if not _fits(value, spec)]


def _fits(value: Any, spec: dict[str, Any]) -> bool:
    if value is None:
        return bool(spec.get("nullable")) or "any" in spec["type"]
    return any(_is(value, kind) for kind in spec["type"])


def _is(value: Any, kind: str) -> bool:
    if kind == "any":
        return True
    if kind.startswith("list["):
        return isinstance(value, list) and all(_is(item, kind[5:-1]) for item in value)
    if isinstance(value, bool) and kind != "bool":
        return False
    return isinstance(value, KINDS[kind])


def _outside(spec: dict[str, Any]) -> list[float]:
    """Numbers of the key's type that its bounds forbid."""
    whole = "int" in spec["type"] and "float" not in spec["type"]
    if not {"int", "float"} & set(spec["type"]):
        return []
    found = [spec[bound] + step for bound, step in (("min", -1), ("max", 1)) if bound in spec]
    found += [spec[bound] for bound in ("exclusive_min", "exclusive_max") if bound in spec]
    return [int(value) for value in found if value == int(value)] if whole else found


def _open(spec: dict[str, Any]) -> bool:
    return "dict" in spec["type"] or "any" in spec["type"]


def _below(key: str, names: Any) -> bool:
    """Whether the key, or one above it, is among the names."""
    parts = key.split(".")
    return any(".".join(parts[:end]) in names for end in range(1, len(parts) + 1))
