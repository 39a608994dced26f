"""A curve in a terminal, drawn with braille dots: two columns and four rows of points in every character."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import isfinite

_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_BLANK = 0x2800

type Point = tuple[float, float]


def plot(
    points: Sequence[Point], *, columns: int = 60, rows: int = 8, show_x: Callable[[float], str] = "{:g}".format
) -> str:
    """The curve through (x, y) points, sorted by x or not, with its bounds on the left and below. The line breaks where a value
    is not finite; a place that is not finite is left out; without any point the text is empty. `show_x`: how a place reads."""
    placed = sorted((point for point in points if isfinite(point[0])), key=lambda point: point[0])
    known = [point for point in placed if isfinite(point[1])]
    if not known:
        return ""
    low, high = min(y for _x, y in known), max(y for _x, y in known)
    first, last = known[0][0], known[-1][0]
    grid = [[_BLANK] * columns for _row in range(rows)]
    width, height = columns * 2 - 1, rows * 4 - 1

    def place(x: float, y: float) -> tuple[int, int]:
        across = 0.0 if last == first else _share(x, first, last)
        up = 0.5 if high == low else _share(y, low, high)
        return round(across * width), round((1 - up) * height)

    previous: tuple[int, int] | None = None
    for x, y in placed:
        here = place(x, y) if isfinite(y) else None
        for column, row in _line(previous or here, here) if here else ():
            grid[row // 4][column // 2] |= _DOTS[column % 2][row % 4]
        previous = here
    labels = [f"{high:.4g}", *[""] * (rows - 2), f"{low:.4g}"]
    margin = max(len(label) for label in labels)
    lines = [
        f"{label:>{margin}} ┤{''.join(map(chr, cells)).rstrip(chr(_BLANK))}"
        for label, cells in zip(labels, grid, strict=True)
    ]
    start, end = show_x(first), show_x(last)
    lines.append(f"{'':>{margin}} └{start:<{max(1, columns - len(end))}}{end}")
    return "\n".join(lines) + "\n"


def smooth(values: Iterable[float], weight: float) -> list[float]:
    """Exponential moving average, corrected for its start (Kingma & Ba 2015, §3); `weight` from 0 to below 1. What is not finite
    stays as it is and does not count. The console's curves are smoothed the same way."""
    average, count, found = 0.0, 0, []
    for value in values:
        if isfinite(value):
            average, count = average * weight + (1 - weight) * value, count + 1
        found.append(average / (1 - weight**count) if isfinite(value) else value)
    return found


def _share(value: float, low: float, high: float) -> float:
    """How far `value` lies between the bounds, 0 to 1; also where their distance is beyond what a float can hold."""
    if isfinite(high - low):
        return (value - low) / (high - low)
    return (value / 2 - low / 2) / (high / 2 - low / 2)


def _line(start: tuple[int, int], end: tuple[int, int]) -> list[tuple[int, int]]:
    """Grid points of a straight line, both ends included."""
    steps = max(abs(end[0] - start[0]), abs(end[1] - start[1]))
    if steps == 0:
        return [end]
    return [
        (
            round(start[0] + (end[0] - start[0]) * step / steps),
            round(start[1] + (end[1] - start[1]) * step / steps),
        )
        for step in range(steps + 1)
    ]
