r"""Raw output of one file descriptor -> the lines a reader sees, resumable at every line.

Bytes are joined across pieces before they are decoded, so a character split over two reads is whole. A line that redraws
itself with `\r` shows as a terminal would show it: its state at most about once a second while it is open, and its final
state. A line longer than `MAX_LINE_BYTES` is cut with a marker. What cannot be decoded shows as U+FFFD; the stored bytes
stay as they are.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Literal, NamedTuple

from tuneplane_server.domain.terminal_screen import NUL_SHOWN, Screen, shown

MAX_LINE_BYTES = 16 * 1024
SECONDS_BETWEEN_STATES = 1.0

Mode = Literal["line", "screen", "skip"]


class FoldState(NamedTuple):
    r"""Where and how to go on: the next byte is `offset` of piece `seq`.

    line: at the start of a line. screen: inside a line that redraws itself, with what shows, the cursor's column, the
    time of the last state given out, whether it changed since, and bytes of an unfinished character or escape sequence.
    skip: inside a line that was cut; nothing shows until its end.
    """

    seq: int = 0
    offset: int = 0
    mode: Mode = "line"
    screen: str = ""
    column: int = 0
    shown_at: float | None = None
    changed: bool = False
    unfinished: bytes = b""


class FoldedLine(NamedTuple):
    """`time` of the piece that completed it; `after`: the state to go on from when this line was the last one read."""

    text: str
    time: float
    after: FoldState


class LineFolder:
    """Feed pieces in order; collect lines. `cut_marker` ends a line that was cut; without `fold`, `\r` is kept as it is."""

    def __init__(self, state: FoldState, *, fold: bool, cut_marker: str) -> None:
        self._fold, self._cut_marker = fold, cut_marker
        self._mode: Mode = state.mode
        self._pending = bytearray()  # of a plain line, from its start
        self._start = (state.seq, state.offset)  # of the pending bytes
        self._next = (state.seq, state.offset)
        self._screen = Screen(state.screen, state.column)
        self._shown_at, self._changed, self._unfinished = state.shown_at, state.changed, state.unfinished

    def state(self) -> FoldState:
        if self._mode == "line":
            return FoldState(*(self._start if self._pending else self._next))
        if self._mode == "skip":
            return FoldState(*self._next, "skip")
        screen = self._screen
        return FoldState(
            *self._next, "screen", screen.text, screen.column, self._shown_at, self._changed, self._unfinished
        )

    @property
    def open(self) -> bool:
        """Whether a line has begun and not ended."""
        return bool(self._pending) or self._mode != "line"

    def feed(self, seq: int, offset: int, data: bytes, time: float) -> Iterator[FoldedLine]:
        """The lines that `data` completes; it begins at `offset` of piece `seq`."""
        position = 0
        while position < len(data):
            newline = data.find(b"\n", position)
            stop = len(data) if newline < 0 else newline
            if not self._pending:
                self._start = (seq, offset + position)
            if self._mode == "line":
                stop = self._take_plain(data, position, stop)
                line = self._cut() if len(self._pending) > MAX_LINE_BYTES else None
            else:
                if self._mode == "screen":
                    self._draw(data[position:stop])
                line = None
            position = stop
            if line is None and stop == newline:
                line = self._end_line()
                position += 1
            self._next = (seq, offset + position)
            if line is not None:
                yield FoldedLine(line, time, self.state())
        if self._mode == "screen" and self._changed and self._due(time):
            self._shown_at, self._changed = time, False
            yield FoldedLine(self._screen.text, time, self.state())

    def skip_to(self, seq: int, offset: int) -> None:
        """Take the whole lines up to there as read; only when no line is open."""
        assert not self.open
        self._next = (seq, offset)

    def finish(self, time: float) -> Iterator[FoldedLine]:
        """The line that was left open: nothing more will come."""
        if self.open:
            line = self._end_line()
            if line is not None:
                yield FoldedLine(line, time, self.state())

    def _take_plain(self, data: bytes, position: int, stop: int) -> int:
        """Add to the pending line; returns where reading stopped (earlier than `stop` when the line grew too long)."""
        part = data[position:stop]
        if self._fold and self._redraws(part):
            text = bytes(self._pending + part)
            self._pending.clear()
            self._mode = "screen"
            self._draw(text)
            return stop
        room = MAX_LINE_BYTES + 1 - len(self._pending)
        self._pending += part[:room]
        return position + min(room, len(part))

    def _redraws(self, part: bytes) -> bool:
        r"""Whether something follows a `\r`. One at the very end may yet be half of `\r\n`, the end of an ordinary line."""
        return b"\r" in part.rstrip(b"\r") or (self._pending.endswith(b"\r") and part.strip(b"\r") != b"")

    def _draw(self, data: bytes) -> None:
        before = self._screen.text
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        escape = self._screen.write(decoder.decode(self._unfinished + data))
        self._unfinished = escape.encode("utf-8") + decoder.getstate()[0]
        self._changed = self._changed or self._screen.text != before

    def _due(self, time: float) -> bool:
        # A clock set back must not silence the line, so only a time shortly after the last state is too early.
        return self._shown_at is None or not 0 <= time - self._shown_at < SECONDS_BETWEEN_STATES

    def _end_line(self) -> str | None:
        """The final state of the open line, None when it has been shown already; then a new line begins."""
        mode, self._mode = self._mode, "line"
        if mode == "skip":
            return None
        if mode == "line":
            text = self._text(bytes(self._pending))
            self._pending.clear()
            return text
        before = self._screen.text
        self._screen.write(self._unfinished.decode("utf-8", "replace"))  # an escape that never ended shows nothing
        changed = self._changed or self._screen.text != before
        text = self._screen.text if changed or self._shown_at is None else None
        self._screen, self._shown_at, self._changed, self._unfinished = Screen(), None, False, b""
        return text

    def _cut(self) -> str:
        kept = MAX_LINE_BYTES
        while kept > MAX_LINE_BYTES - 4 and self._pending[kept] & 0xC0 == 0x80:  # not inside a character
            kept -= 1
        text = self._text(bytes(self._pending[:kept])) + self._cut_marker
        self._pending.clear()
        self._mode = "skip"
        return text

    def _text(self, line: bytes) -> str:
        text = line.rstrip(b"\r").decode("utf-8", "replace")
        return shown(text) if self._fold else text.replace("\0", NUL_SHOWN)
