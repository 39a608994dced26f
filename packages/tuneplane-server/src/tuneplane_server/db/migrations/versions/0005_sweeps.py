"""Sweeps and their trials."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tuneplane_server.db.base import JsonText, UtcDateTime

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "sweeps",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("owner_id", sa.String(length=16), nullable=False),
        sa.Column("owner", sa.String(length=63), nullable=False),
        sa.Column("project_id", sa.String(length=16), nullable=False),
        sa.Column("project", sa.String(length=63), nullable=False),
        sa.Column("experiment", sa.String(length=63), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=True),
        sa.Column("recipe", sa.String(length=127), nullable=False),
        sa.Column("sweep", JsonText(), nullable=False),
        sa.Column("job", JsonText(), nullable=False),
        sa.Column("total", sa.Integer(), nullable=False),
        sa.Column("max_parallel", sa.Integer(), nullable=False),
        sa.Column("metric", sa.String(length=200), nullable=True),
        sa.Column("goal", sa.String(length=3), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("why", JsonText(), nullable=True),
        sa.Column("cancelled_by", sa.String(length=63), nullable=True),
        sa.Column("request_key", sa.String(length=200), nullable=True),
        sa.Column("request_digest", sa.String(length=64), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.CheckConstraint(
            "state in ('running', 'stopping', 'cancelling', 'done', 'stopped', 'cancelled')",
            name=op.f("ck_sweeps_state"),
        ),
        sa.ForeignKeyConstraint(["owner_id"], ["users.id"], name=op.f("fk_sweeps_owner_id_users")),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_sweeps_project_id_projects")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sweeps")),
        sa.UniqueConstraint("owner_id", "request_key", name=op.f("uq_sweeps_owner_id_request_key")),
    )
    op.create_index("ix_sweeps_owner_id_id", "sweeps", ["owner_id", "id"], unique=False)
    op.create_index("ix_sweeps_state", "sweeps", ["state"], unique=False)
    op.create_table(
        "trials",
        sa.Column("sweep_id", sa.String(length=16), nullable=False),
        sa.Column("number", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("params", JsonText(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("job_id", sa.String(length=16), nullable=True),
        sa.Column("earlier_jobs", JsonText(), nullable=False),
        sa.Column("value", sa.Double(), nullable=True),
        sa.Column("value_step", sa.BigInteger(), nullable=True),
        sa.Column("rungs", JsonText(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.CheckConstraint(
            "state in ('planned', 'submitted', 'succeeded', 'pruned', 'failed', 'cancelled')",
            name=op.f("ck_trials_state"),
        ),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name=op.f("fk_trials_sweep_id_sweeps")),
        sa.PrimaryKeyConstraint("sweep_id", "number", name=op.f("pk_trials")),
    )
    op.create_index("ix_trials_job_id", "trials", ["job_id"], unique=False)
