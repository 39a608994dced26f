"""The answers of the API for its published description. They are built and encoded without these models: a page of lines
or a curve of ten thousand points would spend most of its time in validation. A test holds both together.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

Number = float | Literal["NaN", "Infinity", "-Infinity"]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", defer_build=True)


class Latest(_Shape):
    """`time`: Unix seconds of the machine."""

    step: int
    value: Number
    time: float


class MetricSummary(_Shape):
    """`min`, `max` over all attempts; null when every value is NaN."""

    latest: Latest
    min: Number | None
    max: Number | None
    count: int
    attempts: list[int]


class Metrics(_Shape):
    """`refused_points`: of series that the limits did not let in. `removed_at`: since when the project's retention removes them."""

    metrics: dict[str, MetricSummary]
    refused_points: int
    removed_at: str | None = None


class RunMetrics(_Shape):
    runs: dict[str, Metrics]


class CurvePart(_Shape):
    """Columns of equal length. `count`: points before thinning. `replaced_from`: step from which the next attempt counts.

    `x`: what `?x=` asks to draw over; null where it is not known."""

    attempt: int
    step: list[int]
    time: list[Number]
    value: list[Number]
    epoch: list[Number] | None = None
    x: list[Number | None] | None = None
    count: int
    replaced_from: int | None


class Curves(_Shape):
    series: dict[str, list[CurvePart]]


class RunCurves(_Shape):
    runs: dict[str, Curves]


class LogLine(_Shape):
    """`id`: for `at` and links. `match`: false for what only stands around a line that was found."""

    attempt: int
    rank: int
    fd: Literal["stdout", "stderr", "runner", "console"]
    time: float
    text: str
    id: str
    level: Literal["debug", "info", "warning", "error"] | None
    match: bool


class LogPage(_Shape):
    """`more`: the next page is there now. `end`: nothing follows. `prev_cursor`: for `before`; null: this is the start of the log.

    `dropped_bytes`: output beyond the run's quota. `removed_at`: since when the project's retention removes it; then there are no items."""

    items: list[LogLine]
    next_cursor: str
    prev_cursor: str | None
    more: bool
    end: bool
    dropped_bytes: int
    removed_at: str | None = None


class SampleItem(_Shape):
    """`reward`: the sample's own, or how far the chosen answer is above the rejected one."""

    id: int
    attempt: int
    rank: int
    step: int
    time: float
    kind: Literal["completion", "preference", "conversation"]
    reward: Number | None
    data: dict[str, Any]


class SamplePage(_Shape):
    """`dropped`: samples beyond the run's quota. `removed_at`: since when the project's retention removes them."""

    items: list[SampleItem]
    next_cursor: str | None
    dropped: int
    removed_at: str | None = None
