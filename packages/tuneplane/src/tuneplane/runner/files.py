"""Files that others read: complete or absent, also when the machine stops between two lines."""

from __future__ import annotations

import errno
import json
import os
from typing import Any


def write_json(path: str, value: Any) -> None:
    """Write temp, fsync, rename, fsync the directory. Raises `OSError`."""
    write_bytes(path, json.dumps(value, ensure_ascii=False, allow_nan=False, indent=1).encode("utf-8", "replace"))


def write_bytes(path: str, data: bytes) -> None:
    temporary = f"{path}.tmp-{os.getpid()}"
    try:
        fd = os.open(temporary, os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o644)
        try:
            write_all(fd, data)
            os.fsync(fd)
        finally:
            os.close(fd)
        os.replace(temporary, path)
    except OSError:
        remove(temporary)
        raise
    sync_directory(os.path.dirname(path))


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def sync_directory(path: str) -> None:
    """Make a rename durable; file systems that cannot sync a directory are left to their own promises."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.EBADF, errno.EROFS):
            raise
    finally:
        os.close(fd)


def remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return  # already gone, or left for the next to find: nobody depends on it
