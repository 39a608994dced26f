"""This installation: its lasting id, and the lock that keeps a second console off the same data directory."""

from __future__ import annotations

import fcntl
import os
import secrets
from pathlib import Path
from typing import IO

from tuneplane.i18n import _

ID_FILE, LOCK_FILE = "instance-id", "console.lock"


class AlreadyRunningError(Exception):
    """Another console serves from the same data directory."""


def instance_id(state_dir: Path) -> str:
    """The id under which this installation's containers and leases are known; made once, 12 characters."""
    file = state_dir / ID_FILE
    if not file.exists():
        state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = file.with_name(f"{ID_FILE}.{os.getpid()}.{secrets.token_hex(4)}")
        draft.write_text(secrets.token_hex(6) + "\n", encoding="ascii")
        try:
            os.link(draft, file)
        except FileExistsError:
            pass  # another process was first; its id is ours
        finally:
            draft.unlink()
    return file.read_text(encoding="ascii").strip()


class InstanceLock:
    """Held by the serving console; the kernel frees it however that process ends. Admin commands do not take it."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / LOCK_FILE
        self._file: IO[str] | None = None

    def acquire(self) -> None:
        """Raises `AlreadyRunningError`."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = self._path.open("a+", encoding="ascii")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read(32).strip() or "?"
            file.close()
            raise AlreadyRunningError(
                _(
                    "another console (process {pid}) already serves from {directory}; stop it, or set TUNEPLANE_DATA_DIR to another directory"
                ).format(pid=holder, directory=self._path.parent)
            ) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        self._file = file

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
