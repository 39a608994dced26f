"""The lines of a report file: metrics in columns, samples, events (docs/development/architecture)."""

from __future__ import annotations

import json
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Tuple

from tuneplane.report.values import EXACT_INT, Warn, to_number, to_wire, valid_name

# One call of log(): (numbers by name, step or None, Unix seconds, epoch or None).
Entry = Tuple[Mapping[str, float], Optional[int], float, Optional[float]]
MAX_POINTS_PER_LINE = 4096


class Columns:
    """Collects calls into one column set per metric; a step left out is one more than the last."""

    def __init__(self, warn: Warn) -> None:
        self.last_step = -1
        self._warn = warn

    def lines(self, rank: int, entries: Iterable[Entry]) -> Iterator[bytes]:
        """Lines of at most about 4,096 points that hold all entries, in order within each metric."""
        plain: Dict[str, List[List[Any]]] = {}
        with_epoch: Dict[str, List[List[Any]]] = {}
        for numbers, step, time, epoch in entries:
            step = self.last_step + 1 if step is None else max(-EXACT_INT, min(step, EXACT_INT))
            self.last_step = step
            target, stale = (plain, with_epoch) if epoch is None else (with_epoch, plain)
            for name, value in numbers.items():
                columns = target.get(name)
                if columns is None:
                    # A metric's columns all have an epoch or none has one, and its points keep their order.
                    if name in stale:
                        yield from _flush(rank, stale)
                    if not self._usable(name):
                        continue
                    columns = target[name] = [[], [], [], []]
                columns[0].append(step)
                columns[1].append(time)
                columns[2].append(value if -EXACT_INT <= value <= EXACT_INT else to_wire(to_number(value)))
                if epoch is not None:
                    columns[3].append(epoch)
        yield from _flush(rank, plain)
        yield from _flush(rank, with_epoch)

    def _usable(self, name: Any) -> bool:
        if isinstance(name, str) and valid_name(name):
            return True
        self._warn(
            "metric-name",
            f"metric name {str(name)[:80]!r} is no text, empty, over 200 characters or unprintable; it is not recorded",
        )
        return False


def _flush(rank: int, series: Dict[str, List[List[Any]]]) -> Iterator[bytes]:
    """Encode and empty `series`."""
    part: Dict[str, Dict[str, List[Any]]] = {}
    points = 0
    for name, columns in series.items():
        for start in range(0, len(columns[0]), MAX_POINTS_PER_LINE):
            step, time, value, epoch = (column[start : start + MAX_POINTS_PER_LINE] for column in columns)
            if part and (points + len(step) > MAX_POINTS_PER_LINE or name in part):
                yield _line({"k": "m", "rank": rank, "series": part})
                part, points = {}, 0
            part[name] = {"step": step, "time": [round(moment, 3) for moment in time], "value": value}
            if epoch:
                part[name]["epoch"] = epoch
            points += len(step)
    if part:
        yield _line({"k": "m", "rank": rank, "series": part})
    series.clear()


def sample_line(rank: int, samples: List[Dict[str, Any]]) -> bytes:
    return _line({"k": "s", "rank": rank, "samples": samples})


def event_line(rank: int, event: str, time: float, data: Mapping[str, Any]) -> bytes:
    return _line({"k": "e", "rank": rank, "event": event, "time": round(time, 3), "data": data})


def _line(value: Dict[str, Any]) -> bytes:
    """ASCII JSON: a lone surrogate in someone's text must not make the line undecodable."""
    return json.dumps(value, separators=(",", ":")).encode("ascii") + b"\n"
