"""Uses of attempts that wait in a queue of the executor's own."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """No executor of before had one."""
    op.add_column("gpu_uses", sa.Column("pending", sa.Boolean(), nullable=False, server_default=sa.false()))
