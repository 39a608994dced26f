"""Print log lines: text with what could steer the terminal taken out, or one JSON object a line."""

from __future__ import annotations

import json
import os
import re
import sys

from tuneplane.cli.job.show_text import local_time
from tuneplane.cli.text import clean
from tuneplane.client.types import LogLine
from tuneplane.i18n import _

_STYLES = {"error": "\x1b[31m", "warning": "\x1b[33m", "debug": "\x1b[2m"}
_FAINT = "\x1b[2m"
# Colours are what trainers print escape sequences for; nothing else of them passes to a terminal.
_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")


class LogPrinter:
    """Lines of several machines get their rank in front, as soon as a second machine speaks."""

    def __init__(self, *, timestamps: bool = False, as_json: bool = False) -> None:
        self._timestamps, self._as_json = timestamps, as_json
        self._terminal = sys.stdout.isatty()
        self._paints = self._terminal and not os.environ.get("NO_COLOR")
        self._ranks: set[int] = set()
        self._attempt: int | None = None

    def print(self, line: LogLine) -> None:
        if self._as_json:
            sys.stdout.write(json.dumps(line, ensure_ascii=False) + "\n")
            return
        prefix = ""
        if self._timestamps:
            prefix += f"{local_time(line.get('time')) or '-'}  "
        rank = line.get("rank", 0)
        self._ranks.add(rank)
        if len(self._ranks) > 1:
            prefix += f"[{rank}] "
        attempt = line.get("attempt")
        if attempt is not None and self._attempt is not None and attempt != self._attempt:
            sys.stdout.write(f"--- {_('attempt {n}').format(n=attempt)} ---\n")
        self._attempt = attempt if attempt is not None else self._attempt
        for text in line["text"].rstrip("\r\n").splitlines() or [""]:
            sys.stdout.write(f"{prefix}{self._painted(self._shown(text), line)}\n")

    def flush(self) -> None:
        sys.stdout.flush()

    def _painted(self, text: str, line: LogLine) -> str:
        """Grave lines in colour, what only stands around a match faint; a line with colours of its own keeps them."""
        if not self._paints or "\x1b" in text:
            return text
        style = _FAINT if line.get("match") is False else _STYLES.get(line.get("level") or "", "")
        return f"{style}{text}\x1b[0m" if style else text

    def _shown(self, text: str) -> str:
        if not self._terminal:
            return text
        parts = _COLOUR.split(text)
        # split() with one group gives text, colour, text, colour, …
        shown = "".join(part if index % 2 else clean(part) for index, part in enumerate(parts))
        return f"{shown}\x1b[0m" if len(parts) > 1 else shown
