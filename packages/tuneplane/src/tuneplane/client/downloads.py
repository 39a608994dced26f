"""Fetch artifacts of a job: resumable, verified, and never outside the directory asked for.

A file arrives as `<name>.part`, goes on from there after an interruption, is checked against its size and SHA-256, and only then
takes its name.
"""

from __future__ import annotations

import errno
import hashlib
import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from tuneplane.client.errors import ConsoleError, DamagedError
from tuneplane.client.http import Console, Progress
from tuneplane.client.types import ArtifactFile
from tuneplane.i18n import _
from tuneplane.quoted_words import system_words

if TYPE_CHECKING:
    import httpx2

PART_SUFFIX = ".part"
_CHUNK = 1024 * 1024
_MAX_NAME = 255


@dataclass(frozen=True)
class Downloaded:
    """`fresh`: whether it was fetched now, and not there already. `verified`: whether its SHA-256 was known and right."""

    path: Path
    size: int
    fresh: bool
    verified: bool


def safe_target(directory: Path, name: str) -> Path:
    """Where a file of that name goes below `directory`. Raises `DamagedError` for a name that leads elsewhere."""
    pure = PurePosixPath(name)
    wrong = (
        not name
        or pure.is_absolute()
        or any(part in ("", ".", "..") or len(part.encode("utf-8", "replace")) > _MAX_NAME for part in name.split("/"))
        or "\\" in name
        or not name.isprintable()
    )
    if wrong:
        raise DamagedError(
            _("the console names a file “{name}”, which is no path below a directory").format(name=_shown(name))
        )
    target = directory.joinpath(*pure.parts)
    parent = directory
    for part in pure.parts[:-1]:
        parent = parent / part
        if parent.is_symlink():
            raise DamagedError(
                _("{path} is a link; nothing is written through it").format(path=parent),
                _("choose another directory with --output"),
            )
    return target


def download(
    console: Console, job: str, file: ArtifactFile, directory: Path, progress: Progress | None = None
) -> Downloaded:
    """Fetch one artifact into `directory`, below its own path. `progress` is told the bytes as they arrive."""
    target = safe_target(directory, file["path"])
    expected = file.get("sha256")
    if target.is_symlink():
        raise DamagedError(_("{path} is a link; nothing is written through it").format(path=target))
    if target.is_file() and target.stat().st_size == file["size"] and (not expected or _hash(target) == expected):
        return Downloaded(target, file["size"], fresh=False, verified=bool(expected))
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(target.name + PART_SUFFIX)
        _fetch(console, job, file, part, progress)
        part.replace(target)
    except OSError as error:
        raise _disk(error, target) from None
    return Downloaded(target, file["size"], fresh=True, verified=bool(expected))


def _fetch(console: Console, job: str, file: ArtifactFile, part: Path, progress: Progress | None) -> None:
    """Bring `part` to its full, verified content; a leftover that turns out wrong is fetched anew, once."""
    for last in (False, True):
        resumed = part.is_file() and not part.is_symlink() and 0 < part.stat().st_size <= file["size"]
        if not resumed:
            part.unlink(missing_ok=True)
        wrong = _fill(console, job, file, part, progress)
        if not wrong:
            return
        part.unlink(missing_ok=True)
        if last or not resumed:
            raise DamagedError(wrong, _("download it again; when it stays so, the file on the console is damaged"))


def _fill(console: Console, job: str, file: ArtifactFile, part: Path, progress: Progress | None) -> str:
    """Append what is missing; what is wrong with the result, or an empty text."""
    have = part.stat().st_size if part.exists() else 0
    digest = hashlib.sha256()
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(part, flags, 0o644), "r+b") as out:
        for chunk in iter(lambda: out.read(_CHUNK), b""):
            digest.update(chunk)
        if have < file["size"] or have == 0:
            with console.artifact_file(job, file.get("attempt"), file["path"], have) as answer:
                if answer.status_code == 416 or (answer.status_code == 206 and not _continues(answer, have)):
                    return _("the console does not go on where the file stopped")
                if answer.status_code == 200 and have:
                    out.seek(0)
                    out.truncate()
                    digest, have = hashlib.sha256(), 0
                if progress:
                    progress(have)
                for chunk in answer.iter_bytes(_CHUNK):
                    have += len(chunk)
                    if have > file["size"]:
                        return _("{name} is longer than the console said").format(name=file["path"])
                    out.write(chunk)
                    digest.update(chunk)
                    if progress:
                        progress(len(chunk))
        out.flush()
        os.fsync(out.fileno())
    if have != file["size"]:
        return _("{name} has {have} of {size} bytes").format(name=file["path"], have=have, size=file["size"])
    expected = file.get("sha256")
    if expected and digest.hexdigest() != expected:
        return _("{name} arrived damaged: its SHA-256 is another").format(name=file["path"])
    return ""


def _continues(answer: httpx2.Response, offset: int) -> bool:
    return answer.headers.get("content-range", "").startswith(f"bytes {offset}-")


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _disk(error: OSError, target: Path) -> ConsoleError:
    hint = _("free some space, or choose another disk with --output") if error.errno == errno.ENOSPC else ""
    return ConsoleError(_("{path} cannot be written: {why}").format(path=target, why=system_words(error)), hint)


def _shown(name: str) -> str:
    return name[:100].encode("unicode_escape").decode("ascii")
