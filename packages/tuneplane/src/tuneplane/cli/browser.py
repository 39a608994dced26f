"""Open a page, where there is a desktop to open it on."""

from __future__ import annotations

import os
import sys

from tuneplane.cli.text import note
from tuneplane.i18n import _


def open_page(address: str) -> None:
    """Does nothing without a desktop: a text browser would take over this terminal."""
    if sys.platform != "darwin" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return
    import webbrowser

    try:
        webbrowser.open(address)
    except webbrowser.Error:
        note(_("no browser could be opened here"))
