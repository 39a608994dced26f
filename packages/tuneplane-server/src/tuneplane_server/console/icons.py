"""Icons: vendored SVG files, placed into the page so that they take the colour of the text around them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from markupsafe import Markup

FOLDER = Path(__file__).parent / "static/vendor/icons"


@cache
def _shapes(name: str) -> str:
    """What is inside the `<svg>` of a vendored icon. Raises `FileNotFoundError` for a name that is not vendored."""
    source = (FOLDER / f"{name}.svg").read_text(encoding="utf-8")
    inside = re.search(r"<svg[^>]*>(.*)</svg>", source, re.DOTALL)
    if inside is None:
        raise ValueError(f"{name}.svg holds no <svg>")
    return re.sub(r"\s+", " ", inside[1]).replace("> <", "><").strip()


def icon(name: str, label: str = "") -> Markup:
    """The icon, hidden from screen readers unless it has a `label` of its own."""
    shapes = Markup(_shapes(name))  # noqa: S704 - our own vendored file
    spoken = Markup('role="img" aria-label="{}"').format(label) if label else Markup('aria-hidden="true"')
    return Markup(
        '<svg class="icon" viewBox="0 0 24 24" fill="none" stroke="currentColor" stroke-width="2" '
        'stroke-linecap="round" stroke-linejoin="round" {}>{}</svg>'
    ).format(spoken, shapes)
