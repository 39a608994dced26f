"""Stores samples and events, up to the run's quotas."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from compression import zstd
from sqlalchemy import Connection

from tuneplane_server.domain.sample_rewards import reward_of
from tuneplane_server.features.telemetry.limits import TelemetryLimits
from tuneplane_server.features.telemetry.records import EventRecord, SampleRecord
from tuneplane_server.features.telemetry.repo import reports as repo
from tuneplane_server.features.telemetry.repo.runs import Run

SAMPLE_LEVEL = 3
# What the ledger and people must know; kept when the quota of events is used up, up to a second, smaller one.
IMPORTANT = frozenset(
    {"trainer-started", "trainer-exited", "outcome", "hyperparams", "environment", "gap", "log-quota"}
)
IMPORTANT_EXTRA = 1000


def write_samples(
    connection: Connection, run: Run, attempt: int, records: Iterable[SampleRecord], limits: TelemetryLimits
) -> None:
    """`records`: not stored yet, by (rank, seq)."""
    run.sample_position = run.position
    rows: list[dict[str, Any]] = []
    for record in records:
        for sample in record.samples:
            size = len(sample.data)
            if run.sample_count >= limits.samples or run.sample_bytes + size > limits.sample_bytes:
                run.sample_dropped += 1
                continue
            run.sample_count += 1
            run.sample_bytes += size
            rows.append(
                {
                    "job_id": run.job_id,
                    "n": run.sample_count,
                    "position": run.position,
                    "attempt": attempt,
                    "rank": record.rank,
                    "step": sample.step,
                    "time": sample.time,
                    "kind": sample.kind,
                    "reward": reward_of(sample.data),
                    "data": zstd.compress(sample.data, SAMPLE_LEVEL),
                }
            )
    if rows:
        repo.add_samples(connection, rows)


def write_events(
    connection: Connection, run: Run, attempt: int, records: Iterable[EventRecord], limits: TelemetryLimits
) -> None:
    """`records`: not stored yet, by (rank, seq)."""
    rows: list[dict[str, Any]] = []
    for record in records:
        room = limits.events + (IMPORTANT_EXTRA if record.event in IMPORTANT else 0)
        if run.event_count >= room:
            continue
        run.event_count += 1
        rows.append(
            {
                "job_id": run.job_id,
                "n": run.event_count,
                "position": run.position,
                "attempt": attempt,
                "rank": record.rank,
                "seq": record.seq,
                "time": record.time,
                "event": record.event,
                "data": msgspec.json.encode(record.data),
            }
        )
    if rows:
        repo.add_events(connection, rows)
