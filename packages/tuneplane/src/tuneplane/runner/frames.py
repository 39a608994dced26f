"""One spooled record: `<crc32> <stream> <rank> <seq> <json>` and a newline. The checksum covers all that follows it.

The JSON is the NDJSON line of the wire, so shipping copies bytes; the identity beside it is what acknowledgements need.
"""

from __future__ import annotations

import json
import zlib
from typing import Any, Dict, Iterator, List, NamedTuple, Tuple

from tuneplane.contract.words import STREAM_EVENT, STREAM_LOG, STREAM_METRIC, STREAMS


class Frame(NamedTuple):
    stream: str
    rank: int
    seq: int
    payload: bytes

    @property
    def key(self) -> str:
        return f"{self.rank}/{self.stream}"


def encode(attempt: int, stream: str, rank: int, seq: int, body: Dict[str, Any]) -> bytes:
    """The frame of a record; text that UTF-8 cannot hold (lone surrogates) becomes `?`."""
    record = {"attempt": attempt, "rank": rank, "stream": stream, "seq": seq}
    record.update(body)
    payload = json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8", "replace")
    checked = b"%s %d %d %s" % (stream.encode("ascii"), rank, seq, payload)
    return b"%08x %s\n" % (zlib.crc32(checked), checked)


def decode(data: bytes) -> Tuple[List[Tuple[Frame, int]], int, int]:
    """Frames of `data` with the offset after each, the offset after the last complete line, and how many lines were damaged."""
    frames: List[Tuple[Frame, int]] = []
    damaged = 0
    end = 0
    for line, after in _lines(data):
        end = after
        frame = _decode_line(line)
        if frame is None:
            damaged += 1
        else:
            frames.append((frame, after))
    return frames, end, damaged


def blank(attempt: int, frame: Frame) -> Frame:
    """A record with the same identity and nothing in it: takes the place of one that the console refuses.

    Without it the sequence would have a hole and nothing after it could ever be acknowledged.
    """
    body: Dict[str, Any] = {"samples": []}
    if frame.stream == STREAM_METRIC:
        body = {"series": {}}
    elif frame.stream == STREAM_LOG:
        body = {"time": 0.0, "fd": "runner", "data": "[a record was refused by the console]\n"}
    elif frame.stream == STREAM_EVENT:
        body = {
            "time": 0.0,
            "event": "warning",
            "data": {"code": "record-refused", "text": "an event was refused by the console"},
        }
    record: Dict[str, Any] = {"attempt": attempt, "rank": frame.rank, "stream": frame.stream, "seq": frame.seq}
    record.update(body)
    return frame._replace(payload=json.dumps(record).encode("ascii"))


def _lines(data: bytes) -> Iterator[Tuple[bytes, int]]:
    start = 0
    while True:
        newline = data.find(b"\n", start)
        if newline < 0:
            return
        yield data[start:newline], newline + 1
        start = newline + 1


def _decode_line(line: bytes) -> Frame | None:
    parts = line.split(b" ", 4)
    if len(parts) != 5:
        return None
    try:
        stream, rank, seq = parts[1].decode("ascii"), int(parts[2]), int(parts[3])
        if stream not in STREAMS or int(parts[0], 16) != zlib.crc32(line[len(parts[0]) + 1 :]):
            return None
    except (ValueError, UnicodeDecodeError):
        return None
    return Frame(stream, rank, seq, parts[4])
