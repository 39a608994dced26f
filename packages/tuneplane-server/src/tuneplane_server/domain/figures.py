"""Hardware figures of one thing (a machine, a card, a job) over time: columns in memory <-> bytes of one block.

All figures of a thing are measured at the same moments, so a block is one column of times and one column per figure. NaN stands
for a figure that was not measured at that moment; a name that comes later is NaN before.
"""

from __future__ import annotations

import json
import math
from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from compression import zstd

from tuneplane_server.domain import downsample
from tuneplane_server.domain.series_codec import WIDTH, ChunkError, column_bytes, column_of

BLOCK_POINTS = 512  # a multiple of `downsample.ROLLUP_WIDTH`, so that buckets and blocks have common edges
MAX_NAMES = 64
MAX_NAME = 40
LEVEL = 3
_MAX_BYTES = 4096 + WIDTH * BLOCK_POINTS * (MAX_NAMES + 1) + 2 * BLOCK_POINTS * MAX_NAMES


@dataclass
class Frame:
    """`times`: Unix seconds, ascending. Every column is as long as `times`."""

    times: array[float] = field(default_factory=lambda: array("d"))
    columns: dict[str, array[float]] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.times)

    def add(self, time: float, figures: Mapping[str, float]) -> None:
        """One moment. Names beyond `MAX_NAMES` are left out."""
        for name in figures:
            if name not in self.columns and len(self.columns) < MAX_NAMES and len(name) <= MAX_NAME:
                self.columns[name] = array("d", [math.nan]) * len(self.times)
        self.times.append(time)
        for name, column in self.columns.items():
            column.append(figures.get(name, math.nan))


class Points(NamedTuple):
    """Some points of one figure. `places`: where they stand in the whole series; equal length."""

    places: array[int]
    times: array[float]
    values: array[float]


def encode(frame: Frame) -> bytes:
    names = json.dumps(list(frame.columns)).encode()
    plain = b"".join([column_bytes(frame.times), *(column_bytes(column) for column in frame.columns.values())])
    return len(frame).to_bytes(2, "little") + zstd.compress(len(names).to_bytes(2, "little") + names + plain, LEVEL)


def decode(data: bytes) -> Frame:
    """Raises `ChunkError` for anything else than what `encode` gives."""
    if len(data) < 2:
        raise ChunkError("not a block of hardware figures")
    count, payload = int.from_bytes(data[:2], "little"), _inflated(data[2:])
    end = 2 + int.from_bytes(payload[:2], "little")
    try:
        names = json.loads(payload[2:end])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("no list of names")
    except ValueError as error:
        raise ChunkError("the names of a block of hardware figures are damaged") from error
    size = count * WIDTH
    if len(payload) != end + size * (1 + len(names)):
        raise ChunkError(f"a block of {count} moments and {len(names)} figures has {len(payload) - end} bytes")
    parts = (
        [payload[start : start + size] for start in range(end, len(payload), size)]
        if size
        else [b""] * (1 + len(names))
    )
    times, *columns = (column_of("d", part) for part in parts)
    return Frame(times, dict(zip(names, columns, strict=True)))


def rollup(frame: Frame) -> bytes:
    """The same choice of points for every figure that `downsample` makes at its rollup width, beside the block."""
    chosen = {name: downsample.choose(column, downsample.ROLLUP_WIDTH) for name, column in frame.columns.items()}
    header = json.dumps({name: len(places) for name, places in chosen.items()}).encode()
    plain = b"".join(
        column_bytes(array("q", places))
        + column_bytes(array("d", [frame.times[place] for place in places]))
        + column_bytes(array("d", [frame.columns[name][place] for place in places]))
        for name, places in chosen.items()
    )
    return zstd.compress(len(header).to_bytes(2, "little") + header + plain, LEVEL)


def points_of_rollup(data: bytes, block: int) -> dict[str, Points]:
    """`block`: how many full blocks are before this one. Raises `ChunkError`."""
    payload = _inflated(data)
    start = 2 + int.from_bytes(payload[:2], "little")
    try:
        counts = json.loads(payload[2:start])
        if not isinstance(counts, dict) or not all(type(count) is int and count >= 0 for count in counts.values()):
            raise ValueError("no counts by name")
    except ValueError as error:
        raise ChunkError("the header of a rollup is damaged") from error
    found = {}
    for name, count in counts.items():
        size = count * WIDTH
        columns = [payload[at : at + size] for at in (start, start + size, start + 2 * size)]
        start += 3 * size
        places = column_of("q", columns[0])
        whole = array("q", [block * BLOCK_POINTS + place for place in places])
        found[name] = Points(whole, column_of("d", columns[1]), column_of("d", columns[2]))
    if start != len(payload):
        raise ChunkError("a rollup has another length than its header says")
    return found


def points_of(frame: Frame, block: int) -> dict[str, Points]:
    """All points of a block."""
    start = block * BLOCK_POINTS
    places = array("q", range(start, start + len(frame)))
    return {name: Points(places, frame.times, column) for name, column in frame.columns.items()}


def thin(parts: list[Points], total: int, max_points: int) -> tuple[list[float], list[float]]:
    """(times, values) of at most `max_points` points with their extremes; `total`: moments of the whole series. What was not
    measured is left out."""
    places, times, values = array("q"), array("d"), array("d")
    for part in parts:
        places.extend(part.places)
        times.extend(part.times)
        values.extend(part.values)
    width = downsample.bucket_width(total, max_points, has_nan=downsample.has_nan(values))
    kept = [at for at in downsample.choose(values, width, places) if not math.isnan(values[at])]
    return [times[at] for at in kept], [values[at] for at in kept]


def _inflated(data: bytes) -> bytes:
    try:
        payload = zstd.ZstdDecompressor().decompress(data, max_length=_MAX_BYTES + 1)
    except (zstd.ZstdError, EOFError) as error:
        raise ChunkError(f"a block's zstd frame is damaged: {error}") from error
    if not 2 <= len(payload) <= _MAX_BYTES:
        raise ChunkError("not a block of hardware figures")
    return payload
