"""What a decoded batch is made of. One batch belongs to one attempt."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tuneplane_server.domain.series_codec import Columns

LOG, METRIC, SAMPLE, EVENT = "log", "metric", "sample", "event"


class LogRecord(NamedTuple):
    """`fd`: index into `domain.cursors.FDS`; `time`: Unix seconds at arrival in the runner."""

    rank: int
    seq: int
    fd: int
    time: float
    data: bytes


class MetricRecord(NamedTuple):
    rank: int
    seq: int
    series: dict[str, Columns]


class Sample(NamedTuple):
    """`data`: JSON bytes."""

    kind: str
    step: int
    time: float
    data: bytes


class SampleRecord(NamedTuple):
    rank: int
    seq: int
    samples: list[Sample]


class EventRecord(NamedTuple):
    rank: int
    seq: int
    time: float
    event: str
    data: dict[str, Any]


@dataclass
class Batch:
    logs: list[LogRecord] = field(default_factory=list)
    metrics: list[MetricRecord] = field(default_factory=list)
    samples: list[SampleRecord] = field(default_factory=list)
    events: list[EventRecord] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.logs) + len(self.metrics) + len(self.samples) + len(self.events)


@dataclass(frozen=True)
class Written:
    """`ack`: "attempt/rank/stream" -> highest seq up to which everything is stored. `events`: those seen for the first time.

    `position`: the run's position after the batch; None when it brought nothing new. `merge`: a series has a block's worth
    of loose points. `quota`: the run's output passed its quota with this batch.
    """

    accepted: int
    duplicate: int
    ack: dict[str, int]
    events: tuple[EventRecord, ...] = ()
    position: int | None = None
    merge: bool = False
    quota: bool = False
    points: int = 0  # of metrics, in the records that were new
