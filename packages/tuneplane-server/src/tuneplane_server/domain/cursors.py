"""Where a reader of a run's output is: one place per (attempt, rank), as one opaque string.

The string is base64url of JSON, compressed when long. It holds positions and at most the visible text of lines that are
being redrawn; it grants nothing, so it is not signed. A string that this module did not make is refused.
"""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, NamedTuple

import msgspec
from compression import zstd

from tuneplane_server.domain.terminal_fold import FoldState, Mode
from tuneplane_server.domain.terminal_screen import MAX_COLUMNS

MAX_TEXT = 8 * 1024  # of a cursor: an address with it still passes common proxies
MAX_JSON = 512 * 1024
MIN_COMPRESSED = 300
_PLAIN, _PACKED = "p", "z"

MAX_CONTEXT = 50  # lines around a match
FDS = ("stdout", "stderr", "runner")


class CursorError(ValueError):
    """Not a cursor that this console gave."""


class LineId(NamedTuple):
    """Where a line ends: it stays the same however the line was found. `fd`: index into `FDS`, or one more for our remarks."""

    attempt: int
    rank: int
    fd: int
    seq: int
    offset: int


class RankPlace(NamedTuple):
    """Everything before byte `offset` of piece `seq` has been read, except the open lines in `open` (index into `FDS`).

    `levels`: for each of `FDS`, what `log_levels` must know to go on. `after`: how many lines behind a match are still to be shown.
    """

    seq: int = 0
    offset: int = 0
    open: tuple[tuple[int, FoldState], ...] = ()
    levels: tuple[int, ...] = ()
    after: int = 0


type LogCursor = dict[tuple[int, int], RankPlace]
"""(attempt, rank) -> place; one that is missing is read from its start."""

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Text = Annotated[str, msgspec.Meta(max_length=MAX_COLUMNS)]


class _Open(msgspec.Struct, array_like=True, frozen=True):
    fd: Annotated[int, msgspec.Meta(ge=0, lt=len(FDS))]
    seq: _Count
    offset: _Count
    mode: Mode
    screen: _Text = ""
    column: Annotated[int, msgspec.Meta(ge=0, le=MAX_COLUMNS)] = 0
    shown_at: float | None = None
    changed: bool = False
    unfinished: Annotated[bytes, msgspec.Meta(max_length=4096)] = b""


class _Rank(msgspec.Struct, array_like=True, frozen=True):
    attempt: _Count
    rank: _Count
    seq: _Count
    offset: _Count
    open: Annotated[list[_Open], msgspec.Meta(max_length=len(FDS))] = []
    levels: Annotated[list[Annotated[int, msgspec.Meta(ge=0, le=8)]], msgspec.Meta(max_length=len(FDS))] = []
    after: Annotated[int, msgspec.Meta(ge=0, le=MAX_CONTEXT)] = 0


_decoder = msgspec.json.Decoder(list[_Rank])


def encode_log_cursor(cursor: LogCursor) -> str:
    """The cursor as text. When it would grow beyond `MAX_TEXT`, what redrawn lines show is left out: only they suffer."""
    text = _encoded(_entries(cursor, with_screens=True))
    return text if len(text) <= MAX_TEXT else _encoded(_entries(cursor, with_screens=False))


def decode_log_cursor(text: str) -> LogCursor:
    """Raises `CursorError`."""
    try:
        data = base64.b64decode(text[1:] + "=" * (-len(text[1:]) % 4), altchars=b"-_", validate=True)
        if text[:1] == _PACKED:
            data = zstd.ZstdDecompressor().decompress(data, max_length=MAX_JSON)
        elif text[:1] != _PLAIN:
            raise CursorError("not a cursor")
        entries = _decoder.decode(data)
    except (binascii.Error, ValueError, EOFError, zstd.ZstdError, msgspec.MsgspecError, RecursionError):
        raise CursorError("not a cursor that this console gave") from None
    return {(entry.attempt, entry.rank): _place(entry) for entry in entries}


def encode_line_id(line: LineId) -> str:
    """Short text: base64url of numbers in LEB128."""
    return base64.urlsafe_b64encode(b"".join(map(_leb128, line))).decode().rstrip("=")


def decode_line_id(text: str) -> LineId:
    """Raises `CursorError`."""
    try:
        data = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise CursorError("not the name of a line") from None
    numbers: list[int] = []
    number = shift = 0
    for byte in data[: 10 * len(LineId._fields)]:
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            numbers.append(number)
            number = shift = 0
    if shift or len(numbers) != len(LineId._fields) or max(numbers) >= 2**63 or max(numbers[:2]) >= 2**31:
        raise CursorError("not the name of a line")
    return LineId(*numbers)


def _leb128(number: int) -> bytes:
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def _entries(cursor: LogCursor, *, with_screens: bool) -> list[_Rank]:
    return [
        _Rank(
            attempt,
            rank,
            place.seq,
            place.offset,
            [_open(fd, state, with_screens) for fd, state in place.open],
            list(place.levels) if any(place.levels) else [],
            place.after,
        )
        for (attempt, rank), place in sorted(cursor.items())
    ]


def _open(fd: int, state: FoldState, with_screens: bool) -> _Open:
    if with_screens:
        return _Open(fd, *state)
    return _Open(fd, *state._replace(screen="", column=0))


def _place(entry: _Rank) -> RankPlace:
    states = (
        (o.fd, FoldState(o.seq, o.offset, o.mode, o.screen, o.column, o.shown_at, o.changed, o.unfinished))
        for o in entry.open
    )
    return RankPlace(entry.seq, entry.offset, tuple(states), tuple(entry.levels), entry.after)


def _encoded(entries: list[_Rank]) -> str:
    data, kind = msgspec.json.encode(entries), _PLAIN
    if len(data) >= MIN_COMPRESSED:
        data, kind = zstd.compress(data, 6), _PACKED
    return kind + base64.urlsafe_b64encode(data).decode().rstrip("=")
