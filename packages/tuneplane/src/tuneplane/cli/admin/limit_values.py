"""Limits as they are typed: a figure, `none` for no limit, `default` to take what everyone has."""

from __future__ import annotations

import re
from math import isfinite
from typing import Any

import click

from tuneplane.i18n import _

NONE, DEFAULT = "none", "default"
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION = re.compile(r"(\d{1,9})([smhd]?)", re.ASCII)
_WHOLE = re.compile(r"-?\d{1,12}", re.ASCII)


class LimitType(click.ParamType):
    """One limit; `None` is no limit and `DEFAULT` gives the field back. Ranges are the console's business."""

    name = "limit"

    def __init__(self, kind: str) -> None:
        self.kind = kind  # whole | number | duration | names

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        what = {"whole": "N", "number": "N", "duration": "TIME", "names": "A,B,…"}[self.kind]
        return f"{what}|{NONE}|{DEFAULT}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        text = str(value).strip()
        if text in (NONE, DEFAULT):
            return None if text == NONE else DEFAULT
        found = {"whole": _whole, "number": _number, "duration": _duration, "names": _names}[self.kind](text)
        if found is None:
            self.fail(self._wanted().format(text=text[:80]), param, ctx)
        return found

    def _wanted(self) -> str:
        return {
            "whole": _("“{text}” is no whole number; none means no limit, default what everyone has"),
            "number": _("“{text}” is no finite number; none means no limit, default what everyone has"),
            "duration": _("“{text}” is no time; write 90s, 30m, 2h or 1d, none or default"),
            "names": _("“{text}” is no list; write names with commas between, none or default"),
        }[self.kind]


def _whole(text: str) -> int | None:
    return int(text) if _WHOLE.fullmatch(text) else None


def _number(text: str) -> float | None:
    try:
        number = float(text)
    except ValueError:
        return None
    return number if isfinite(number) else None


def _duration(text: str) -> int | None:
    found = _DURATION.fullmatch(text)
    return int(found[1]) * _UNITS[found[2]] if found else None


def _names(text: str) -> list[str] | None:
    names = [part.strip() for part in text.split(",")]
    return names if all(names) else None
