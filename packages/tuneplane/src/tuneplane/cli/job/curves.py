"""Curves of a job as text: drawn for a terminal, or point by point."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from math import isfinite, nan
from typing import NamedTuple

from tuneplane.cli.plot import plot, smooth
from tuneplane.cli.text import clean
from tuneplane.client.types import CurvePart, Number
from tuneplane.i18n import _, ngettext

AXES = ("step", "time", "relative", "tokens", "epoch")
WIDEST = 160
ROWS, FEW_ROWS = 10, 6


class Shown(NamedTuple):
    """How curves are drawn. `smoothing`: 0 to below 1."""

    axis: str = "step"
    smoothing: float = 0.0


class Point(NamedTuple):
    attempt: int
    step: int
    x: float
    value: float


def drawing(name: str, parts: list[CurvePart], shown: Shown, *, many: bool = False) -> str:
    """A curve with its name, as wide as the terminal; `many`: it is one of several, which stay low."""
    points = spliced(parts, shown.axis)
    values = [point.value for point in points]
    values = smooth(values, shown.smoothing) if shown.smoothing else values
    columns = max(20, min(WIDEST, shutil.get_terminal_size().columns - 14))
    drawn = plot(
        [(point.x, value) for point, value in zip(points, values, strict=True)],
        columns=columns,
        rows=FEW_ROWS if many else ROWS,
        show_x=_SHOW.get(shown.axis, "{:g}".format),
    )
    facts = [clean(name)]
    if shown.smoothing and drawn:
        facts.append(_("smoothed {weight:g}").format(weight=shown.smoothing))
    odd = sum(not isfinite(value) for value in values)
    if odd:
        facts.append(ngettext("{count} value is no number", "{count} values are no numbers", odd).format(count=odd))
    if not drawn:
        facts.append(_("nothing to draw over this axis") if points else _("no points yet"))
    return f"\n{' · '.join(facts)}\n{drawn}"


def spliced(parts: list[CurvePart], axis: str = "step") -> list[Point]:
    """The points that count: a later attempt takes over from the step it resumed at."""
    points: list[Point] = []
    for part in sorted(parts, key=lambda part: part["attempt"]):
        steps = part["step"]
        if steps:
            points = [point for point in points if point.step < steps[0]]
        places = part.get("x") or (steps if axis == "step" else [None] * len(steps))
        points += [
            Point(part["attempt"], step, nan if x is None else as_float(x), as_float(value))
            for step, x, value in zip(steps, places, part["value"], strict=False)
        ]
    return points


def as_float(value: Number) -> float:
    """`NaN` and the infinities travel as text; any other text counts as no number."""
    try:
        return float(value)
    except ValueError:
        return nan


def _moment(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).astimezone().strftime("%m-%d %H:%M")
    except (OverflowError, OSError, ValueError):
        return f"{seconds:g}"


def _span(seconds: float) -> str:
    minutes, rest = divmod(int(abs(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    sign = "-" if seconds < 0 else ""
    return f"{sign}{hours}h{minutes:02}m" if hours else f"{sign}{minutes}m{rest:02}s"


_SHOW: dict[str, Callable[[float], str]] = {"time": _moment, "relative": _span, "tokens": "{:,.0f}".format}
