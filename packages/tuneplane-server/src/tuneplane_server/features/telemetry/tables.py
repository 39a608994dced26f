"""Telemetry in columns and chunks; never one row per point or per line.

Every batch that stores something gets the run's next `position`; rows carry it, so "what is new since position P" is one
range whoever asks. Positions are given out under the lock of the run's row, in the order of the commits.

Doubles: SQLite turns a NaN into NULL, so a NULL in a `…_value` column of a series that has points means NaN; chunks hold
the IEEE bits. Text that people wrote is kept as bytes (JSON or raw), because Postgres refuses a NUL in text.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Double, ForeignKey, Index, Integer, LargeBinary, String, UniqueConstraint, text
from sqlalchemy.orm import Mapped, mapped_column

from tuneplane_server.db.base import Base, JsonText, UtcDateTime

# Points after which the loose ones of a series become a block.
BLOCK_POINTS = 4096
# The console's own remarks between lines of output: lost records, the quota. They stand before piece `seq_first`.
MARKER_FD = 3
AutoId = BigInteger().with_variant(Integer, "sqlite")


class RunTelemetryRow(Base):
    """One row per run: its lock, its position and its quotas. Bytes of logs are raw bytes, of samples their JSON."""

    __tablename__ = "run_telemetry"

    job_id: Mapped[str] = mapped_column(String(16), primary_key=True)
    position: Mapped[int] = mapped_column(BigInteger)
    # Position of the newest batch that brought something of a kind: what a live page must look at again.
    log_position: Mapped[int] = mapped_column(BigInteger)
    metric_position: Mapped[int] = mapped_column(BigInteger)
    sample_position: Mapped[int] = mapped_column(BigInteger)
    log_bytes: Mapped[int] = mapped_column(BigInteger)
    log_dropped_bytes: Mapped[int] = mapped_column(BigInteger)
    sample_count: Mapped[int] = mapped_column(BigInteger)
    sample_bytes: Mapped[int] = mapped_column(BigInteger)
    sample_dropped: Mapped[int] = mapped_column(BigInteger)
    event_count: Mapped[int] = mapped_column(BigInteger)
    series_count: Mapped[int] = mapped_column(BigInteger)
    refused_points: Mapped[int] = mapped_column(BigInteger)  # of series whose name or number the limits refuse
    # When something of a kind came last, on the console's clock. Metrics of the machine (`system/`) do not count.
    last_log_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    last_metric_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    last_sample_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    last_event_at: Mapped[datetime | None] = mapped_column(UtcDateTime)
    log_full_at: Mapped[int | None] = mapped_column(BigInteger)  # the quota that the output passed; None: there is room


class StreamAckRow(Base):
    """Which seqs of a stream are stored (see `domain.acked`). `gap_since`: when the oldest hole that is there now appeared."""

    __tablename__ = "job_stream_acks"

    job_id: Mapped[str] = mapped_column(String(16), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    rank: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    stream: Mapped[str] = mapped_column(String(8), primary_key=True)
    contiguous: Mapped[int] = mapped_column(BigInteger)
    islands: Mapped[list[Any]] = mapped_column(JsonText)  # [[first, last], …]
    gap_since: Mapped[datetime | None] = mapped_column(UtcDateTime)


class MetricSeriesRow(Base):
    """One metric of one rank of one attempt, and what a list of metrics shows of it."""

    __tablename__ = "metric_series"

    id: Mapped[int] = mapped_column(AutoId, primary_key=True, autoincrement=True)
    job_id: Mapped[str] = mapped_column(String(16))
    attempt: Mapped[int]
    rank: Mapped[int]
    name: Mapped[str] = mapped_column(String(200))
    position: Mapped[int] = mapped_column(BigInteger)  # of the newest batch with points of this series
    count: Mapped[int] = mapped_column(BigInteger)
    blocks: Mapped[int]  # full blocks in metric_blocks; the points after them are in metric_chunks
    loose: Mapped[int] = mapped_column(BigInteger)  # points not in blocks
    min_value: Mapped[float | None] = mapped_column(Double)
    max_value: Mapped[float | None] = mapped_column(Double)
    last_seq: Mapped[int] = mapped_column(BigInteger)
    last_step: Mapped[int] = mapped_column(BigInteger)
    last_time: Mapped[float] = mapped_column(Double)
    last_value: Mapped[float | None] = mapped_column(Double)

    __table_args__ = (
        UniqueConstraint("job_id", "attempt", "rank", "name"),
        # Only the few series that have a block's worth of loose points are in it, so a batch does not pay for it.
        Index(
            "ix_metric_series_to_merge",
            "id",
            sqlite_where=text(f"loose >= {BLOCK_POINTS}"),
            postgresql_where=text(f"loose >= {BLOCK_POINTS}"),
        ),
    )


class MetricChunkRow(Base):
    """Points of one series that one batch brought (`part`: runs of seqs within the batch). Order is `seq_first`."""

    __tablename__ = "metric_chunks"

    series_id: Mapped[int] = mapped_column(ForeignKey("metric_series.id", ondelete="CASCADE"), primary_key=True)
    position: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    part: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    seq_first: Mapped[int] = mapped_column(BigInteger)
    seq_last: Mapped[int] = mapped_column(BigInteger)
    count: Mapped[int]
    step_min: Mapped[int] = mapped_column(BigInteger)
    step_max: Mapped[int] = mapped_column(BigInteger)
    min_value: Mapped[float | None] = mapped_column(Double)
    max_value: Mapped[float | None] = mapped_column(Double)
    data: Mapped[bytes] = mapped_column(LargeBinary)  # domain.series_codec

    # Clustered by key in SQLite: a curve is one range of pages.
    __table_args__ = ({"sqlite_with_rowid": False},)


class MetricBlockRow(Base):
    """`BLOCK_POINTS` consecutive points of one series, merged in the background; `rollup` is its downsampled form."""

    __tablename__ = "metric_blocks"

    series_id: Mapped[int] = mapped_column(ForeignKey("metric_series.id", ondelete="CASCADE"), primary_key=True)
    block: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    position_first: Mapped[int] = mapped_column(BigInteger)
    position_last: Mapped[int] = mapped_column(BigInteger)
    step_min: Mapped[int] = mapped_column(BigInteger)
    step_max: Mapped[int] = mapped_column(BigInteger)
    min_value: Mapped[float | None] = mapped_column(Double)
    max_value: Mapped[float | None] = mapped_column(Double)
    data: Mapped[bytes] = mapped_column(LargeBinary)
    rollup_count: Mapped[int]
    rollup_places: Mapped[bytes] = mapped_column(LargeBinary)  # uint16 little-endian, place of each point in the block
    rollup: Mapped[bytes] = mapped_column(LargeBinary)


class LogChunkRow(Base):
    """Output of one file descriptor that one batch brought. `run_first`: first seq of the run of seqs it belongs to;
    runs of different batches never overlap. `fd`: index into `domain.cursors.FDS`, or `MARKER_FD`. `ends_line`: its last byte is a newline.
    """

    __tablename__ = "log_chunks"

    job_id: Mapped[str] = mapped_column(String(16), primary_key=True)
    attempt: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    rank: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    seq_first: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    fd: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    seq_last: Mapped[int] = mapped_column(BigInteger)
    run_first: Mapped[int] = mapped_column(BigInteger)
    time_first: Mapped[float] = mapped_column(Double)
    time_last: Mapped[float] = mapped_column(Double)
    raw_bytes: Mapped[int]
    newlines: Mapped[int]
    ends_line: Mapped[bool]
    data: Mapped[bytes] = mapped_column(LargeBinary)  # domain.log_codec

    __table_args__ = (
        Index("ix_log_chunks_by_fd", "job_id", "attempt", "rank", "fd", "seq_first"),
        Index("ix_log_chunks_by_time", "job_id", "attempt", "rank", "time_last"),
    )


class SampleRow(Base):
    """One sample; `n` counts the samples of the run from 1 in the order they were stored."""

    __tablename__ = "samples"

    job_id: Mapped[str] = mapped_column(String(16), primary_key=True)
    n: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    position: Mapped[int] = mapped_column(BigInteger)
    attempt: Mapped[int]
    rank: Mapped[int]
    step: Mapped[int] = mapped_column(BigInteger)
    time: Mapped[float] = mapped_column(Double)  # Unix seconds, the machine's clock
    kind: Mapped[str] = mapped_column(String(16))
    reward: Mapped[float | None] = mapped_column(Double)  # domain.sample_rewards; None: it has none, or a NaN
    data: Mapped[bytes] = mapped_column(LargeBinary)  # JSON, zstd

    __table_args__ = (
        Index("ix_samples_job_id_step_n", "job_id", "step", "n"),
        Index("ix_samples_job_id_reward_n", "job_id", "reward", "n"),
    )


class RunEventRow(Base):
    """What a runner or a training script reported besides numbers; `n` counts the events of the run from 1."""

    __tablename__ = "run_events"

    job_id: Mapped[str] = mapped_column(String(16), primary_key=True)
    n: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    position: Mapped[int] = mapped_column(BigInteger)
    attempt: Mapped[int]
    rank: Mapped[int]
    seq: Mapped[int] = mapped_column(BigInteger)
    time: Mapped[float] = mapped_column(Double)  # Unix seconds, the machine's clock
    event: Mapped[str] = mapped_column(String(64))
    data: Mapped[bytes] = mapped_column(LargeBinary)  # JSON

    __table_args__ = (Index("ix_run_events_job_id_event_n", "job_id", "event", "n"),)
