"""The file one process reports into: `<rank>-<pid>.<n>.ndjson`, one complete line per write, rotated so that it stays bounded."""

from __future__ import annotations

import os
from typing import Dict, Optional

ROTATE_BYTES = 16 * 1024 * 1024
MAX_PENDING_BYTES = 1024 * 1024 * 1024


class ReportFile:
    """Append-only. The runner removes a file once it has read it and a newer one of the same process exists.

    When the runner no longer reads, the files of this process may hold `max_pending` bytes; what comes after is refused.
    """

    def __init__(
        self, directory: str, rank: int, rotate_bytes: int = ROTATE_BYTES, max_pending: int = MAX_PENDING_BYTES
    ) -> None:
        self._stem = os.path.join(directory, f"{rank}-{os.getpid()}")
        self._rotate_bytes = rotate_bytes
        self._max_pending = max_pending
        self._number = 0
        self._fd: Optional[int] = None
        self._size = 0
        self._older: Dict[str, int] = {}
        self._torn = False

    def write(self, line: bytes) -> bool:
        """Write one line (with its newline); False when it did not fit or the disk refused it."""
        written = 0
        data = line
        try:
            if self._fd is None or self._size >= self._rotate_bytes:
                self._open_next()
            if self._size + self._pending() + len(line) > self._max_pending:
                return False
            # A write that failed half-way left the beginning of a line; a newline turns it into one bad line.
            data = b"\n" + line if self._torn else line
            while written < len(data) and self._fd is not None:
                written += os.write(self._fd, data[written:])
        except OSError:
            self._torn = self._torn or written > 0
        self._size += written
        if written < len(data):
            return False
        self._torn = False
        return True

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _path(self) -> str:
        return f"{self._stem}.{self._number}.ndjson"

    def _open_next(self) -> None:
        """Open the next free number: a recycled pid must not append to a file that may be gone at any moment."""
        if self._fd is not None:
            self._older[self._path()] = self._size
            self.close()
            self._number += 1
        while True:
            try:
                flags = os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_WRONLY | getattr(os, "O_CLOEXEC", 0)
                self._fd = os.open(self._path(), flags, 0o600)
                self._size, self._torn = 0, False
                return
            except FileExistsError:
                self._number += 1

    def _pending(self) -> int:
        """Bytes in older files that the runner has not removed yet; looked up only when there are any."""
        if self._older:
            self._older = {path: size for path, size in self._older.items() if os.path.exists(path)}
        return sum(self._older.values())
