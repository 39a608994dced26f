"""What telemetry keeps beside curves and logs: hardware series, rules of alerts and where they are sent."""

from __future__ import annotations

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _hardware()
    _alerts()


def _hardware() -> None:
    """Series of machines, cards and runs."""


def _alerts() -> None:
    """Rules, what fired, notices to people, webhooks and their deliveries."""
