"""A file that another process writes: it may grow while it is read, be cut, be written anew, be replaced, or be no file at all."""

from __future__ import annotations

import os
import stat
from typing import Optional

_ANCHOR_BYTES = 64


class GrowingFile:
    """`offset` is where the next new byte lies. `restarts` counts how often the content turned out to be another one.

    The file stays open, so that what is behind `offset` is still read after it was renamed or removed. Some writers save all of it
    at each step, in place or by a rename: what begins as what was read did is gone on with, once it is as long as that was.
    Nothing raises for a file that cannot be read (a stale handle of NFS): it is closed, and opened again at the next look.
    """

    def __init__(self, path: str) -> None:
        self._fd: Optional[int] = None
        self.path = path
        self.offset = 0
        self.restarts = 0
        self._identity = (0, 0)
        self._head = b""  # the first bytes of what was read
        self._anchor = b""  # the last ones, those before `offset`
        self._unread = b""  # what `read` gave and `skip` has not passed
        self._waiting = False

    @property
    def readable(self) -> bool:
        """Whether the file is open, and known to hold what was read before."""
        return self._fd is not None and not self._waiting

    def open(self) -> bool:
        """Whether there is something to read: the file that was open, or the one that lies at the path now."""
        if self._fd is not None:
            return True
        try:
            # Not blocking: the path may be a pipe that nobody writes.
            fd = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0))
        except OSError:
            return False
        try:
            found = os.fstat(fd)
        except OSError:
            os.close(fd)
            return False
        if not stat.S_ISREG(found.st_mode):
            os.close(fd)
            return False
        self._fd, self._identity = fd, (found.st_dev, found.st_ino)
        return True

    def size(self) -> int:
        try:
            return os.fstat(self._fd).st_size if self._fd is not None else 0
        except OSError:
            self.close()
            return 0

    def begun_anew(self, final: bool = False) -> bool:
        """Whether the open file holds other content than what was read: it was cut, replaced, or written anew in place. Then from 0.

        One that is shorter and begins in the same way may be just being written once more: it is waited for, unless `final`.
        """
        size, head = self.size(), self._at(0, len(self._head))
        anchor = self._before(self.offset) if size >= self.offset else b""
        self._waiting = False
        if self._fd is None or self.offset == 0:
            return False
        if size >= self.offset:
            if (head, anchor) == (self._head, self._anchor):
                return False
        elif not final and self._head.startswith(head):
            self._waiting = True
            return False
        self.offset, self._head, self._anchor = 0, b"", b""
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
        self._unread = self._at(self.offset, size) if self.readable else b""
        return self._unread

    def skip(self, size: int) -> None:
        """Go on behind the next `size` bytes, read or not; stay when the file cannot be read any more."""
        if size <= len(self._unread):  # not read once more: it may be another file's content by now
            head, anchor = self._head + self._unread[:size], self._anchor + self._unread[:size]
        else:
            head, anchor = self._at(0, min(_ANCHOR_BYTES, self.offset + size)), self._before(self.offset + size)
            if self._fd is None:
                return
        self._unread = b""
        self.offset += size
        self._head = self._head if len(self._head) == _ANCHOR_BYTES else head[:_ANCHOR_BYTES]
        self._anchor = anchor[-_ANCHOR_BYTES:]

    def close(self) -> None:
        self._unread = b""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def __del__(self) -> None:
        self.close()

    def _before(self, offset: int) -> bytes:
        """The last bytes before `offset`: when they change, what was read is not there any more."""
        start = max(0, offset - _ANCHOR_BYTES)
        return self._at(start, offset - start)

    def _at(self, offset: int, size: int) -> bytes:
        try:
            return os.pread(self._fd, size, offset) if self._fd is not None else b""
        except OSError:
            self.close()
            return b""
