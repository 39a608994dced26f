"""Reports of evaluations."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tuneplane_server.db.base import JsonText, UtcDateTime

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "evaluations",
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("owner_id", sa.String(length=16), nullable=False),
        sa.Column("owner", sa.String(length=63), nullable=False),
        sa.Column("project", sa.String(length=63), nullable=False),
        sa.Column("experiment", sa.String(length=63), nullable=False),
        sa.Column("display_name", sa.String(length=200), nullable=True),
        sa.Column("recipe", sa.String(length=127), nullable=False),
        sa.Column("model_ref", sa.Text(), nullable=True),
        sa.Column("model_run", sa.String(length=16), nullable=True),
        sa.Column("model_step", sa.BigInteger(), nullable=True),
        sa.Column("model_name", sa.Text(), nullable=True),
        sa.Column("runner", sa.String(length=63), nullable=True),
        sa.Column("tasks", sa.Integer(), nullable=False),
        sa.Column("score", sa.Double(), nullable=True),
        sa.Column("heads", JsonText(), nullable=False),
        sa.Column("gates", JsonText(), nullable=False),
        sa.Column("problem", JsonText(), nullable=True),
        sa.Column("report", JsonText(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_evaluations_job_id_jobs")),
        sa.ForeignKeyConstraint(["owner_id"], ["users.id"], name=op.f("fk_evaluations_owner_id_users")),
        sa.PrimaryKeyConstraint("job_id", "attempt", name=op.f("pk_evaluations")),
    )
    op.create_index("ix_evaluations_model_run", "evaluations", ["model_run"], unique=False)
    op.create_index("ix_evaluations_owner_id_job_id", "evaluations", ["owner_id", "job_id"], unique=False)
    op.create_index("ix_evaluations_project", "evaluations", ["project"], unique=False)
