"""Debian's Chromium, and the fonts that show Chinese."""

from __future__ import annotations

from tests.services.packages import require_packages

CHROMIUM = "/usr/bin/chromium"


def find_chromium() -> str:
    require_packages("chromium", "fonts")
    return CHROMIUM
