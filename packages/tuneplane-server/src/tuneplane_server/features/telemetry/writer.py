"""Stores one decoded batch exactly once, in the caller's transaction.

The run's row is locked first, so batches of one run are stored one after the other, whatever sent them. A record counts as
new when its seq is not among the acknowledged ranges of its (attempt, rank, stream); the ranges are a bounded row, so the
answer "duplicate" costs the same on the first and on the last day of a run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Protocol

from sqlalchemy import Connection

from tuneplane.contract.words import OUTSIDE_RANK
from tuneplane_server.domain import acked
from tuneplane_server.domain.acked import SeqRange
from tuneplane_server.features.telemetry.limits import TelemetryLimits
from tuneplane_server.features.telemetry.log_writer import write_gap, write_logs
from tuneplane_server.features.telemetry.metric_writer import write_metrics
from tuneplane_server.features.telemetry.records import EVENT, LOG, METRIC, SAMPLE, Batch, EventRecord, Written
from tuneplane_server.features.telemetry.repo import runs as repo
from tuneplane_server.features.telemetry.repo.runs import Run, StreamKey, StreamState
from tuneplane_server.features.telemetry.report_writer import write_events, write_samples

_NOTHING = StreamState()
MACHINE_PREFIX = "system/"


class _Numbered(Protocol):
    @property
    def rank(self) -> int: ...
    @property
    def seq(self) -> int: ...


class _Acks:
    """The acknowledged ranges of a batch's streams: before, and after what is new of it."""

    def __init__(self, attempt: int, before: dict[StreamKey, StreamState]) -> None:
        self._attempt, self._before = attempt, before
        self._fresh: defaultdict[StreamKey, set[int]] = defaultdict(set)
        self._seen: set[StreamKey] = set()

    def new[R: _Numbered](self, stream: str, records: Iterable[R]) -> list[R]:
        """The records that are not stored yet, by (rank, seq), each once."""
        found: list[R] = []
        for record in records:
            key = (record.rank, stream)
            self._seen.add(key)
            before = self._before.get(key, _NOTHING).acked
            if record.seq not in self._fresh[key] and not before.has(record.seq):
                self._fresh[key].add(record.seq)
                found.append(record)
        found.sort(key=lambda record: (record.rank, record.seq))
        return found

    def had_log(self, rank: int, seq: int) -> bool:
        """Whether the piece of output was acknowledged before this batch, kept or not."""
        return seq > 0 and self._before.get((rank, LOG), _NOTHING).acked.has(seq)

    def changed(self, now: datetime) -> tuple[dict[StreamKey, StreamState], list[EventRecord]]:
        """The rows to save, and a `gap` event for every hole that is given up because there are too many."""
        rows: dict[StreamKey, StreamState] = {}
        gaps: list[EventRecord] = []
        for (rank, stream), seqs in self._fresh.items():
            if not seqs:
                continue
            before = self._before.get((rank, stream), _NOTHING)
            after, given_up = acked.bounded(acked.add(before.acked, seqs))
            gaps += [_given_up(rank, stream, hole, now) for hole in given_up]
            # A prefix that moved closed the oldest hole; what is missing now is missing since now.
            same = before.gap_since is not None and after.contiguous == before.acked.contiguous
            waits = before.gap_since if same else now
            rows[rank, stream] = StreamState(after, waits if after.islands else None)
        return rows, gaps

    def answer(self, rows: dict[StreamKey, StreamState]) -> dict[str, int]:
        states = self._before | rows
        keys = sorted(self._seen)
        return {
            f"{self._attempt}/{rank}/{stream}": states.get((rank, stream), _NOTHING).acked.contiguous
            for rank, stream in keys
        }


def write_batch(
    connection: Connection, job_id: str, attempt: int, batch: Batch, limits: TelemetryLimits, now: datetime
) -> Written:
    """`connection`: a transaction that the caller commits; nothing of the batch is stored unless all of it is."""
    run = repo.lock(connection, job_id)
    ranks = {record.rank for records in (batch.logs, batch.metrics, batch.samples, batch.events) for record in records}
    acks = _Acks(attempt, repo.acks(connection, job_id, attempt, ranks))
    fresh = Batch(
        acks.new(LOG, batch.logs),
        acks.new(METRIC, batch.metrics),
        acks.new(SAMPLE, batch.samples),
        acks.new(EVENT, batch.events),
    )
    if not len(fresh):
        return Written(0, len(batch), acks.answer({}))
    rows, gaps = acks.changed(now)
    run.position += 1
    merge = write_metrics(connection, run, attempt, fresh.metrics, limits) if fresh.metrics else False
    passed = write_logs(connection, run, attempt, fresh.logs, limits, acks.had_log) if fresh.logs else None
    if fresh.samples:
        write_samples(connection, run, attempt, fresh.samples, limits)
    noted = [] if passed is None else [_quota(passed.rank, passed.time, limits)]
    _write_events(connection, run, attempt, fresh.events, gaps + noted, limits)
    _note_activity(run, fresh, now)
    repo.save_acks(connection, job_id, attempt, rows)
    repo.save(connection, run)
    return Written(
        accepted=len(fresh),
        duplicate=len(batch) - len(fresh),
        ack=acks.answer(rows),
        events=tuple(fresh.events + gaps + noted),
        position=run.position,
        merge=merge,
        quota=passed is not None,
        points=sum(len(columns.step) for record in fresh.metrics for columns in record.series.values()),
    )


def _note_activity(run: Run, fresh: Batch, now: datetime) -> None:
    """What the watchdog calls a sign of life of the training itself; figures of the machine are none, nor is what a script
    beside the job sends."""
    if _any_of_job(fresh.logs):
        run.last_log_at = now
    metrics = [record for record in fresh.metrics if any(not name.startswith(MACHINE_PREFIX) for name in record.series)]
    if _any_of_job(metrics):
        run.last_metric_at = now
    if _any_of_job(fresh.samples):
        run.last_sample_at = now
    if _any_of_job(fresh.events):
        run.last_event_at = now


def _any_of_job(records: Iterable[_Numbered]) -> bool:
    return any(record.rank < OUTSIDE_RANK for record in records)


def _write_events(
    connection: Connection,
    run: Run,
    attempt: int,
    events: list[EventRecord],
    ours: list[EventRecord],
    limits: TelemetryLimits,
) -> None:
    """`ours`: events of the console itself; they have no seq of the sender."""
    for event in (*events, *ours):
        if event.event == "gap":
            write_gap(connection, run, attempt, event)
    if events or ours:
        write_events(connection, run, attempt, [*events, *ours], limits)


def _quota(rank: int, time: float, limits: TelemetryLimits) -> EventRecord:
    return EventRecord(rank, 0, time, "log-quota", {"quota_bytes": limits.log_bytes})


def _given_up(rank: int, stream: str, hole: SeqRange, now: datetime) -> EventRecord:
    data = {"stream": stream, "records": hole.last - hole.first + 1, "after_seq": hole.first - 1}
    return EventRecord(rank, 0, now.timestamp(), "gap", data)
