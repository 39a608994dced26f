"""The help of a command as click lays it out, also in Chinese: click counts characters, and a Chinese one takes two columns."""

from __future__ import annotations

from collections.abc import Iterable
from gettext import gettext

import click

from tuneplane.cli.text import width, wrap
from tuneplane.i18n import _


class HelpFormatter(click.HelpFormatter):
    """Text without wide characters is left to click."""

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        if prefix is None:
            prefix = gettext("Usage:")
            prefix += "" if prefix.endswith("：") else " "
        super().write_usage(prog, args, prefix)

    def write_heading(self, heading: str) -> None:
        self.write(f"{'':>{self.current_indent}}{_('{section}:').format(section=heading)}\n")

    def write_text(self, text: str) -> None:
        if "\b" in text or not _has_wide(text):  # \b: lines that stay as they are
            super().write_text(text)
            return
        indent = " " * self.current_indent
        paragraphs = ("\n".join(wrap(paragraph, self.width, indent)) for paragraph in text.split("\n\n"))
        self.write("\n\n".join(paragraphs) + "\n")

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        rows = list(rows)
        if not any(_has_wide(text) for _name, text in rows):
            super().write_dl(rows, col_max, col_spacing)
            return
        margin, first = " " * self.current_indent, min(max(width(name) for name, _text in rows), col_max) + col_spacing
        for name, text in rows:
            lines = wrap(text, max(self.width - first - 2, 10)) or [""]
            if width(name) > first - col_spacing:
                self.write(f"{margin}{name}\n")
                name = ""
            self.write(f"{margin}{name}{' ' * (first - width(name))}{lines[0]}".rstrip() + "\n")
            for line in lines[1:]:
                self.write(f"{margin}{' ' * first}{line}\n")


def _has_wide(text: str) -> bool:
    return width(text) > len(text)
