"""Columns of one metric series <-> bytes of one chunk.

A chunk is one header byte and the columns step (int64), time (float64), value (float64) and, when present, epoch
(float64), little-endian. In a compressed chunk the bytes of each column are transposed (all first bytes, then all second
bytes, …), which lets zstd find the bytes that barely change. Small chunks stay as they are: compressing them costs more
than it saves, and they are merged into larger ones later.
NaN and the infinities are ordinary IEEE doubles here; the three strings of the wire exist only at its edge.
"""

from __future__ import annotations

import math
import sys
from array import array
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from compression import zstd

WIDTH = 8
COMPRESSED, HAS_EPOCH = 1, 2
LEVEL = 1  # of zstd: the bytes hardly shrink further, the time doubles
MIN_COMPRESSED_BYTES = 768
MAX_CHUNK_POINTS = 1 << 20

NON_FINITE = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


class ChunkError(ValueError):
    """Bytes that are no chunk of the stated size: the stored row is damaged."""


class Columns(NamedTuple):
    """Equal length. `step` array('q'), `time` Unix seconds and `value` array('d'), `epoch` array('d') or None."""

    step: array[int]
    time: array[float]
    value: array[float]
    epoch: array[float] | None = None

    def take(self, indices: Iterable[int]) -> Columns:
        chosen = list(indices)
        return Columns(
            array("q", [self.step[i] for i in chosen]),
            array("d", [self.time[i] for i in chosen]),
            array("d", [self.value[i] for i in chosen]),
            None if self.epoch is None else array("d", [self.epoch[i] for i in chosen]),
        )

    def cut(self, start: int, stop: int) -> Columns:
        epoch = None if self.epoch is None else self.epoch[start:stop]
        return Columns(self.step[start:stop], self.time[start:stop], self.value[start:stop], epoch)


class Summary(NamedTuple):
    """`value_min`/`value_max` over everything that is not NaN (infinities count); None when all is NaN."""

    count: int
    step_min: int
    step_max: int
    value_min: float | None
    value_max: float | None


def columns(
    step: Sequence[int], time: Sequence[float], value: Sequence[float | str], epoch: Sequence[float] | None = None
) -> Columns:
    """Columns from the wire's lists. Raises `ValueError` for unequal lengths, `OverflowError` for a step beyond int64."""
    if not len(step) == len(time) == len(value) or (epoch is not None and len(epoch) != len(step)):
        raise ValueError("columns differ in length")
    plain: Any = value  # strings are rare; finding them costs nothing this way
    try:
        values: array[float] = array("d", plain)
    except TypeError:
        values = array("d", [NON_FINITE[item] if isinstance(item, str) else item for item in value])
    return Columns(array("q", step), array("d", time), values, None if epoch is None else array("d", epoch))


def joined(parts: Sequence[Columns]) -> Columns:
    """The parts one after the other. Epoch is kept only when every part has it."""
    result = Columns(
        array("q"), array("d"), array("d"), array("d") if all(p.epoch is not None for p in parts) else None
    )
    for part in parts:
        result.step.extend(part.step)
        result.time.extend(part.time)
        result.value.extend(part.value)
        if result.epoch is not None and part.epoch is not None:
            result.epoch.extend(part.epoch)
    return result


def summary(data: Columns) -> Summary:
    """Count and extremes of at least one point."""
    values = data.value.tolist()  # one object per number, not one for each look at it
    if math.isnan(sum(values)):  # a NaN is inside, or infinities of both signs are: look closer
        values = [value for value in values if not math.isnan(value)]
    low, high = (min(values), max(values)) if values else (None, None)
    steps = sorted(data.step)  # they nearly always are, and sorting what is sorted is quicker than looking for its ends
    return Summary(len(steps), steps[0], steps[-1], low, high)


def encode(data: Columns) -> bytes:
    kept = [data.step, data.time, data.value] + ([] if data.epoch is None else [data.epoch])
    flags = 0 if data.epoch is None else HAS_EPOCH
    plain = [_little_endian(column).tobytes() for column in kept]
    if len(kept) * len(plain[0]) >= MIN_COMPRESSED_BYTES:
        return bytes([flags | COMPRESSED]) + zstd.compress(b"".join(map(_transposed, plain)), LEVEL)
    return bytes([flags]) + b"".join(plain)


class Packed:
    """A chunk of `count` points whose columns are unpacked one at a time; raises `ChunkError` for anything else."""

    __slots__ = ("_packed", "_payload", "_size", "count", "has_epoch")

    def __init__(self, data: bytes, count: int) -> None:
        if not data or not 0 <= count <= MAX_CHUNK_POINTS or data[0] & ~(COMPRESSED | HAS_EPOCH):
            raise ChunkError("not a chunk of metric points")
        self.count, self.has_epoch, self._packed = count, bool(data[0] & HAS_EPOCH), bool(data[0] & COMPRESSED)
        self._size = count * WIDTH
        whole = self._size * (4 if self.has_epoch else 3)
        self._payload = _inflated(data[1:], whole) if self._packed else data[1:]
        if len(self._payload) != whole:
            raise ChunkError(f"a chunk of {count} points has {len(self._payload)} bytes instead of {whole}")

    @property
    def step(self) -> array[int]:
        return self._column("q", 0)

    @property
    def time(self) -> array[float]:
        return self._column("d", 1)

    @property
    def value(self) -> array[float]:
        return self._column("d", 2)

    @property
    def epoch(self) -> array[float] | None:
        return self._column("d", 3) if self.has_epoch else None

    def _column(self, kind: str, index: int) -> array[Any]:
        part = self._payload[index * self._size : (index + 1) * self._size]
        return _little_endian(array(kind, _original(part) if self._packed else part))


def decode(data: bytes, count: int) -> Columns:
    """The columns of a chunk of `count` points; raises `ChunkError` for anything else."""
    chunk = Packed(data, count)
    return Columns(chunk.step, chunk.time, chunk.value, chunk.epoch)


def json_numbers(values: Sequence[float]) -> list[float | str]:
    """Numbers for strict JSON: what JSON lacks becomes the wire's strings."""
    return [value if math.isfinite(value) else non_finite_name(value) for value in values]


def json_number(value: float) -> float | str:
    return value if math.isfinite(value) else non_finite_name(value)


def non_finite_name(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def column_bytes(column: array[Any]) -> bytes:
    """One column as it lies in a compressed chunk."""
    return _transposed(_little_endian(column).tobytes())


def column_of(kind: str, data: bytes) -> array[Any]:
    """The column that `column_bytes` gave."""
    return _little_endian(array(kind, _original(data)))


def _transposed(column: bytes) -> bytes:
    return b"".join(column[index::WIDTH] for index in range(WIDTH))


def _original(transposed: bytes) -> bytes:
    count = len(transposed) // WIDTH
    column = bytearray(len(transposed))
    for index in range(WIDTH):
        column[index::WIDTH] = transposed[index * count : (index + 1) * count]
    return bytes(column)


def _little_endian[T: (int, float)](column: array[T], byteorder: str = sys.byteorder) -> array[T]:
    if byteorder == "little":
        return column
    swapped = column[:]
    swapped.byteswap()
    return swapped


def _inflated(data: bytes, size: int) -> bytes:
    """At most `size` bytes and one more, whatever the frame claims."""
    try:
        return zstd.ZstdDecompressor().decompress(data, max_length=size + 1)
    except (zstd.ZstdError, EOFError) as error:
        raise ChunkError(f"a chunk's zstd frame is damaged: {error}") from error
