"""What the build of an environment says: everything into a file, to the person who waits only what tells them something."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from tuneplane.i18n import _

Progress = Callable[[str], None]

LOG_BYTES = 16 << 20  # pip says some kilobytes; a compiler may say anything
# pip's words are the same in every language, and what a download is has been told by this line since pip 1.
_DOWNLOAD = re.compile(r"\s*Downloading (?P<file>\S+) \((?P<size>[\d.]+ [kMG]?B)\)$")
_METADATA = ".metadata"  # a few kilobytes of each package, asked for before the package
_COMPILING = re.compile(r"Building wheels for collected packages: (?P<names>.+)$")
_UNPACKING = re.compile(r"Installing collected packages: (?P<names>.+)$")


class BuildLog:
    """Writes each line of the tools to the file of a runtime, and passes on the few that show how far they are."""

    def __init__(self, path: Path, file: BinaryIO, progress: Progress) -> None:
        self.path = path
        self._file = file
        self._room = LOG_BYTES
        self._progress = progress

    def write(self, line: str) -> None:
        """Raises OSError when the disk is full."""
        self._keep(line)
        told = in_short(line)
        if told:
            self._progress(told)

    def command(self, argv: Sequence[str]) -> None:
        self._keep("$ " + " ".join(argv))

    def _keep(self, line: str) -> None:
        data = (line + "\n").encode(errors="replace")[: self._room]
        self._room -= len(data)
        self._file.write(data)


@contextmanager
def build_log(path: Path, progress: Progress) -> Iterator[BuildLog]:
    """A new log in place of an older one, readable by its owner only: pip's words hold addresses of indexes."""
    path.unlink(missing_ok=True)
    with path.open("xb", buffering=0) as file:
        path.chmod(0o600)
        yield BuildLog(path, file, progress)


def in_short(line: str) -> str:
    """What a line of pip means to who waits, in the current language; nothing for most lines.

    >>> in_short("  Downloading torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl (888.1 MB)")
    'Downloading torch 2.13.0 (888.1 MB)'
    """
    download = _DOWNLOAD.match(line)
    if download and not download["file"].endswith(_METADATA):
        return _("Downloading {package} ({size})").format(package=_package(download["file"]), size=download["size"])
    if compiling := _COMPILING.match(line):
        return _("Compiling {names}").format(names=compiling["names"][:200])
    if unpacking := _UNPACKING.match(line):
        return _("Unpacking {count} packages").format(count=unpacking["names"].count(",") + 1)
    return ""


def _package(file: str) -> str:
    """`trl 1.16.0` of the name or address of a wheel or a source archive."""
    name = file.rpartition("/")[2]
    if name.endswith(".whl"):
        parts = name.split("-")
        return f"{parts[0]} {parts[1]}" if len(parts) >= 5 else name
    stem = re.sub(r"\.(tar\.(gz|bz2|xz)|zip|tgz)$", "", name)
    project, dash, version = stem.rpartition("-")
    return f"{project} {version}" if dash else name
