"""Text for a terminal: tables that line up, also with Chinese in them, and nothing that could steer the terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from typing import Any

_WIDE = "\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6"
# What a line may break before: a word or one wide character, with the opening marks before it and the closing ones after it.
_PIECE = rf"\s*[（《「『]*(?:[{_WIDE}]|[^\s{_WIDE}]+|\S)[，。、；：？！）》」』]*"


def clean(text: str, *, keep_lines: bool = False) -> str:
    """Without control characters, which in a terminal move the cursor, recolour or worse. Tabs become spaces."""
    if text.isprintable():
        return text
    kept = "\n\t" if keep_lines else ""
    return "".join(
        char if char.isprintable() or char in kept else " " if char in "\n\r\t" else "\N{REPLACEMENT CHARACTER}"
        for char in text
    )


def width(text: str) -> int:
    """Columns that the text takes; a Chinese character takes two."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(0 if combining(char) else 2 if east_asian_width(char) in "WF" else 1 for char in text)


def wrap(text: str, columns: int, indent: str = "") -> list[str]:
    """Lines of at most `columns` columns, `indent` included; breaks at spaces and between wide characters. A longer word stays whole."""
    lines: list[str] = []
    line = ""
    for piece in re.findall(_PIECE, text):  # compiled when first needed: most commands wrap nothing
        if line and width(line) + width(piece) > columns - width(indent):
            lines.append(line)
            line = ""
        line += piece if line else piece.lstrip()
    return [indent + item for item in [*lines, line] if item]


def table(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Columns padded to their widest cell, the last one as it is. None is shown as `-`."""
    cells = [list(headers), *([_cell(value) for value in row] for row in rows)]
    widths = [max(width(row[column]) for row in cells) for column in range(len(headers))]
    return "".join(_line(row, widths) for row in cells)


def fields(pairs: Iterable[tuple[str, Any]]) -> str:
    """`name  value` lines, the values lined up; pairs whose value is None or empty are left out."""
    shown = [(name, _cell(value)) for name, value in pairs if value not in (None, "", [], {})]
    widest = max((width(name) for name, _value in shown), default=0)
    return "".join(f"{name}{' ' * (widest - width(name))}  {value}\n" for name, value in shown)


def write(text: str) -> None:
    sys.stdout.write(text)


def write_json(value: Any) -> None:
    """One JSON value on stdout."""
    import json

    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def note(text: str) -> None:
    """A remark beside the result: on stderr, so that it never mixes with what a script reads."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def on_terminal() -> bool:
    """Whether a person sits in front of both ends, so that a question can be asked."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def _cell(value: Any) -> str:
    return "-" if value is None else clean(str(value))


def _line(row: list[str], widths: list[int]) -> str:
    padded = [cell + " " * (most - width(cell)) for cell, most in zip(row[:-1], widths, strict=False)]
    return "  ".join([*padded, row[-1]]).rstrip() + "\n"
