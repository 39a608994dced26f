"""Stores metric records: one chunk per series and batch, and the series' summaries."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable
from itertools import groupby
from typing import Any, NamedTuple

from sqlalchemy import Connection

from tuneplane_server.domain import series_codec
from tuneplane_server.domain.acked import runs
from tuneplane_server.domain.series_codec import Columns
from tuneplane_server.features.telemetry.limits import TelemetryLimits
from tuneplane_server.features.telemetry.records import MetricRecord
from tuneplane_server.features.telemetry.repo import metrics as repo
from tuneplane_server.features.telemetry.repo.metrics import Series
from tuneplane_server.features.telemetry.repo.runs import Run
from tuneplane_server.features.telemetry.tables import BLOCK_POINTS


class Part(NamedTuple):
    """What one run of consecutive seqs brought of one series."""

    index: int
    seq_first: int
    seq_last: int
    data: Columns


def write_metrics(
    connection: Connection, run: Run, attempt: int, records: Iterable[MetricRecord], limits: TelemetryLimits
) -> bool:
    """`records`: not stored yet, by (rank, seq). True when a series now has a block's worth of loose points."""
    merge = False
    run.metric_position = run.position
    for rank, of_rank in groupby(records, key=lambda record: record.rank):
        every = _parts(list(of_rank))
        parts = {name: of_name for name, of_name in every.items() if _is_good(name, limits)}
        known = repo.series_by_name(connection, run.job_id, attempt, rank, sorted(parts))
        new = _new_series(connection, run, attempt, rank, [name for name in parts if name not in known], limits)
        run.refused_points += sum(
            len(part.data.step) for name in every if name not in known and name not in new for part in every[name]
        )
        rows: list[tuple[Series, list[dict[str, Any]]]] = []
        for name, of_name in parts.items():
            series = known.get(name) or new.get(name)
            if series is not None:
                rows.append((series, [_chunk(series, run.position, part) for part in of_name]))
                merge = merge or series.loose >= BLOCK_POINTS
        _save(connection, run.job_id, rows)
    return merge


def _parts(records: list[MetricRecord]) -> dict[str, list[Part]]:
    """Series name -> parts. Seqs that are not consecutive stay apart: what belongs between them may come later."""
    by_name: defaultdict[str, list[Part]] = defaultdict(list)
    by_seq = {record.seq: record for record in records}
    for index, span in enumerate(runs(by_seq)):
        columns: defaultdict[str, list[Columns]] = defaultdict(list)
        for seq in range(span.first, span.last + 1):
            for name, data in by_seq[seq].series.items():
                if data.step:
                    columns[name].append(data)
        for name, pieces in columns.items():
            data = pieces[0] if len(pieces) == 1 else series_codec.joined(pieces)
            by_name[name].append(Part(index, span.first, span.last, data))
    return by_name


def _new_series(
    connection: Connection, run: Run, attempt: int, rank: int, names: list[str], limits: TelemetryLimits
) -> dict[str, Series]:
    """The names that the limits let in."""
    if not names:
        return {}
    room = limits.metric_names - repo.count_names(connection, run.job_id, attempt, rank)
    room = max(0, min(room, limits.series - run.series_count))
    taken = names[:room]
    run.series_count += len(taken)
    return {name: Series(None, attempt, rank, name) for name in taken}


def _is_good(name: str, limits: TelemetryLimits) -> bool:
    """A name never becomes a path or SQL text; it must only be short and printable (Postgres takes no NUL)."""
    return 0 < len(name) <= limits.metric_name and name.isprintable()


def _chunk(series: Series, position: int, part: Part) -> dict[str, Any]:
    found = series_codec.summary(part.data)
    series.position = position
    series.count += found.count
    series.loose += found.count
    series.min_value = _least(series.min_value, found.value_min)
    series.max_value = _most(series.max_value, found.value_max)
    # The newest point is that of the highest seq: clocks of machines are not asked.
    if part.seq_last > series.last_seq:
        last = part.data.value[-1]
        series.last_seq, series.last_step, series.last_time = part.seq_last, part.data.step[-1], part.data.time[-1]
        series.last_value = None if math.isnan(last) else last
    return {
        "position": position,
        "part": part.index,
        "seq_first": part.seq_first,
        "seq_last": part.seq_last,
        "count": found.count,
        "step_min": found.step_min,
        "step_max": found.step_max,
        "min_value": found.value_min,
        "max_value": found.value_max,
        "data": series_codec.encode(part.data),
    }


def _save(connection: Connection, job_id: str, rows: list[tuple[Series, list[dict[str, Any]]]]) -> None:
    if not rows:
        return
    new = [series for series, _chunks in rows if series.id is None]
    old = [series for series, _chunks in rows if series.id is not None]
    if new:
        repo.add_series(connection, job_id, new)
    if old:
        repo.save_series(connection, old)
    repo.add_chunks(connection, [{"series_id": series.id} | chunk for series, chunks in rows for chunk in chunks])


def _least(one: float | None, other: float | None) -> float | None:
    return min((value for value in (one, other) if value is not None), default=None)


def _most(one: float | None, other: float | None) -> float | None:
    return max((value for value in (one, other) if value is not None), default=None)
