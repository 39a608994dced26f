"""The queue's view of a job, pauses and approvals, use of GPUs, quotas, policies, and the consoles that share a database."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tuneplane_server.db.base import JsonText, UtcDateTime

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _extend_jobs()
    _fill_jobs()
    _extend_telemetry()
    op.create_table(
        "gpu_uses",
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("owner_id", sa.String(length=16), nullable=False),
        sa.Column("project_id", sa.String(length=16), nullable=False),
        sa.Column("gpus", sa.Integer(), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=False),
        sa.Column("reserved_until", UtcDateTime(), nullable=True),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("job_id", "attempt", name=op.f("pk_gpu_uses")),
    )
    op.create_index("ix_gpu_uses_ended_at", "gpu_uses", ["ended_at"], unique=False)
    op.create_index("ix_gpu_uses_owner_id_ended_at", "gpu_uses", ["owner_id", "ended_at"], unique=False)
    op.create_index("ix_gpu_uses_project_id_ended_at", "gpu_uses", ["project_id", "ended_at"], unique=False)
    op.create_table(
        "quotas",
        sa.Column("scope", sa.String(length=8), nullable=False),
        sa.Column("subject_id", sa.String(length=16), nullable=False),
        sa.Column("limits", JsonText(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("updated_by", sa.String(length=80), nullable=False),
        sa.CheckConstraint("scope in ('user', 'project')", name=op.f("ck_quotas_scope")),
        sa.PrimaryKeyConstraint("scope", "subject_id", name=op.f("pk_quotas")),
    )
    op.create_table(
        "policies",
        sa.Column("name", sa.String(length=32), nullable=False),
        sa.Column("value", JsonText(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("updated_by", sa.String(length=80), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_policies")),
    )
    op.create_table(
        "consoles",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("instance", sa.String(length=64), nullable=False),
        sa.Column("host", sa.String(length=253), nullable=False),
        sa.Column("process", JsonText(), nullable=False),
        sa.Column("redis", sa.Boolean(), nullable=False),
        sa.Column("one_console", sa.Boolean(), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=False),
        sa.Column("seen_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_consoles")),
    )


def _extend_telemetry() -> None:
    """When something of each kind came last, on the console's clock, and the quota that the output passed; null for runs of before."""
    for name in ("last_log_at", "last_metric_at", "last_sample_at", "last_event_at"):
        op.add_column("run_telemetry", sa.Column(name, UtcDateTime(), nullable=True))
    op.add_column("run_telemetry", sa.Column("log_full_at", sa.BigInteger(), nullable=True))


def _extend_jobs() -> None:
    """Every new column has a default, so that SQLite need not write the table anew."""
    for column in (
        sa.Column("demand", JsonText(), nullable=False, server_default="[]"),
        sa.Column("priority", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("max_seconds", sa.Integer(), nullable=True),
        sa.Column("origin_id", sa.String(length=16), nullable=True),
        sa.Column("origin_kind", sa.String(length=8), nullable=True),
        sa.Column("paused", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.Column("approval", sa.String(length=8), nullable=False, server_default="none"),
        sa.Column("not_before", UtcDateTime(), nullable=True),
    ):
        op.add_column("jobs", column)
    op.create_index("ix_jobs_origin_id", "jobs", ["origin_id"], unique=False)


def _fill_jobs() -> None:
    """What the queue needs of jobs that were submitted before it existed."""
    jobs = sa.table(
        "jobs",
        sa.column("id", sa.String),
        sa.column("spec", JsonText()),
        sa.column("demand", JsonText()),
        sa.column("priority", sa.Integer),
        sa.column("max_seconds", sa.Integer),
    )
    connection = op.get_bind()
    for job_id, spec in connection.execute(sa.select(jobs.c.id, jobs.c.spec)).all():
        values = {
            "demand": [_demand(pool) for pool in spec["spec"]["resources"]["pools"]],
            "priority": spec["spec"].get("priority", 0),
            "max_seconds": spec["spec"].get("limits", {}).get("max_duration"),
        }
        connection.execute(jobs.update().where(jobs.c.id == job_id).values(values))


def _demand(pool: dict[str, object]) -> dict[str, object]:
    return {
        "name": pool.get("name", "main"),
        "profile": pool["series"],
        "nodes": pool["nodes"],
        "gpus_per_node": pool["gpus_per_node"],
        "cpus": pool.get("cpus") or 0,
        "memory_gb": pool.get("memory_gb") or 0,
    }
