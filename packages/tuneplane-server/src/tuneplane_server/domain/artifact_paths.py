"""Which relative paths may name an artifact. What a job wrote into its index is not believed before it is checked."""

from __future__ import annotations

from typing import NamedTuple

MAX_PATH_BYTES = 1024


class ByteRange(NamedTuple):
    """Inclusive first byte, exclusive end."""

    start: int
    stop: int


def is_safe(path: str) -> bool:
    """Relative, POSIX, normal: no empty, `.` or `..` part, no backslash, nothing that does not print."""
    try:
        size = len(path.encode("utf-8"))
    except UnicodeEncodeError:
        return False
    if not 0 < size <= MAX_PATH_BYTES or not path.isprintable() or "\\" in path:
        return False
    return all(part not in ("", ".", "..") for part in path.split("/"))


def parse_range(header: str, size: int) -> ByteRange | None:
    """The single range of a `Range` header (RFC 9110 §14.2); None when it is to be ignored: absent, malformed, several,
    another unit. Raises `ValueError` when it lies beyond the file."""
    unit, equals, text = header.partition("=")
    first, dash, last = text.strip().partition("-")
    if unit.strip().lower() != "bytes" or not equals or not dash or "," in text:
        return None
    if not all(part == "" or (part.isascii() and part.isdigit() and len(part) < 20) for part in (first, last)):
        return None
    if first == "":
        if last == "":
            return None
        start, stop = max(0, size - int(last)), size
        if int(last) == 0:
            raise ValueError("an empty suffix")
    else:
        start, stop = int(first), min(size, int(last) + 1) if last else size
        if last and int(last) < start:
            return None
    if start >= size:
        raise ValueError("beyond the end")
    return ByteRange(start, stop)
