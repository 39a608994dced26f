"""Values into shell text. Pure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

_MARK = re.compile(r"@([A-Z_]+)@")


def fill(text: str, raw: Mapping[str, str] | None = None, **values: str | int) -> str:
    """Each `@NAME@` replaced by its value as one shell word, or by shell text of `raw`. Raises `KeyError` for a mark without a value.

    What is put in is not looked at again, so a value may hold a mark.
    """
    shell = {**{name: word(value) for name, value in values.items()}, **(raw or {})}
    return _MARK.sub(lambda mark: shell[mark[1]], text)


def word(value: str | int) -> str:
    """`value` as exactly one word of POSIX sh."""
    return shlex.quote(str(value))
