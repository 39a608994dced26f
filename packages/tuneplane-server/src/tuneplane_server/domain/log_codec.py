"""Pieces of a job's output <-> bytes of one stored chunk.

A piece is what one log record brought: its seq, its arrival time and its raw bytes. A chunk is one header byte, the
number of pieces (uint32), the columns seq (uint64), time (float64), length (uint32), all little-endian, and the bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import accumulate, pairwise
from typing import NamedTuple

from compression import zstd

PLAIN, COMPRESSED = 0, 1
LEVEL = 3
MIN_COMPRESSED_BYTES = 128
# Upper bound of a decoded chunk: pieces of at most 64 KiB are joined until a chunk has MAX_RAW_BYTES.
MAX_RAW_BYTES = 128 * 1024
MAX_DECODED_BYTES = 4 * 1024 * 1024
_COUNT = struct.Struct("<I")


class LogChunkError(ValueError):
    """Bytes that are no log chunk: the stored row is damaged."""


class Piece(NamedTuple):
    """`time`: Unix seconds at arrival in the runner."""

    seq: int
    time: float
    data: bytes


def encode(pieces: Sequence[Piece]) -> bytes:
    count = len(pieces)
    head = _COUNT.pack(count) + struct.pack(
        f"<{count}Q{count}d{count}I",
        *(piece.seq for piece in pieces),
        *(piece.time for piece in pieces),
        *(len(piece.data) for piece in pieces),
    )
    payload = head + b"".join(piece.data for piece in pieces)
    if len(payload) >= MIN_COMPRESSED_BYTES:
        packed = zstd.compress(payload, LEVEL)
        if len(packed) < len(payload):
            return bytes([COMPRESSED]) + packed
    return bytes([PLAIN]) + payload


def decode(data: bytes) -> list[Piece]:
    """The pieces of a chunk; raises `LogChunkError` for anything that `encode` did not make."""
    payload = _payload(data)
    if len(payload) < _COUNT.size:
        raise LogChunkError("a log chunk is shorter than its head")
    (count,) = _COUNT.unpack_from(payload)
    form = struct.Struct(f"<{count}Q{count}d{count}I") if count <= len(payload) // 20 else None
    if form is None or len(payload) < _COUNT.size + form.size:
        raise LogChunkError(f"a log chunk claims {count} pieces and is too short for them")
    numbers = form.unpack_from(payload, _COUNT.size)
    seqs, times, lengths = numbers[:count], numbers[count : 2 * count], numbers[2 * count :]
    ends = list(accumulate(lengths, initial=_COUNT.size + form.size))
    if ends[-1] != len(payload):
        raise LogChunkError(f"a log chunk has {len(payload)} bytes, its pieces end at {ends[-1]}")
    slices = (payload[start:stop] for start, stop in pairwise(ends))
    return [Piece(seq, time, piece) for seq, time, piece in zip(seqs, times, slices, strict=True)]


def _payload(data: bytes) -> bytes:
    if data[:1] == bytes([PLAIN]):
        return data[1:]
    if data[:1] != bytes([COMPRESSED]):
        raise LogChunkError("not a log chunk")
    try:
        return zstd.ZstdDecompressor().decompress(data[1:], max_length=MAX_DECODED_BYTES)
    except (zstd.ZstdError, EOFError) as error:
        raise LogChunkError(f"a log chunk's zstd frame is damaged: {error}") from error
