"""From a line of a report file to records of the wire. The trainer may write anything there: nothing in it is trusted."""

from __future__ import annotations

import json
import os
from typing import Any, Dict, List, Optional

from tuneplane.contract.words import MAX_SAMPLE_BYTES, OUTSIDE_RANK, STREAM_EVENT, STREAM_METRIC, STREAM_SAMPLE
from tuneplane.runner.metric_names import MetricNames
from tuneplane.runner.sources import Record
from tuneplane.runner.tails.scalars import parse_int

_SAMPLE_KINDS = ("completion", "preference", "conversation")
_ODD_NUMBERS = ("NaN", "Infinity", "-Infinity")
_EXACT_INT = 2**53


class ReportLines:
    """`bad` counts lines that were no report lines. `checkpoints` are the directories that the trainer announced."""

    def __init__(self, names: MetricNames, machine_rank: int, out_dir: str) -> None:
        self.bad = 0
        self.checkpoints: Dict[str, None] = {}
        self._names = names
        self._machine_rank = machine_rank
        self._out_dir = out_dir

    def records(self, line: bytes) -> List[Record]:
        try:
            value = json.loads(line, parse_int=parse_int)
            kind, rank = value["k"], value["rank"]
            if type(rank) is not int or not 0 <= rank < OUTSIDE_RANK:
                raise ValueError("rank")
            if kind == "m":
                return self._metrics(rank, value["series"])
            if kind == "s":
                return self._samples(rank, value["samples"])
            if kind == "e":
                return [self._event(rank, value)]
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            pass  # counted below: a line that is no report line
        self.bad += 1
        return []

    def _metrics(self, rank: int, series: Dict[str, Any]) -> List[Record]:
        renamed: Dict[str, Any] = {}
        extra: List[Record] = []
        for name, columns in series.items():
            checked = _columns(columns)
            canonical = self._names.canonical(name)
            if checked is None:
                self.bad += 1
            elif canonical is not None and canonical in renamed:
                # Two of the framework's names for one metric: a record of its own keeps both.
                extra.append(Record(STREAM_METRIC, rank, {"series": {canonical: checked}}))
            elif canonical is not None:
                renamed[canonical] = checked
        return ([Record(STREAM_METRIC, rank, {"series": renamed})] if renamed else []) + extra

    def _samples(self, rank: int, samples: List[Any]) -> List[Record]:
        records: List[Record] = []
        for sample in samples:
            kind, step, time, data = sample["kind"], sample["step"], sample["time"], sample["data"]
            if kind not in _SAMPLE_KINDS or not _is_step(step) or not _is_time(time) or not isinstance(data, dict):
                self.bad += 1
                continue
            body = {"samples": [{"kind": kind, "step": step, "time": time, "data": _finite(data)}]}
            if len(json.dumps(body)) > 6 * MAX_SAMPLE_BYTES or len(_utf8(body)) > MAX_SAMPLE_BYTES:
                self.bad += 1
                continue
            records.append(Record(STREAM_SAMPLE, rank, body))
        return records

    def _event(self, rank: int, value: Dict[str, Any]) -> Record:
        """Events count in the machine's own sequence: two machines' trainers and runners must never share one."""
        event, time = value["event"], value["time"]
        data: Any = value["data"]
        if not isinstance(event, str) or not 0 < len(event) <= 64 or not _is_time(time) or not isinstance(data, dict):
            raise ValueError("event")
        data = _finite(data)
        if len(_utf8(data)) > MAX_SAMPLE_BYTES:
            raise ValueError("event")
        if rank != self._machine_rank:
            data["rank"] = rank
        if event == "checkpoint" and isinstance(data.get("path"), str):
            data["path"] = self._relative(data["path"])
        return Record(STREAM_EVENT, self._machine_rank, {"time": time, "event": event, "data": data})

    def _relative(self, path: str) -> str:
        """Below the out dir: relative to it, as the artifact index has it; elsewhere: as it is."""
        relative = os.path.relpath(path, self._out_dir)
        if relative == os.pardir or relative.startswith(os.pardir + os.sep):
            return path
        self.checkpoints[relative] = None
        return relative


def _columns(value: Any) -> Optional[Dict[str, List[Any]]]:
    """The columns when they are what the wire promises, else None."""
    if not isinstance(value, dict):
        return None
    step, time, numbers, epoch = value.get("step"), value.get("time"), value.get("value"), value.get("epoch")
    if not isinstance(step, list) or not isinstance(time, list) or not isinstance(numbers, list):
        return None
    if not len(step) == len(time) == len(numbers) or not step:
        return None
    if not (all(map(_is_step, step)) and all(map(_is_time, time)) and all(map(_is_value, numbers))):
        return None
    columns = {"step": step, "time": time, "value": numbers}
    if epoch is not None:
        if not isinstance(epoch, list) or len(epoch) != len(step) or not all(map(_is_time, epoch)):
            return None
        columns["epoch"] = epoch
    return columns


def _is_step(value: Any) -> bool:
    return type(value) is int and -_EXACT_INT <= value <= _EXACT_INT


def _is_time(value: Any) -> bool:
    return (type(value) is float or type(value) is int) and value - value == 0


def _is_value(value: Any) -> bool:
    return _is_time(value) or (isinstance(value, str) and value in _ODD_NUMBERS)


def _finite(value: Any) -> Any:
    """The JSON value with NaN and infinities as text: Python's reader takes them, the wire does not."""
    if isinstance(value, float) and value - value != 0:
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value


def _utf8(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")
