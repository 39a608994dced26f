"""Small builders of batches, and readers of what was stored."""

from __future__ import annotations

from typing import Any

from tuneplane_server.domain import series_codec
from tuneplane_server.domain.cursors import FDS
from tuneplane_server.features.telemetry.log_reader import LogPage, LogQuery
from tuneplane_server.features.telemetry.records import (
    Batch,
    EventRecord,
    LogRecord,
    MetricRecord,
    Sample,
    SampleRecord,
)
from tuneplane_server.features.telemetry.service import TelemetryService

JOB = "0000000000000001"
START = 1_700_000_000.0


def log(seq: int, data: bytes | str, *, rank: int = 0, fd: str = "stdout", time: float | None = None) -> LogRecord:
    raw = data.encode() if isinstance(data, str) else data
    return LogRecord(rank, seq, FDS.index(fd), START + seq if time is None else time, raw)


def metric(seq: int, series: dict[str, list[Any]], *, rank: int = 0, first_step: int | None = None) -> MetricRecord:
    """`series`: name -> values; steps count on from `first_step` (default the seq)."""
    start = seq if first_step is None else first_step
    return MetricRecord(
        rank,
        seq,
        {
            name: series_codec.columns(
                list(range(start, start + len(values))), [START + start + i for i in range(len(values))], values
            )
            for name, values in series.items()
        },
    )


def sample(seq: int, *texts: str, rank: int = 0, kind: str = "completion", step: int = 1) -> SampleRecord:
    import msgspec

    items = [Sample(kind, step, START + seq, msgspec.json.encode({"completion": text})) for text in texts]
    return SampleRecord(rank, seq, items)


def event(seq: int, name: str, data: dict[str, Any] | None = None, *, rank: int = 0) -> EventRecord:
    return EventRecord(rank, seq, START + seq, name, data or {})


def logs(*records: LogRecord) -> Batch:
    return Batch(logs=list(records))


def metrics(*records: MetricRecord) -> Batch:
    return Batch(metrics=list(records))


async def read_all(
    telemetry: TelemetryService, *, limit: int = 1000, live_attempt: int | None = None, job: str = JOB, **query: Any
) -> list[tuple[int, str, str]]:
    """(rank, fd, text) of every line, read page by page."""
    lines: list[tuple[int, str, str]] = []
    cursor = query.pop("cursor", None)
    while True:
        page = await telemetry.logs.page(job, LogQuery(cursor=cursor, limit=limit, **query), live_attempt=live_attempt)
        lines += [(line.rank, line.fd, line.text) for line in page.lines]
        cursor = page.cursor
        if not page.more:
            return lines


async def texts(telemetry: TelemetryService, **query: Any) -> list[str]:
    return [text for _rank, _fd, text in await read_all(telemetry, **query)]


async def page(telemetry: TelemetryService, *, live_attempt: int | None = None, **query: Any) -> LogPage:
    return await telemetry.logs.page(JOB, LogQuery(**query), live_attempt=live_attempt)
