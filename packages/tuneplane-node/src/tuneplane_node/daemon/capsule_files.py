"""Whether the files of a capsule are here as the console wrote them."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections.abc import Mapping
from pathlib import Path

from tuneplane_node.engine.problems import NodeError

MAX_FILE_BYTES = 512 * 1024 * 1024
MAX_FILES = 64
LOOKS, PAUSE_SECONDS = 6, 1.0
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}\Z", re.ASCII)


def check_capsule(
    root: Path, directory: str, files: Mapping[str, str], *, looks: int = LOOKS, pause: float = PAUSE_SECONDS
) -> list[NodeError]:
    """Every file of `directory` (below the storage root) that is missing (`capsule-unreadable`) or another one
    (`capsule-altered`). `files`: name -> SHA-256 in hex. Looks again for a while: on NFS what another machine wrote may come late,
    and old content of a name may be shown. Blocking."""
    place = Path(os.path.normpath(directory))
    if (
        not directory.startswith("/")
        or ".." in directory.split("/")
        or not place.is_relative_to(os.path.normpath(root))
    ):
        return [NodeError("path-outside-storage", path=directory[:500], root=root)]
    wrong = [name for name, digest in files.items() if not (_NAME.match(name) and _SHA256.match(digest))]
    if wrong or len(files) > MAX_FILES:
        return [NodeError("request-invalid", field="files", value=str(wrong)[:200])]
    problems: dict[str, NodeError] = {}
    waiting = dict(files)
    for number in range(looks):
        if number:
            time.sleep(pause)
        problems = {}
        for name, digest in waiting.items():
            problem = _check_file(place / name, digest)
            if problem is not None:
                problems[name] = problem
        waiting = {name: files[name] for name in problems}
        if not waiting:
            break
    return list(problems.values())


def _check_file(path: Path, digest: str) -> NodeError | None:
    try:
        found = _digest(path)
    except OSError as problem:
        return NodeError("capsule-unreadable", str(problem), path=path)
    if found == digest:
        return None
    return NodeError("capsule-altered", f"SHA-256 {found} in place of {digest}", path=path)


def _digest(path: Path) -> str:
    """SHA-256 of a plain file, not of what a link leads to. Raises OSError."""
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(file, "rb") as opened:
        found = os.fstat(opened.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_FILE_BYTES:
            raise OSError(f"{path} is no plain file of at most {MAX_FILE_BYTES} bytes")
        return hashlib.file_digest(opened, "sha256").hexdigest()
