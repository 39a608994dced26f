"""The node daemon: runs job containers on one machine."""

from __future__ import annotations

from pathlib import Path

from tuneplane.i18n import register_domain

LOCALE = Path(__file__).parent / "locale"

register_domain("tuneplane_node", LOCALE)
