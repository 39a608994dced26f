"""Unpacks the lab's package into the work dir. The archive came over the network: nothing in it is trusted.

Written by hand instead of `tarfile`'s `data` filter, which Python 3.9 to 3.11 images may lack (it came in patch releases).
"""

from __future__ import annotations

import errno
import hashlib
import os
import tarfile
import zlib
from typing import BinaryIO, Iterator, List, Tuple

from tuneplane.runner import limits
from tuneplane.runner.failures import PACKAGE_CORRUPT, STORAGE_FAILED, StartError, storage_error


def unpack_package(
    path: str,
    digest: str,
    destination: str,
    max_files: int = limits.PACKAGE_FILES,
    max_bytes: int = limits.PACKAGE_BYTES,
) -> int:
    """Check the digest of the gzipped tar at `path` and unpack it below `destination`, which must not exist; the number of files.

    Only files, directories and links that stay inside; everything else is a `StartError`.
    """
    try:
        with open(path, "rb") as file:
            _verify(file, digest, path)
            file.seek(0)
            os.makedirs(destination, mode=0o755)
            return _unpack(file, destination, max_files, max_bytes)
    except FileNotFoundError as error:
        raise StartError(STORAGE_FAILED, f"the package {path} is not there") from error
    except OSError as error:
        if error.errno is None or error.errno in _ODD_ARCHIVE:
            raise StartError(PACKAGE_CORRUPT, f"the package cannot be unpacked: {error}") from error
        raise storage_error("the package cannot be unpacked", error) from error
    except (tarfile.TarError, EOFError, zlib.error, UnicodeError) as error:
        raise StartError(PACKAGE_CORRUPT, f"the package is no gzipped tar archive: {error}") from error


# gzip's own complaint has no number; the others come of an archive that names one path twice or a file as a directory.
_ODD_ARCHIVE = (errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENAMETOOLONG, errno.ELOOP)


def _verify(file: BinaryIO, digest: str, path: str) -> None:
    found = hashlib.sha256()
    for block in iter(lambda: file.read(1 << 20), b""):
        found.update(block)
    if found.hexdigest() != digest:
        raise StartError(
            PACKAGE_CORRUPT, f"the package {path} has digest {found.hexdigest()}, the capsule names {digest}"
        )


def _unpack(file: BinaryIO, destination: str, max_files: int, max_bytes: int) -> int:
    count, total = 0, 0
    links: List[Tuple[str, str]] = []
    with tarfile.open(fileobj=file, mode="r:gz") as archive:
        for member in _members(archive):
            count += 1
            total += max(0, member.size)
            if count > max_files or total > max_bytes:
                raise StartError(PACKAGE_CORRUPT, f"the package holds more than {max_files} files or {max_bytes} bytes")
            target = os.path.join(destination, _safe_name(member.name))
            if member.isdir():
                os.makedirs(target, mode=0o755, exist_ok=True)
            elif member.isreg():
                _write_file(archive, member, target)
            else:
                links.append((_safe_link(member), target))
    # Links come last: no file is ever written through one.
    for source, target in links:
        os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
        os.symlink(source, target)
        # Through other links even a harmless-looking target may lead out.
        if not _is_inside(os.path.realpath(target), os.path.realpath(destination)):
            raise StartError(PACKAGE_CORRUPT, f"{source[:200]!r} in the package links out of the lab")
    return count


def _members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    for member in archive:
        if not (member.isreg() or member.isdir() or member.issym()):
            raise StartError(
                PACKAGE_CORRUPT, f"{member.name[:200]!r} in the package is no file, directory or symbolic link"
            )
        yield member


def _safe_name(name: str) -> str:
    parts = name.split("/")
    while parts and parts[-1] == "":
        parts.pop()
    parts = [part for part in parts if part != "."]
    if name.startswith("/") or ".." in parts or "" in parts or "\0" in name:
        raise StartError(PACKAGE_CORRUPT, f"{name[:200]!r} in the package leads out of the lab")
    return os.path.join(*parts) if parts else "."


def _safe_link(member: tarfile.TarInfo) -> str:
    """The link's target, when it stays inside the lab at whatever depth the link lies."""
    where = os.path.dirname(_safe_name(member.name)).split("/") if "/" in member.name else []
    depth = len([part for part in where if part not in ("", ".")])
    for part in member.linkname.split("/"):
        if part == "..":
            depth -= 1
        elif part not in ("", "."):
            depth += 1
        if depth < 0:
            break
    if depth < 0 or member.linkname.startswith("/") or "\0" in member.linkname or not member.linkname:
        raise StartError(PACKAGE_CORRUPT, f"{member.name[:200]!r} in the package links out of the lab")
    return member.linkname


def _is_inside(path: str, directory: str) -> bool:
    return path == directory or path.startswith(directory + os.sep)


def _write_file(archive: tarfile.TarFile, member: tarfile.TarInfo, target: str) -> None:
    os.makedirs(os.path.dirname(target), mode=0o755, exist_ok=True)
    source = archive.extractfile(member)
    if source is None:
        raise StartError(PACKAGE_CORRUPT, f"{member.name[:200]!r} in the package has no content")
    flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_NOFOLLOW", 0)
    fd = os.open(target, flags, 0o755 if member.mode & 0o111 else 0o644)
    left = member.size
    with os.fdopen(fd, "wb") as file:
        while left > 0:
            block = source.read(min(left, 1 << 20))
            if not block:
                raise StartError(PACKAGE_CORRUPT, f"{member.name[:200]!r} in the package is cut short")
            file.write(block)
            left -= len(block)
