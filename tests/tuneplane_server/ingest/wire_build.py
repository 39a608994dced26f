"""Lines of the wire as a runner writes them."""

from __future__ import annotations

import gzip
import json
from typing import Any

START = 1_700_000_000.0


def log(seq: int, text: str, *, attempt: int = 1, rank: int = 0, fd: str = "stdout", **known: Any) -> dict[str, Any]:
    line = {"attempt": attempt, "rank": rank, "stream": "log", "seq": seq, "time": START + seq, "fd": fd, "data": text}
    return line | known


def metric(seq: int, values: list[Any], *, attempt: int = 1, rank: int = 0, name: str = "train/loss") -> dict[str, Any]:
    series = {
        name: {"step": [seq * 100 + i for i in range(len(values))], "time": [START] * len(values), "value": values}
    }
    return {"attempt": attempt, "rank": rank, "stream": "metric", "seq": seq, "series": series}


def sample(seq: int, data: dict[str, Any], *, attempt: int = 1, rank: int = 0) -> dict[str, Any]:
    items = [{"kind": "completion", "step": seq, "time": START, "data": data}]
    return {"attempt": attempt, "rank": rank, "stream": "sample", "seq": seq, "samples": items}


def event(
    seq: int, name: str, data: dict[str, Any] | None = None, *, attempt: int = 1, rank: int = 0
) -> dict[str, Any]:
    line = {"attempt": attempt, "rank": rank, "stream": "event", "seq": seq, "time": START, "event": name}
    return line | {"data": data or {}}


def ndjson(*lines: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines)


def packed(*lines: dict[str, Any]) -> bytes:
    return gzip.compress(ndjson(*lines), 1)
