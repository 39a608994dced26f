"""This node: its lasting id, and the lock that keeps a second daemon off the same state."""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from pathlib import Path
from typing import IO

from tuneplane_node.engine.problems import NodeError

ID_FILE, LOCK_FILE = "node-id", "daemon.lock"
_ID = re.compile(r"[0-9a-f]{12}\Z")


def node_id(state_root: Path) -> str:
    """Made once, 12 characters; what containers of this node are labelled with. Raises NodeError `state-unusable`."""
    file = state_root / ID_FILE
    try:
        if not file.exists():
            _make(file)
        found = file.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as problem:
        raise NodeError("state-unusable", path=state_root, why=str(problem)) from problem
    if _ID.match(found) is None:
        # Another id would make strangers of the containers that run here: nothing is invented.
        raise NodeError("state-unusable", path=state_root, why=f"{file}: {found[:40]!r}")
    return found


class DaemonLock:
    """Held by the serving daemon; the kernel frees it however that process ends."""

    def __init__(self, state_root: Path) -> None:
        self._path = state_root / LOCK_FILE
        self._file: IO[str] | None = None

    def acquire(self) -> None:
        """Raises NodeError `daemon-running` or `state-unusable`."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            file = self._path.open("a+", encoding="ascii")
        except OSError as problem:
            raise NodeError("state-unusable", path=self._path.parent, why=str(problem)) from problem
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            holder = file.read(32).strip() or "?"
            file.close()
            raise NodeError("daemon-running", pid=holder, path=self._path.parent) from None
        file.truncate(0)
        file.write(f"{os.getpid()}\n")
        file.flush()
        self._file = file

    def release(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


def _make(file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = file.with_name(f"{ID_FILE}.{os.getpid()}.{secrets.token_hex(4)}")
    with draft.open("x", encoding="ascii") as opened:
        opened.write(secrets.token_hex(6) + "\n")
        opened.flush()
        os.fsync(opened.fileno())  # a crash must not leave an empty one: its containers would be nobody's
    try:
        os.link(draft, file)
    except FileExistsError:
        pass  # another process was first; its id is ours
    finally:
        draft.unlink()
