"""Telemetry of runs, ingest tokens and the index of artifacts."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tuneplane_server.db.base import JsonText, UtcDateTime

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "artifact_sets",
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("out_dir", sa.Text(), nullable=False),
        sa.Column("source", sa.String(length=8), nullable=False),
        sa.Column("truncated", sa.Boolean(), nullable=False),
        sa.Column("skipped", sa.Integer(), nullable=False),
        sa.Column("registered_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "attempt", name=op.f("pk_artifact_sets")),
    )
    op.create_table(
        "ingest_heartbeats",
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("rank", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("sent_at", sa.Double(), nullable=False),
        sa.Column("received_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "attempt", "rank", name=op.f("pk_ingest_heartbeats")),
    )
    op.create_table(
        "ingest_tokens",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("issued_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.Column("revoked_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_ingest_tokens")),
        sa.UniqueConstraint("digest", name=op.f("uq_ingest_tokens_digest")),
    )
    op.create_index("ix_ingest_tokens_expires_at", "ingest_tokens", ["expires_at"], unique=False)
    op.create_index("ix_ingest_tokens_job_id_attempt", "ingest_tokens", ["job_id", "attempt"], unique=False)
    op.create_table(
        "job_stream_acks",
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("rank", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("stream", sa.String(length=8), nullable=False),
        sa.Column("contiguous", sa.BigInteger(), nullable=False),
        sa.Column("islands", JsonText(), nullable=False),
        sa.Column("gap_since", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("job_id", "attempt", "rank", "stream", name=op.f("pk_job_stream_acks")),
    )
    op.create_table(
        "log_chunks",
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("rank", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seq_first", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("fd", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seq_last", sa.BigInteger(), nullable=False),
        sa.Column("run_first", sa.BigInteger(), nullable=False),
        sa.Column("time_first", sa.Double(), nullable=False),
        sa.Column("time_last", sa.Double(), nullable=False),
        sa.Column("raw_bytes", sa.Integer(), nullable=False),
        sa.Column("newlines", sa.Integer(), nullable=False),
        sa.Column("ends_line", sa.Boolean(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "attempt", "rank", "seq_first", "fd", name=op.f("pk_log_chunks")),
    )
    op.create_index("ix_log_chunks_by_fd", "log_chunks", ["job_id", "attempt", "rank", "fd", "seq_first"], unique=False)
    op.create_index("ix_log_chunks_by_time", "log_chunks", ["job_id", "attempt", "rank", "time_last"], unique=False)
    op.create_table(
        "metric_series",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("name", sa.String(length=200), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("blocks", sa.Integer(), nullable=False),
        sa.Column("loose", sa.BigInteger(), nullable=False),
        sa.Column("min_value", sa.Double(), nullable=True),
        sa.Column("max_value", sa.Double(), nullable=True),
        sa.Column("last_seq", sa.BigInteger(), nullable=False),
        sa.Column("last_step", sa.BigInteger(), nullable=False),
        sa.Column("last_time", sa.Double(), nullable=False),
        sa.Column("last_value", sa.Double(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_metric_series")),
        sa.UniqueConstraint(
            "job_id", "attempt", "rank", "name", name=op.f("uq_metric_series_job_id_attempt_rank_name")
        ),
    )
    op.create_index(
        "ix_metric_series_to_merge",
        "metric_series",
        ["id"],
        unique=False,
        sqlite_where=sa.text("loose >= 4096"),
        postgresql_where=sa.text("loose >= 4096"),
    )
    op.create_table(
        "run_events",
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("n", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("event", sa.String(length=64), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "n", name=op.f("pk_run_events")),
    )
    op.create_index("ix_run_events_job_id_event_n", "run_events", ["job_id", "event", "n"], unique=False)
    op.create_table(
        "run_telemetry",
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("log_position", sa.BigInteger(), nullable=False),
        sa.Column("metric_position", sa.BigInteger(), nullable=False),
        sa.Column("sample_position", sa.BigInteger(), nullable=False),
        sa.Column("log_bytes", sa.BigInteger(), nullable=False),
        sa.Column("log_dropped_bytes", sa.BigInteger(), nullable=False),
        sa.Column("sample_count", sa.BigInteger(), nullable=False),
        sa.Column("sample_bytes", sa.BigInteger(), nullable=False),
        sa.Column("sample_dropped", sa.BigInteger(), nullable=False),
        sa.Column("event_count", sa.BigInteger(), nullable=False),
        sa.Column("series_count", sa.BigInteger(), nullable=False),
        sa.Column("refused_points", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", name=op.f("pk_run_telemetry")),
    )
    op.create_table(
        "samples",
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("n", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("position", sa.BigInteger(), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("rank", sa.Integer(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "n", name=op.f("pk_samples")),
    )
    op.create_index("ix_samples_job_id_step_n", "samples", ["job_id", "step", "n"], unique=False)
    op.create_table(
        "artifact_checkpoints",
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("step", sa.BigInteger(), nullable=False),
        sa.Column("complete", sa.Boolean(), nullable=False),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["job_id", "attempt"],
            ["artifact_sets.job_id", "artifact_sets.attempt"],
            name=op.f("fk_artifact_checkpoints_job_id_attempt_artifact_sets"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("job_id", "attempt", "path", name=op.f("pk_artifact_checkpoints")),
    )
    op.create_table(
        "artifact_files",
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("sha256", sa.String(length=64), nullable=True),
        sa.Column("problem", sa.String(length=32), nullable=True),
        sa.ForeignKeyConstraint(
            ["job_id", "attempt"],
            ["artifact_sets.job_id", "artifact_sets.attempt"],
            name=op.f("fk_artifact_files_job_id_attempt_artifact_sets"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("job_id", "attempt", "path", name=op.f("pk_artifact_files")),
    )
    op.create_index("ix_artifact_files_sha256", "artifact_files", ["sha256"], unique=False)
    op.create_table(
        "metric_blocks",
        sa.Column("series_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("block", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("position_first", sa.BigInteger(), nullable=False),
        sa.Column("position_last", sa.BigInteger(), nullable=False),
        sa.Column("step_min", sa.BigInteger(), nullable=False),
        sa.Column("step_max", sa.BigInteger(), nullable=False),
        sa.Column("min_value", sa.Double(), nullable=True),
        sa.Column("max_value", sa.Double(), nullable=True),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.Column("rollup_count", sa.Integer(), nullable=False),
        sa.Column("rollup_places", sa.LargeBinary(), nullable=False),
        sa.Column("rollup", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["series_id"],
            ["metric_series.id"],
            name=op.f("fk_metric_blocks_series_id_metric_series"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("series_id", "block", name=op.f("pk_metric_blocks")),
    )
    op.create_table(
        "metric_chunks",
        sa.Column("series_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("position", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("part", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seq_first", sa.BigInteger(), nullable=False),
        sa.Column("seq_last", sa.BigInteger(), nullable=False),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("step_min", sa.BigInteger(), nullable=False),
        sa.Column("step_max", sa.BigInteger(), nullable=False),
        sa.Column("min_value", sa.Double(), nullable=True),
        sa.Column("max_value", sa.Double(), nullable=True),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["series_id"],
            ["metric_series.id"],
            name=op.f("fk_metric_chunks_series_id_metric_series"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("series_id", "position", "part", name=op.f("pk_metric_chunks")),
        sqlite_with_rowid=False,
    )
