"""A file that another process writes: it may grow while it is read, be cut, be written anew, be replaced, or be no file at all."""

from __future__ import annotations

import os
import stat
from typing import Optional

_ANCHOR_BYTES = 64


class GrowingFile:
    """`offset` is where the next new byte lies. `restarts` counts how often the content turned out to be another one.

    The file stays open, so that what is behind `offset` is still read after it was renamed or removed.
    """

    def __init__(self, path: str) -> None:
        self._fd: Optional[int] = None
        self.path = path
        self.offset = 0
        self.restarts = 0
        self._identity = (0, 0)
        self._anchor = b""

    def open(self) -> bool:
        """Whether there is something to read: the file that was open, or the one that lies at the path now."""
        if self._fd is not None:
            return True
        try:
            # Not blocking: the path may be a pipe that nobody writes.
            fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0))
        except OSError:
            return False
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            os.close(fd)
            return False
        self._fd, self._identity = fd, (found.st_dev, found.st_ino)
        self.offset, self._anchor = 0, b""
        return True

    def size(self) -> int:
        return os.fstat(self._fd).st_size if self._fd is not None else 0

    def begun_anew(self) -> bool:
        """Whether the open file holds other content than what was read: it was cut, or written anew in place. Then from 0."""
        if self._fd is None or self.offset == 0:
            return False
        if self.size() >= self.offset and self._before(self.offset) == self._anchor:
            return False
        self.offset, self._anchor = 0, b""
        self.restarts += 1
        return True

    def replaced(self) -> bool:
        """Whether another file lies at the path now, or none."""
        try:
            found = os.stat(self.path)
        except OSError:
            return True
        return (found.st_dev, found.st_ino) != self._identity

    def read(self, size: int) -> bytes:
        """The next bytes, without going on behind them."""
        return os.pread(self._fd, size, self.offset) if self._fd is not None else b""

    def skip(self, size: int) -> None:
        self.offset += size
        self._anchor = self._before(self.offset)

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def __del__(self) -> None:
        self.close()

    def _before(self, offset: int) -> bytes:
        """The last bytes before `offset`: when they change, what was read is not there any more."""
        start = max(0, offset - _ANCHOR_BYTES)
        return os.pread(self._fd, offset - start, start) if self._fd is not None else b""
