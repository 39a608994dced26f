"""Reads the output of one machine of one attempt as lines, from any place on, in the order of the seqs.

Lines of different descriptors come in the order in which they were completed. The place of a line is what reading must
know to go on right after it; see `domain.cursors.RankPlace`.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import monotonic
from typing import NamedTuple

from tuneplane.i18n import _
from tuneplane_server.domain import log_codec
from tuneplane_server.domain.cursors import FDS, LineId, RankPlace, encode_line_id
from tuneplane_server.domain.log_codec import Piece
from tuneplane_server.domain.log_levels import LEVELS, Level, LevelReader, at_least, may_be_grave
from tuneplane_server.domain.terminal_fold import MAX_LINE_BYTES, FoldedLine, FoldState, LineFolder
from tuneplane_server.features.telemetry.repo.logs import Chunk
from tuneplane_server.features.telemetry.tables import MARKER_FD

CHUNKS_AT_ONCE = 8  # more than the descriptors, or a load could end where it began
LINES_AHEAD = 64
SLICE_BYTES = 128 * 1024
CONSOLE = "console"
# Anything that does not show as it is: escapes, `\r`, and what is not ASCII.
_NOT_PLAIN = re.compile(rb"[^\t\n -~]")

type Load = Callable[[int, int], Awaitable[list[Chunk]]]
"""(from seq, limit) -> chunks by their first seq."""


class Line(NamedTuple):
    """`time`: Unix seconds of the piece that completed it. `fd`: stdout, stderr, runner, or console for our own remarks.

    `id`: of `domain.cursors.encode_line_id`. `level`: of `domain.log_levels`. `match`: False for what only stands around a match.
    """

    attempt: int
    rank: int
    fd: str
    time: float
    text: str
    id: str = ""
    level: Level | None = None
    match: bool = True


@dataclass
class Budget:
    """What one request may read: raw bytes, and until when (monotonic seconds)."""

    raw_bytes: int
    deadline: float

    @property
    def spent(self) -> bool:
        return self.raw_bytes <= 0 or monotonic() > self.deadline


@dataclass(frozen=True)
class Wanted:
    """Which lines: all, or those that hold `text` (case-folded), are not older than `since`, at least as grave as `level` and
    of descriptor `fd`. Our own remarks are of every descriptor. `context`: how many lines around each come too.
    """

    text: str = ""
    since: float | None = None
    fold: bool = True
    level: Level | None = None
    fd: str | None = None
    context: int = 0

    def __call__(self, fd: str, line: FoldedLine, level: Level | None) -> bool:
        if not self.may_stand(fd, line) or (self.level is not None and not at_least(level, self.level)):
            return False
        return not self.text or self.text in line.text.casefold()

    def may_stand(self, fd: str, line: FoldedLine) -> bool:
        """Whether the line may be shown around one that is wanted."""
        if self.since is not None and line.time < self.since:
            return False
        return self.fd is None or fd in (self.fd, CONSOLE)


class _Held(NamedTuple):
    """A line that was not wanted, with the places in front of it and behind it."""

    line: Line
    before: RankPlace
    place: RankPlace


class RankReader:
    """`peek` and `take` lines; `place` is where reading goes on after the last one taken."""

    def __init__(
        self,
        attempt: int,
        rank: int,
        place: RankPlace,
        load: Load,
        wanted: Wanted,
        budget: Budget,
        *,
        final: bool = False,
        until: RankPlace | None = None,
    ) -> None:
        """`final`: nothing more will come, so a line without an end is given out too. `until`: only lines that end there or before."""
        self.attempt, self.rank, self.place = attempt, rank, place
        self.begin = place  # before the first line given out: what is older than `since` lies before it
        self._until, self._offered = until, False
        self.order = 0.0  # never falls, so that merging ranks by it keeps each rank's own order
        self.paused = False  # the budget ended before the output did
        self._load, self._wanted, self._budget, self._final = load, wanted, budget, final
        self._seq, self._offset = place.seq, place.offset
        # A search for ASCII text is told quickly that most output does not hold it.
        self._plain_text = wanted.text.encode("ascii") if wanted.text.isascii() else b""
        # Lines around a match and levels that stand for nothing grave need every line.
        grave = wanted.level in ("warning", "error")
        self._skips = not wanted.context and (grave if wanted.level is not None else bool(self._plain_text))
        marker = _("… [the line is longer than {limit} bytes; the raw log has all of it]").format(limit=MAX_LINE_BYTES)
        states = dict(place.open)
        start = FoldState(place.seq, place.offset)
        self._folders = [
            LineFolder(states.get(fd, start), fold=wanted.fold, cut_marker=marker) for fd in range(len(FDS))
        ]
        levels = dict(enumerate(place.levels))
        self._levels = [LevelReader(levels.get(fd, 0)) for fd in range(len(FDS))]
        self._after = place.after if wanted.context else 0  # lines that still stand behind a match
        self._held: deque[_Held] = deque(maxlen=wanted.context)  # lines that may stand in front of one
        self._last_place = place
        # Open lines begin before the place; their bytes are fed again, nobody else's.
        self._begin = [(states.get(fd, start).seq, states.get(fd, start).offset) for fd in range(len(FDS))]
        self._from = min(self._begin)[0]
        self._pieces: deque[tuple[int, Piece]] = deque()
        self._ready: deque[tuple[Line, RankPlace]] = deque()
        self._loaded_all = self._finished = False
        self._last_time = 0.0

    async def peek(self) -> Line | None:
        """The next line; None when there is none (yet), or when the budget is spent (`paused`)."""
        while not self._ready:
            if self._pieces:
                await self._advance()
            elif self._loaded_all:
                if not self._final or self._finished:
                    return None
                self._finish()
            elif self._budget.spent:
                self.paused = True
                return None
            else:
                await self._load_more()
        line = self._ready[0][0]
        self.order = max(self.order, line.time)
        return line

    def take(self) -> Line:
        """Count the line that `peek` showed as read."""
        line, self.place = self._ready.popleft()
        return line

    def rest(self) -> RankPlace:
        """The place at the end of a request: what made no line counts as read too when no line is waiting."""
        if not self._ready:
            # What may stand in front of the next match is read again then.
            self.place = self._held[0].before if self._held else self._place(self._seq, self._offset, self._open())
        return self.place

    @property
    def waiting(self) -> bool:
        """Whether further lines may be read now."""
        return bool(self._ready or self._pieces) or not self._loaded_all

    async def _load_more(self) -> None:
        chunks = await self._load(self._from, CHUNKS_AT_ONCE + 1)
        self._loaded_all = len(chunks) <= CHUNKS_AT_ONCE
        # Descriptors are interleaved: only what comes before the first chunk not taken is complete.
        end = None if self._loaded_all else chunks[CHUNKS_AT_ONCE].seq_first
        found: list[tuple[int, Piece]] = []
        for chunk in chunks[:CHUNKS_AT_ONCE]:
            self._budget.raw_bytes -= chunk.raw_bytes
            pieces = log_codec.decode(chunk.data)
            found += [
                (chunk.fd, piece) for piece in pieces if self._from <= piece.seq and (end is None or piece.seq < end)
            ]
        # A remark stands before the piece of the same seq.
        found.sort(key=lambda item: (item[1].seq, item[0] != MARKER_FD))
        self._pieces.extend(found)
        if end is not None:
            self._from = end

    async def _advance(self) -> None:
        if self._wanted.text or self._wanted.level:  # a search goes through megabytes
            await asyncio.to_thread(self._work)
        else:
            self._work()
            await asyncio.sleep(0)  # others have a turn between two slices

    def _work(self) -> None:
        """A slice: until some lines are ready, or enough bytes were gone through."""
        size = 0
        while self._pieces and len(self._ready) < LINES_AHEAD and size < SLICE_BYTES:
            fd, piece = self._pieces.popleft()
            size += len(piece.data)
            self._last_time = piece.time
            if fd == MARKER_FD:
                self._remark(piece)
            else:
                self._feed(fd, piece)

    def _feed(self, fd: int, piece: Piece) -> None:
        begin, skipped = self._begin[fd]
        if piece.seq < begin:
            return
        if piece.seq > self._seq + 1:
            self._note_gap(piece)
        offset = skipped if piece.seq == begin else 0
        if self._skips and not self._folders[fd].open:
            offset = self._skip(fd, piece, offset)
        for line in self._folders[fd].feed(piece.seq, offset, piece.data[offset:], piece.time):
            level = self._levels[fd].of(line.text)
            place = self._place(line.after.seq, line.after.offset, self._open(fd, line.after))
            self._offer(fd, line, place, level)
        if piece.seq >= self._seq:
            self._seq, self._offset = piece.seq, len(piece.data)

    def _skip(self, fd: int, piece: Piece, offset: int) -> int:
        """Pass over whole plain lines that cannot be wanted; where reading must go on."""
        end = piece.data.rfind(b"\n", offset) + 1
        if (
            end <= offset
            or _NOT_PLAIN.search(piece.data, offset, end)
            or not self._skippable(fd, piece.data, offset, end)
        ):
            return offset
        self._folders[fd].skip_to(piece.seq, end)
        self._levels[fd].forget()
        return end

    def _skippable(self, fd: int, data: bytes, start: int, end: int) -> bool:
        if self._wanted.level is None:
            return self._plain_text not in data[start:end].lower()
        # Lines that belong to a grave one are told from it: nothing of those may be passed over.
        return self._levels[fd].state < LEVELS.index("warning") + 1 and not may_be_grave(data, start, end)

    def _remark(self, piece: Piece) -> None:
        """Our own words stand before piece `seq`; whose reader is at that piece or further has seen them."""
        if piece.seq > self._seq:
            self._seq, self._offset = piece.seq, 0
            text = piece.data.decode("utf-8", "replace").rstrip("\n")
            self._offer(
                MARKER_FD, FoldedLine(text, piece.time, FoldState()), self._place(piece.seq, 0, self._open()), "warning"
            )

    def _note_gap(self, piece: Piece) -> None:
        missing = piece.seq - self._seq - 1
        self._seq, self._offset = piece.seq, 0
        text = _("[tuneplane: {count} pieces of output are missing here]").format(count=missing)
        self._offer(
            MARKER_FD, FoldedLine(text, piece.time, FoldState()), self._place(piece.seq, 0, self._open()), "warning"
        )

    def _finish(self) -> None:
        self._finished = True
        for fd, folder in enumerate(self._folders):
            for line in folder.finish(self._last_time):
                level = self._levels[fd].of(line.text)
                self._offer(fd, line, self._place(self._seq, self._offset, self._open()), level)

    def _offer(self, fd: int, line: FoldedLine, place: RankPlace, level: Level | None) -> None:
        if self._until is not None and place[:2] > self._until[:2]:
            self._pieces.clear()
            self._loaded_all = True
            return
        name = CONSOLE if fd == MARKER_FD else FDS[fd]
        before, self._last_place = self._last_place, place
        if self._wanted(name, line, level):
            for held in self._held:
                self._ready.append((held.line, held.place))
            self._held.clear()
            self._after = self._wanted.context
            self._give(self._line(fd, name, line, place, level, match=True), place)
        elif self._wanted.context and self._wanted.may_stand(name, line):
            around = self._line(fd, name, line, place, level, match=False)
            if self._after:
                self._after -= 1
                self._give(around, place)
            else:
                self._held.append(_Held(around, before, place))
        elif not self._offered and self._wanted.since is not None and line.time < self._wanted.since:
            self.begin = place

    def _give(self, line: Line, place: RankPlace) -> None:
        self._offered = True
        self._ready.append((line, place._replace(after=self._after)))

    def _line(
        self, fd: int, name: str, line: FoldedLine, place: RankPlace, level: Level | None, *, match: bool
    ) -> Line:
        identity = encode_line_id(LineId(self.attempt, self.rank, fd, place.seq, place.offset))
        return Line(self.attempt, self.rank, name, line.time, line.text, identity, level, match)

    def _place(self, seq: int, offset: int, open_lines: tuple[tuple[int, FoldState], ...]) -> RankPlace:
        return RankPlace(seq, offset, open_lines, tuple(reader.state for reader in self._levels), self._after)

    def _open(self, fd: int | None = None, state: FoldState | None = None) -> tuple[tuple[int, FoldState], ...]:
        """The open lines; `state` is that of `fd`, which is in the middle of a piece."""
        found: list[tuple[int, FoldState]] = []
        for other, folder in enumerate(self._folders):
            if other == fd and state is not None:
                if state.mode != "line":
                    found.append((other, state))
            elif folder.open:
                found.append((other, folder.state()))
        return tuple(found)
