"""Accounts, audit, projects, packages, the ledger, holds and leases."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tuneplane_server.db.base import JsonText, UtcDateTime

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "audit_events",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("time", UtcDateTime(), nullable=False),
        sa.Column("actor", sa.String(length=80), nullable=False),
        sa.Column("action", sa.String(length=64), nullable=False),
        sa.Column("target", sa.String(length=200), nullable=False),
        sa.Column("address", sa.String(length=64), nullable=False),
        sa.Column("data", JsonText(), nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_audit_events")),
    )
    op.create_index("ix_audit_events_target", "audit_events", ["target"], unique=False)
    op.create_index("ix_audit_events_time", "audit_events", ["time"], unique=False)
    op.create_table(
        "cpu_holds",
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("node", sa.String(length=253), nullable=False),
        sa.Column("cpus", sa.Float(precision=53), nullable=False),
        sa.Column("memory_gb", sa.Float(precision=53), nullable=False),
        sa.Column("since", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("job_id", "attempt", "node", name=op.f("pk_cpu_holds")),
    )
    op.create_table(
        "gpu_holds",
        sa.Column("node", sa.String(length=253), nullable=False),
        sa.Column("gpu_index", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("since", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("node", "gpu_index", name=op.f("pk_gpu_holds")),
    )
    op.create_index("ix_gpu_holds_job_id", "gpu_holds", ["job_id"], unique=False)
    op.create_table(
        "idempotency_keys",
        sa.Column("owner_id", sa.String(length=16), nullable=False),
        sa.Column("key", sa.String(length=200), nullable=False),
        sa.Column("request_digest", sa.String(length=64), nullable=False),
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("owner_id", "key", name=op.f("pk_idempotency_keys")),
    )
    op.create_table(
        "leases",
        sa.Column("role", sa.String(length=32), nullable=False),
        sa.Column("row_id", sa.String(length=64), nullable=False),
        sa.Column("owner", sa.String(length=64), nullable=False),
        sa.Column("token", sa.String(length=32), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("not_before", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("role", "row_id", name=op.f("pk_leases")),
    )
    op.create_index("ix_leases_role_expires_at", "leases", ["role", "expires_at"], unique=False)
    op.create_table(
        "package_access",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("user_id", sa.String(length=16), nullable=False),
        sa.Column("since", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("digest", "user_id", name=op.f("pk_package_access")),
    )
    op.create_table(
        "packages",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("size", sa.BigInteger(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("last_used_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_packages")),
    )
    op.create_table(
        "setup_tokens",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("used_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_setup_tokens")),
        sa.UniqueConstraint("digest", name=op.f("uq_setup_tokens_digest")),
    )
    op.create_table(
        "users",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("username", sa.String(length=63), nullable=False),
        sa.Column("username_key", sa.String(length=63), nullable=False),
        sa.Column("password_hash", sa.String(length=200), nullable=True),
        sa.Column("admin", sa.Boolean(), nullable=False),
        sa.Column("session_epoch", sa.Integer(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("disabled_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_users")),
        sa.UniqueConstraint("username_key", name=op.f("uq_users_username_key")),
    )
    op.create_table(
        "api_tokens",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("user_id", sa.String(length=16), nullable=False),
        sa.Column("name", sa.String(length=100), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("scopes", JsonText(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=True),
        sa.Column("last_used_at", UtcDateTime(), nullable=True),
        sa.Column("revoked_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_api_tokens_user_id_users"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_api_tokens")),
        sa.UniqueConstraint("digest", name=op.f("uq_api_tokens_digest")),
    )
    op.create_index("ix_api_tokens_user_id", "api_tokens", ["user_id"], unique=False)
    op.create_table(
        "device_codes",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("user_code", sa.String(length=9), nullable=False),
        sa.Column("client", sa.String(length=100), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.Column("user_id", sa.String(length=16), nullable=True),
        sa.Column("decided_at", UtcDateTime(), nullable=True),
        sa.Column("approved", sa.Boolean(), nullable=False),
        sa.Column("consumed_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(
            ["user_id"], ["users.id"], name=op.f("fk_device_codes_user_id_users"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_device_codes")),
        sa.UniqueConstraint("digest", name=op.f("uq_device_codes_digest")),
        sa.UniqueConstraint("user_code", name=op.f("uq_device_codes_user_code")),
    )
    op.create_table(
        "projects",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("owner_id", sa.String(length=16), nullable=False),
        sa.Column("owner", sa.String(length=63), nullable=False),
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.ForeignKeyConstraint(["owner_id"], ["users.id"], name=op.f("fk_projects_owner_id_users")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_projects")),
        sa.UniqueConstraint("owner_id", "name", name=op.f("uq_projects_owner_id_name")),
    )
    op.create_table(
        "jobs",
        sa.Column("id", sa.String(length=16), nullable=False),
        sa.Column("owner_id", sa.String(length=16), nullable=False),
        sa.Column("project_id", sa.String(length=16), nullable=False),
        sa.Column("owner", sa.String(length=63), nullable=False),
        sa.Column("project", sa.String(length=63), nullable=False),
        sa.Column("experiment", sa.String(length=63), nullable=False),
        sa.Column("display_name", sa.String(length=200), nullable=True),
        sa.Column("recipe", sa.String(length=127), nullable=False),
        sa.Column("recipe_version", sa.String(length=32), nullable=False),
        sa.Column("framework", sa.String(length=63), nullable=False),
        sa.Column("spec", JsonText(), nullable=False),
        sa.Column("package_digest", sa.String(length=64), nullable=False),
        sa.Column("runtime", JsonText(), nullable=False),
        sa.Column("simulated", sa.Boolean(), nullable=False),
        sa.Column("desired", sa.String(length=8), nullable=False),
        sa.Column("stop_cause", sa.String(length=32), nullable=True),
        sa.Column("phase", sa.String(length=16), nullable=False),
        sa.Column("phase_since", UtcDateTime(), nullable=False),
        sa.Column("conditions", JsonText(), nullable=False),
        sa.Column("verdict", JsonText(), nullable=True),
        sa.Column("reason", JsonText(), nullable=True),
        sa.Column("cleanup", sa.String(length=16), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("handle", JsonText(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=True),
        sa.Column("finished_at", UtcDateTime(), nullable=True),
        sa.CheckConstraint("cleanup in ('none', 'pending', 'confirmed')", name=op.f("ck_jobs_cleanup")),
        sa.CheckConstraint("desired in ('run', 'cancel')", name=op.f("ck_jobs_desired")),
        sa.CheckConstraint(
            "phase in ('queued', 'starting', 'running', 'finishing', 'succeeded', 'failed', 'cancelled', 'lost')",
            name=op.f("ck_jobs_phase"),
        ),
        sa.ForeignKeyConstraint(["owner_id"], ["users.id"], name=op.f("fk_jobs_owner_id_users")),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name=op.f("fk_jobs_project_id_projects")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_jobs")),
    )
    op.create_index("ix_jobs_cleanup", "jobs", ["cleanup"], unique=False)
    op.create_index("ix_jobs_owner_id_id", "jobs", ["owner_id", "id"], unique=False)
    op.create_index("ix_jobs_phase_id", "jobs", ["phase", "id"], unique=False)
    op.create_index("ix_jobs_project_id", "jobs", ["project_id"], unique=False)
    op.create_table(
        "job_attempts",
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("n", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("phase", sa.String(length=16), nullable=False),
        sa.Column("reason", JsonText(), nullable=True),
        sa.Column("resume_from", sa.Text(), nullable=True),
        sa.Column("placement", JsonText(), nullable=False),
        sa.Column("outcome", JsonText(), nullable=True),
        sa.Column("capsule_digest", sa.String(length=64), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("started_at", UtcDateTime(), nullable=True),
        sa.Column("finished_at", UtcDateTime(), nullable=True),
        sa.Column("spool_shipped_at", UtcDateTime(), nullable=True),
        sa.Column("hashed_at", UtcDateTime(), nullable=True),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_job_attempts_job_id_jobs")),
        sa.PrimaryKeyConstraint("job_id", "n", name=op.f("pk_job_attempts")),
    )
    op.create_table(
        "job_events",
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("seq", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("time", UtcDateTime(), nullable=False),
        sa.Column("kind", sa.String(length=32), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("from_phase", sa.String(length=16), nullable=False),
        sa.Column("to_phase", sa.String(length=16), nullable=False),
        sa.Column("ignored", sa.Boolean(), nullable=False),
        sa.Column("data", JsonText(), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_job_events_job_id_jobs")),
        sa.PrimaryKeyConstraint("job_id", "seq", name=op.f("pk_job_events")),
    )

    _make_append_only("audit_events")
    _make_append_only("job_events")


def _make_append_only(table: str) -> None:
    """The record is worth something because nobody can change it afterwards."""
    if op.get_bind().dialect.name == "sqlite":
        for verb in ("update", "delete"):
            op.execute(
                f"create trigger {table}_no_{verb} before {verb} on {table} "
                f"begin select raise(abort, '{table} is append-only'); end"
            )
        return
    op.execute(
        f"create function {table}_refuse() returns trigger language plpgsql as "
        f"$$ begin raise exception '{table} is append-only'; end $$"
    )
    op.execute(
        f"create trigger {table}_append_only before update or delete on {table} "
        f"for each row execute function {table}_refuse()"
    )
