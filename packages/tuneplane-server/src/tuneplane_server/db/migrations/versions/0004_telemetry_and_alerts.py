"""What telemetry keeps beside curves and logs: hardware series, rules of alerts and where they are sent."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tuneplane_server.db.base import JsonText, UtcDateTime

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _hardware()
    _alerts()
    _retention()
    _compressed()
    _outside_tokens()
    _looks()
    _bytes_of_attempts()
    _rewards()


def _rewards() -> None:
    """What a sample scored, to choose and to sort by. Samples of before have none."""
    op.add_column("samples", sa.Column("reward", sa.Double(), nullable=True))
    op.create_index(op.f("ix_samples_job_id_reward_n"), "samples", ["job_id", "reward", "n"], unique=False)


def _compressed() -> None:
    """Chunks are compressed already: Postgres need not try once more with each of them."""
    if op.get_bind().dialect.name == "postgresql":
        for column in (
            "metric_chunks.data",
            "metric_blocks.data",
            "metric_blocks.rollup",
            "log_chunks.data",
            "samples.data",
        ):
            table, name = column.split(".")
            op.execute(f"alter table {table} alter column {name} set storage external")


def _retention() -> None:
    """How long projects keep what their runs reported, and what was removed of which run."""
    op.create_table(
        "retention",
        sa.Column("project_id", sa.String(length=16), nullable=False),
        sa.Column("value", JsonText(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("updated_by", sa.String(length=80), nullable=False),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_retention_project_id_projects")),
        sa.PrimaryKeyConstraint("project_id", name=op.f("pk_retention")),
    )
    op.create_table(
        "telemetry_removals",
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("kind", sa.String(length=8), nullable=False),
        sa.Column("why", sa.String(length=8), nullable=False),
        sa.Column("began_at", UtcDateTime(), nullable=False),
        sa.Column("done_at", UtcDateTime(), nullable=True),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "kind", name=op.f("pk_telemetry_removals")),
    )


def _hardware() -> None:
    """Series of machines, cards and runs."""
    op.create_table(
        "figure_series",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("node", sa.String(length=253), nullable=False),
        sa.Column("part", sa.String(length=16), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("blocks", sa.Integer(), nullable=False),
        sa.Column("first_time", sa.Double(), nullable=False),
        sa.Column("last_time", sa.Double(), nullable=False),
        sa.Column("last", JsonText(), nullable=False),
        sa.Column("seen_at", UtcDateTime(), nullable=False),
        sa.Column("idle_since", UtcDateTime(), nullable=True),
        sa.Column("open", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_figure_series")),
        sa.UniqueConstraint(
            "job_id", "attempt", "node", "part", name=op.f("uq_figure_series_job_id_attempt_node_part")
        ),
    )
    op.create_table(
        "figure_blocks",
        sa.Column("series_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("block", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("last_time", sa.Double(), nullable=False),
        sa.Column("rollup", sa.LargeBinary(), nullable=False),
        sa.Column("data", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["series_id"],
            ["figure_series.id"],
            name=op.f("fk_figure_blocks_series_id_figure_series"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("series_id", "block", name=op.f("pk_figure_blocks")),
    )


def _alerts() -> None:
    """Rules, what fired, notifications to people, webhooks and their deliveries; and which runs have ended since."""
    op.create_table(
        "alert_rules",
        sa.Column("project_id", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("metric", sa.String(length=200), nullable=False),
        sa.Column("threshold", sa.Double(), nullable=False),
        sa.Column("minutes", sa.Double(), nullable=False),
        sa.Column("reports", sa.Integer(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("updated_by", sa.String(length=80), nullable=False),
        sa.PrimaryKeyConstraint("project_id", "name", name=op.f("pk_alert_rules")),
    )
    op.create_table(
        "alert_states",
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("rule", sa.String(length=63), nullable=False),
        sa.Column("stage", sa.String(length=8), nullable=False),
        sa.Column("since", UtcDateTime(), nullable=False),
        sa.Column("calm_since", UtcDateTime(), nullable=True),
        sa.Column("count", sa.Integer(), nullable=False),
        sa.Column("data", JsonText(), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("project_id", sa.String(length=16), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "rule", name=op.f("pk_alert_states")),
    )
    op.create_index("ix_alert_states_stage_since", "alert_states", ["stage", "since"], unique=False)
    op.create_table(
        "notifications",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("user_id", sa.String(length=16), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("effect", sa.String(length=8), nullable=False),
        sa.Column("rule", sa.String(length=63), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("data", JsonText(), nullable=False),
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("job_name", sa.String(length=200), nullable=False),
        sa.Column("project", sa.String(length=127), nullable=False),
        sa.Column("read_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_notifications")),
    )
    op.create_index("ix_notifications_user_id_read_at_id", "notifications", ["user_id", "read_at", "id"], unique=False)
    op.create_table(
        "webhook_deliveries",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("webhook_id", sa.String(length=16), nullable=False),
        sa.Column("message_id", sa.String(length=40), nullable=False),
        sa.Column("event", sa.String(length=32), nullable=False),
        sa.Column("body", sa.Text(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("tries", JsonText(), nullable=False),
        sa.Column("next_at", UtcDateTime(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhook_deliveries")),
    )
    op.create_index("ix_webhook_deliveries_state_next_at", "webhook_deliveries", ["state", "next_at"], unique=False)
    op.create_index("ix_webhook_deliveries_webhook_id_id", "webhook_deliveries", ["webhook_id", "id"], unique=False)
    op.create_table(
        "webhooks",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("project_id", sa.String(length=16), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("description", sa.String(length=200), nullable=False),
        sa.Column("events", JsonText(), nullable=False),
        sa.Column("secret", sa.LargeBinary(), nullable=False),
        sa.Column("enabled", sa.Boolean(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("created_by", sa.String(length=80), nullable=False),
        sa.Column("disabled_why", sa.String(length=200), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhooks")),
    )
    op.create_index("ix_webhooks_project_id", "webhooks", ["project_id"], unique=False)
    op.create_index("ix_jobs_finished_at", "jobs", ["finished_at"], unique=False)


def _looks() -> None:
    """What the roles and listings look for again and again, without reading rows that they do not want."""
    op.drop_index("ix_jobs_phase_id", table_name="jobs")
    op.create_index("ix_jobs_phase_id_version", "jobs", ["phase", "id", "version"])
    op.create_index("ix_jobs_owner_id_phase_id", "jobs", ["owner_id", "phase", "id"])
    op.create_index("ix_job_attempts_hashed_at_finished_at", "job_attempts", ["hashed_at", "finished_at"])


def _bytes_of_attempts() -> None:
    """The size of an attempt's files, so that what a user stores is a sum over attempts and not over files."""
    op.add_column("artifact_sets", sa.Column("bytes", sa.BigInteger(), nullable=False, server_default="0"))
    files, sets = (
        sa.table(name, sa.column("job_id"), sa.column("attempt"), sa.column(size))
        for name, size in (("artifact_files", "size"), ("artifact_sets", "bytes"))
    )
    of_set = sa.select(sa.func.coalesce(sa.func.sum(files.c.size), 0)).where(
        files.c.job_id == sets.c.job_id, files.c.attempt == sets.c.attempt
    )
    op.execute(sa.update(sets).values(bytes=of_set.scalar_subquery()))


def _outside_tokens() -> None:
    """Ingest tokens of senders that are no process of the job: each has a rank of its own."""
    op.add_column("ingest_tokens", sa.Column("rank", sa.Integer(), nullable=True))
    op.create_index("uq_ingest_tokens_job_id_attempt_rank", "ingest_tokens", ["job_id", "attempt", "rank"], unique=True)
