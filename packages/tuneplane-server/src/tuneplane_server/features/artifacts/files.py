"""Opens files of an out dir without ever leaving it: every part of the path is opened by itself, links are not followed."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import threading
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from tuneplane_server.domain.artifact_paths import is_safe

BLOCK = 4 * 1024 * 1024


class FileGoneError(Exception):
    """There is no such regular file."""


class PathEscapeError(Exception):
    """The path is no relative path, or a link stands in its way."""


def hides_a_trick(path: str) -> bool:
    """Whether a path that looks harmless is none once it is decoded again, as some proxies and servers do."""
    decoded = path
    for _time in range(3):
        decoded = unquote(decoded)
        if not is_safe(decoded):
            return True
    return False


@dataclass(frozen=True)
class FileFacts:
    size: int
    modified_ns: int
    inode: int

    @classmethod
    def of(cls, descriptor: int) -> FileFacts:
        found = os.fstat(descriptor)
        return cls(found.st_size, found.st_mtime_ns, found.st_ino)


def open_inside(out_dir: Path, path: str) -> int:
    """A descriptor to read the regular file `path` below `out_dir`; the caller closes it.

    Raises `FileGoneError`, `PathEscapeError`, or `OSError` when the storage cannot be asked.
    """
    if not is_safe(path):
        raise PathEscapeError(path)
    *directories, name = path.split("/")
    current = _descend(out_dir, directories)
    try:
        # Not blocking: a FIFO must not hold the console up before it is seen to be one.
        found = _open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY, current)
    finally:
        os.close(current)
    if not stat.S_ISREG(os.fstat(found).st_mode):
        os.close(found)
        raise FileGoneError(path)
    return found


def is_directory_inside(out_dir: Path, path: str) -> bool:
    """Whether `path` is a directory below `out_dir` with no link on the way: what a further attempt may be given to read."""
    if not is_safe(path):
        return False
    try:
        os.close(_descend(out_dir, path.split("/")))
    except (FileGoneError, PathEscapeError):
        return False
    return True


def _descend(out_dir: Path, directories: list[str]) -> int:
    """A descriptor of the directory, opened part by part."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
    current = _open(str(out_dir), flags, None)
    for part in directories:
        try:
            below = _open(part, flags, current)
        finally:
            os.close(current)
        current = below
    return current


def _open(name: str, flags: int, below: int | None) -> int:
    try:
        return os.open(name, flags | os.O_CLOEXEC, dir_fd=below)
    except OSError as error:
        # A link answers ELOOP, or ENOTDIR where a directory was asked for.
        if error.errno == errno.ELOOP or (error.errno == errno.ENOTDIR and _is_link(name, below)):
            raise PathEscapeError(name) from None
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENXIO, errno.ENAMETOOLONG):
            raise FileGoneError(name) from None
        raise


def _is_link(name: str, below: int | None) -> bool:
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=below, follow_symlinks=False).st_mode)
    except OSError:
        return False


def sha256_of(out_dir: Path, path: str, stop: threading.Event) -> tuple[FileFacts, str] | None:
    """(what it is, SHA-256) of a file that does not change meanwhile; None when it does, or when told to stop."""
    descriptor = open_inside(out_dir, path)
    try:
        before = FileFacts.of(descriptor)
        digest = hashlib.sha256()
        while block := os.read(descriptor, BLOCK):
            if stop.is_set():
                return None
            digest.update(block)
        return (before, digest.hexdigest()) if FileFacts.of(descriptor) == before else None
    finally:
        os.close(descriptor)
