"""Fewer points of a curve, chosen so that nothing a reader looks for disappears.

A bucket is `width` consecutive points, width a power of two and aligned to the first point of the attempt: appending
points changes only the last bucket, so a live curve does not flicker. Each bucket keeps its minimum, its maximum (the
first of equals) and its first NaN; the ends of the curve are always kept. The choice is a function of the points alone.

A rollup is the same choice at `ROLLUP_WIDTH`, kept beside a stored block. Choosing from rollups gives exactly what
choosing from the points gives whenever the wanted width is no smaller.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence

MIN_POINTS = 8
MAX_POINTS = 10_000
ROLLUP_WIDTH = 64


def bucket_width(count: int, max_points: int, *, has_nan: bool) -> int:
    """Points per bucket so that at most `max_points` (≥ `MIN_POINTS`) of `count` are kept; 1 when all are."""
    if count <= max_points:
        return 1
    buckets = (max_points - 2) // (3 if has_nan else 2)
    width = 2
    while -(-count // width) > buckets:
        width *= 2
    return width


def choose(values: Sequence[float], width: int, positions: Sequence[int] | None = None) -> list[int]:
    """Ascending indices into `values` to keep.

    `positions`: ascending place of each value in the whole curve; None when `values` is the whole curve.
    """
    return choose_within(values, _buckets(len(values), width, positions)) if width > 1 else list(range(len(values)))


def choose_within(values: Sequence[float], buckets: Iterable[tuple[int, int]]) -> list[int]:
    """Ascending indices into `values` to keep, given the buckets as ranges of indices."""
    if isinstance(values, array):
        values = values.tolist()  # each number is looked at several times
    kept: set[int] = {0, len(values) - 1} if len(values) else set()
    for start, stop in buckets:
        kept.update(_extremes(values, start, stop))
    return sorted(kept)


def has_nan(values: Sequence[float]) -> bool:
    return math.isnan(sum(values)) and any(math.isnan(value) for value in values)


def _buckets(count: int, width: int, positions: Sequence[int] | None) -> list[tuple[int, int]]:
    if positions is None:
        return [(start, min(start + width, count)) for start in range(0, count, width)]
    found: list[tuple[int, int]] = []
    start = 0
    for index in range(1, count + 1):
        if index == count or positions[index] // width != positions[start] // width:
            found.append((start, index))
            start = index
    return found


def _extremes(values: Sequence[float], start: int, stop: int) -> list[int]:
    part = values[start:stop]
    if not math.isnan(sum(part)):
        return [start + part.index(min(part)), start + part.index(max(part))]
    indices = [index for index in range(start, stop) if not math.isnan(values[index])]
    kept = (
        [next(index for index in range(start, stop) if math.isnan(values[index]))]
        if len(indices) < stop - start
        else []
    )
    if indices:
        kept += [min(indices, key=values.__getitem__), max(indices, key=values.__getitem__)]
    return kept
