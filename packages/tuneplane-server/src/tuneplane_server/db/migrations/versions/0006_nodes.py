"""Nodes of the executor agent, and their fences."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from tuneplane_server.db.base import JsonText, UtcDateTime

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "nodes",
        sa.Column("name", sa.String(length=253), nullable=False),
        sa.Column("node_id", sa.String(length=64), nullable=False),
        sa.Column("address", sa.Text(), nullable=False),
        sa.Column("hello", JsonText(), nullable=False),
        sa.Column("inventory", JsonText(), nullable=False),
        sa.Column("findings", JsonText(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("state_by", sa.String(length=80), nullable=False),
        sa.Column("state_at", UtcDateTime(), nullable=False),
        sa.Column("joined_at", UtcDateTime(), nullable=False),
        sa.Column("last_heard", UtcDateTime(), nullable=False),
        sa.Column("proved_at", UtcDateTime(), nullable=True),
        sa.Column("proved_start", sa.String(length=200), nullable=False),
        sa.Column("refusal", JsonText(), nullable=True),
        sa.Column("unreachable", JsonText(), nullable=True),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.CheckConstraint("state in ('ready', 'cordoned', 'draining', 'removed')", name=op.f("ck_nodes_state")),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_nodes")),
    )
    op.create_index("ix_nodes_node_id", "nodes", ["node_id"], unique=False)
    op.create_table(
        "node_fences",
        sa.Column("node", sa.String(length=253), nullable=False),
        sa.Column("job_id", sa.String(length=16), nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("node_id", sa.String(length=64), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("node", "job_id", "attempt", name=op.f("pk_node_fences")),
    )
