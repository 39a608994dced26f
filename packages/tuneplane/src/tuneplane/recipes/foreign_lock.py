"""Locks of earlier clients (`forge/recipe-lock/v4` and its like): what a new lock needs to know of them, and no more.

Their digests are of other catalogs and mean nothing here. The method, and the version of its framework, are named in one of a few
places; a method may be spelt as its framework's package is (`nemo_rl/grpo`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tuneplane.contract.names import is_method_id
from tuneplane.recipes.lock import MAX_LOCK_BYTES

_METHOD_PLACES = (
    ("recipe", "name"),
    ("recipe", "id"),
    ("recipe", "method"),
    ("recipe",),
    ("method",),
    ("metadata", "method"),
    ("name",),
)
_VERSION_PLACES = (("framework", "version"), ("runtime", "framework_version"), ("framework_version",))
_KIND_PLACES = (("framework", "kind"), ("framework", "name"), ("framework",))


class ForeignLock(NamedTuple):
    """`form`: its apiVersion; `method`, in our spelling, and `framework_version` are empty when it names none.."""

    form: str = ""
    method: str = ""
    framework_version: str = ""


def read_foreign(path: Path) -> ForeignLock:
    """What the file says of its method; empty for what cannot be read."""
    try:
        with path.open("rb") as file:
            value = json.loads(file.read(MAX_LOCK_BYTES + 1))
    except (OSError, ValueError, RecursionError):
        return ForeignLock()
    if not isinstance(value, dict):
        return ForeignLock()
    return ForeignLock(
        form=next(_texts(value, (("apiVersion",),)), ""),
        method=next(_methods(value), ""),
        framework_version=next(_texts(value, _VERSION_PLACES), ""),
    )


def _methods(value: Mapping[str, Any]) -> Iterator[str]:
    for text in _texts(value, _METHOD_PLACES):
        beside = (f"{kind}/{text}" for kind in _texts(value, _KIND_PLACES))
        yield from (plain for name in (text, *beside) if is_method_id(plain := name.lower().replace("_", "-")))


def _texts(value: Mapping[str, Any], places: tuple[tuple[str, ...], ...]) -> Iterator[str]:
    for place in places:
        found: Any = value
        for key in place:
            found = found.get(key) if isinstance(found, dict) else None
        if isinstance(found, str) and found:
            yield found
