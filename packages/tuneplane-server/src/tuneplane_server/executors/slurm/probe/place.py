"""Where a probe and its job meet: `<storage root>/projects/.probe-<id>/`, laid out with the modes of an attempt's directories.

The console writes a nonce into `console`, the job copies it into its `out/answer`. Found here it proves that both see one directory,
and that the job's user may pass and write where jobs have to.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tuneplane_server.storage.layout import StorageRoot

PREFIX = ".probe-"
LEFT_SECONDS = 3600.0  # older than any probe: what a killed one left
MAX_ANSWER_BYTES = 32 * 1024


@dataclass(frozen=True)
class ProbePlace:
    """Every method touches the disk, so call it from a thread. `probe_id`: random, part of the job's name too."""

    root: Path
    probe_id: str = field(default_factory=lambda: secrets.token_hex(8))
    nonce: str = field(default_factory=lambda: secrets.token_hex(32), repr=False)

    @property
    def path(self) -> Path:
        return self.root / "projects" / f"{PREFIX}{self.probe_id}"

    def make(self) -> None:
        """Removes old ones first. Raises OSError."""
        StorageRoot(self.root).prepare()
        for left in _left(self.root):
            shutil.rmtree(
                left, ignore_errors=True
            )  # what another user wrote on a squashed export stays, and harms nothing
        out = self.path / "out"
        out.mkdir(parents=True)
        out.chmod(0o777)  # as the launcher makes it: the job's user is not ours to choose
        with (self.path / "console").open("x", encoding="ascii") as file:
            file.write(self.nonce)
            file.flush()
            os.fsync(file.fileno())
        (self.path / "console").chmod(0o644)

    def read(self) -> dict[str, str] | None:
        """The job's answer, None as long as there is none. Raises OSError."""
        out = self.path / "out"
        if not any(path.name == "answer" for path in out.iterdir()):  # has an NFS client ask the server what is there
            return None
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        file = os.open(out / "answer", flags)
        try:
            if not stat.S_ISREG(os.fstat(file).st_mode):
                return None
            text = os.read(file, MAX_ANSWER_BYTES).decode("ascii", "replace")
        finally:
            os.close(file)
        return dict(_pairs(text))

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    for line in text.splitlines():
        name, equals, value = line.partition("=")
        if equals:
            yield name, "".join(letter if letter.isprintable() else " " for letter in value).strip()


def _left(root: Path) -> list[Path]:
    oldest = time.time() - LEFT_SECONDS
    with os.scandir(root / "projects") as entries:
        return [
            Path(entry.path)
            for entry in entries
            if entry.name.startswith(PREFIX)
            and entry.is_dir(follow_symlinks=False)
            and entry.stat(follow_symlinks=False).st_mtime < oldest
        ]
