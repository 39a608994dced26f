"""Write a planned package: a tar.gz whose bytes depend on the files alone, and whose digest is that of the bytes written.

Every byte that goes into the archive passes the secret scanner on its way, so what was checked is what is sent. A file that changed
since the plan was made is refused instead of being packed half old, half new.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import stat
import tarfile
from typing import IO

from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane.i18n import _
from tuneplane.lab.plan import PackagePlan, PackedFile
from tuneplane.lab.secrets import SecretScanner
from tuneplane.quoted_words import system_words

# A fixed moment instead of the files' own times: 1980-01-01, the earliest that every archive format can hold.
FIXED_TIME = 315532800
_CHUNK = 1024 * 1024


def write_package(plan: PackagePlan, file: IO[bytes]) -> str:
    """Write the tar.gz to `file` and return its SHA-256 (hex). The same files give the same bytes.

    Raises `RefusedError` (`package-secret` with file and line, `package-mismatch` when a file changed meanwhile); what was written
    to `file` until then is worthless.
    """
    refusals: list[Refusal] = []
    digest = _Digesting(file)
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=digest, compresslevel=6, mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for packed in plan.files:
            refusals.extend(_add(archive, packed))
    if refusals:
        raise RefusedError(refusals)
    return digest.hexdigest()


class _Digesting:
    """A file that only writes, and hashes what it writes."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._hash = hashlib.sha256()

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        return self._file.write(data)

    def flush(self) -> None:
        self._file.flush()

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


class _Source:
    """One open file: gives its bytes to the archive and shows them to the scanner."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.scanner = SecretScanner()

    def read(self, size: int = _CHUNK) -> bytes:
        data = os.read(self._descriptor, min(size, _CHUNK))
        self.scanner.feed(data)
        return data


def _add(archive: tarfile.TarFile, packed: PackedFile) -> list[Refusal]:
    info = tarfile.TarInfo(packed.name)
    info.size, info.mtime = packed.size, FIXED_TIME
    info.mode = 0o755 if packed.executable else 0o644
    descriptor = _open(packed)
    try:
        source = _Source(descriptor)
        try:
            archive.addfile(info, source)  # type: ignore[arg-type]  # needs read() alone
        except OSError as error:  # tarfile's word for "shorter than planned"
            raise _changed(packed) from error
        if os.read(descriptor, 1) or not _same(packed, os.fstat(descriptor)):
            raise _changed(packed)
        source.scanner.close()
    finally:
        os.close(descriptor)
    return [
        Refusal(
            "package-secret",
            _("{name} holds what looks like {what}").format(name=packed.name, what=finding.what),
            _("take it out, or add the file to .gitignore; a false alarm: put tuneplane:allow-secret on that line"),
            file=str(packed.path),
            line=finding.line,
        )
        for finding in source.scanner.findings
    ]


def _open(packed: PackedFile) -> int:
    """Without following a link and without waiting on a FIFO that took the file's place."""
    try:
        descriptor = os.open(packed.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        message = _("{name} cannot be read: {why}").format(name=packed.name, why=system_words(error))
        raise RefusedError([Refusal("file-missing", message, file=str(packed.path))]) from None
    if _same(packed, os.fstat(descriptor)):
        return descriptor
    os.close(descriptor)
    raise _changed(packed)


def _same(packed: PackedFile, info: os.stat_result) -> bool:
    identity = (info.st_dev, info.st_ino, info.st_mtime_ns)
    return stat.S_ISREG(info.st_mode) and identity == packed.identity and info.st_size == packed.size


def _changed(packed: PackedFile) -> RefusedError:
    message = _("{name} changed while it was being packed").format(name=packed.name)
    return RefusedError([Refusal("package-mismatch", message, _("submit again"), file=str(packed.path))])
