r"""One line of a terminal: what is left to see after `\r`, backspaces, erasures and overwriting.

Cells follow the usual terminal (ECMA-48): a wide character takes two, a combining one joins the cell before it. Colours,
titles and movements to other lines are dropped; this is one line.
"""

from __future__ import annotations

import re
import unicodedata

MAX_COLUMNS = 16 * 1024
TAB = 8
NUL_SHOWN = "\ufffd"

# ESC [ parameters letter; ESC ] … BEL or ESC \; ESC ( set; other escapes of two characters.
_ESCAPE = re.compile(
    r"\x1b(?:\[(?P<parameters>[0-?]*)[ -/]*(?P<final>[@-~])|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()*+][0-9A-Za-z]|[^\[\]])",
    re.DOTALL,
)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?)?\Z")
MAX_UNFINISHED = 256
_COLOUR = re.compile(r"\x1b\[[0-9;:]*m")
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
# Anything that is not "one character, one cell": controls, combining marks, and the blocks that hold wide characters.
_SPECIAL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u0300-\u036f\u1100-\u115f\u200b-\u200f\u20d0-\u20ff\u2e80-\ua4cf\ua960-\ua97f\uac00-\ud7a3\uf900-\ufaff\ufe00-\ufe6f\uff00-\uff60\uffe0-\uffe6\U00010000-\U0010ffff]"
)


class Screen:
    """`text` is what shows, `column` where the next character goes (0-based cells)."""

    def __init__(self, text: str = "", column: int = 0) -> None:
        self.text, self.column = text, column

    def write(self, text: str) -> str:
        """Put `text` on the line; returns its unfinished escape sequence, to be given again before what follows."""
        unfinished = _UNFINISHED.search(text)
        rest = ""
        if unfinished and len(unfinished[0]) <= MAX_UNFINISHED:
            rest, text = unfinished[0], text[: unfinished.start()]
        for frame in _frames(_COLOUR.sub("", text)):
            if frame == "\r":
                self.column = 0
            elif _SPECIAL.search(frame) or _SPECIAL.search(self.text):
                self._write_cells(frame)
            else:
                self._overlay(frame)
        return rest

    def _overlay(self, text: str) -> None:
        text = text[: max(0, MAX_COLUMNS - self.column)]
        before = self.text[: self.column].ljust(self.column)
        self.text = before + text + self.text[self.column + len(text) :]
        self.column += len(text)

    def _write_cells(self, text: str) -> None:
        cells = _Cells(self.text, self.column)
        position = 0
        while position < len(text):
            escape = _ESCAPE.match(text, position)
            if escape:
                cells.control(escape["final"] or "", escape["parameters"] or "")
                position = escape.end()
            else:
                cells.put(text[position])
                position += 1
        self.text, self.column = cells.text(), cells.column


def shown(text: str) -> str:
    """A whole line as a terminal leaves it; tabs stay tabs."""
    if "\x1b" in text:
        text = _COLOUR.sub("", text)
    if not _CONTROL.search(text):
        return text
    screen = Screen()
    screen.write(text)
    return screen.text


def _frames(text: str) -> list[str]:
    parts = text.split("\r")
    frames = [parts[0]] if parts[0] else []
    for part in parts[1:]:
        frames += ["\r", part] if part else ["\r"]
    return frames


class _Cells:
    """The line as cells: "" is the second half of a wide character."""

    def __init__(self, text: str, column: int) -> None:
        self._cells: list[str] = []
        self.column = 0
        for character in text:
            self._place(character)
        self.column = column

    def text(self) -> str:
        return "".join(self._cells)

    def put(self, character: str) -> None:
        if character == "\b":
            self.column = max(0, self.column - 1)
        elif character == "\t":
            self._move(self.column + TAB - self.column % TAB)
            self._pad()
        elif character == "\0":
            self._place(NUL_SHOWN)
        elif unicodedata.category(character) != "Cc":
            self._place(character)

    def control(self, final: str, parameters: str) -> None:
        number = int(parameters) if parameters.isdecimal() and len(parameters) < 6 else 0
        if final == "K":
            self._erase(number)
        elif final == "C":
            self._move(self.column + max(1, number))
        elif final == "D":
            self._move(self.column - max(1, number))
        elif final == "G":
            self._move(max(1, number) - 1)

    def _move(self, column: int) -> None:
        self.column = min(max(0, column), MAX_COLUMNS)

    def _pad(self) -> None:
        self._cells.extend(" " * (self.column - len(self._cells)))

    def _erase(self, mode: int) -> None:
        if mode == 0:
            self._split(self.column)
            del self._cells[self.column :]
        elif mode == 1:
            self._split(self.column + 1)
            self._cells[: self.column + 1] = " " * min(self.column + 1, len(self._cells))
        elif mode == 2:
            self._cells.clear()

    def _place(self, character: str) -> None:
        width = _width(character)
        if width == 0:
            if 0 < self.column <= len(self._cells):
                self._cells[self._owner(self.column - 1)] += character
            return
        if self.column + width > MAX_COLUMNS:
            return
        self._pad()
        self._split(self.column)
        self._split(self.column + width)
        self._cells[self.column : self.column + width] = [character, ""][:width]
        self.column += width

    def _owner(self, column: int) -> int:
        return column - 1 if self._cells[column] == "" and column > 0 else column

    def _split(self, column: int) -> None:
        """Cut a wide character that reaches over `column`: a terminal blanks both its halves."""
        if 0 < column < len(self._cells) and self._cells[column] == "":
            self._cells[column - 1 : column + 1] = "  "


def _width(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
