"""What lies in the out dir: sizes, digests, checkpoints (contract/outcome.ArtifactIndex)."""

from __future__ import annotations

import hashlib
import os
import stat
from time import monotonic, sleep
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple

from tuneplane.contract.words import ARTIFACTS_API_VERSION, ARTIFACTS_FILE
from tuneplane.runner import limits
from tuneplane.runner.capsule import Capsule
from tuneplane.runner.checkpoints import find_checkpoints, problem_of, step_of

_BLOCK = 4 * 1024 * 1024
_OUR_FILES = ("outcome.", "artifacts.")


class FileFacts(NamedTuple):
    """`path` relative to the out dir; `identity` changes whenever the content may have."""

    path: str
    size: int
    changed: float
    identity: Tuple[int, int, int]


class Hasher:
    """SHA-256 by file identity, so that nothing is read twice and a file that changes is read again."""

    def __init__(self, out_dir: str) -> None:
        self._out_dir = out_dir
        self._known: Dict[str, Tuple[Tuple[int, int, int], str]] = {}

    def known(self, facts: FileFacts) -> Optional[str]:
        found = self._known.get(facts.path)
        return found[1] if found is not None and found[0] == facts.identity else None

    def hash(self, facts: FileFacts, over: Callable[[], bool], share: float = 1.0) -> Optional[str]:
        """The digest, or None when `over()` or when the file changed. `share` is the part of the time spent working."""
        digest = hashlib.sha256()
        try:
            with open(os.path.join(self._out_dir, facts.path), "rb") as file:
                while True:
                    if over():
                        return None
                    begun = monotonic()
                    block = file.read(_BLOCK)
                    if not block:
                        break
                    digest.update(block)
                    if share < 1.0:
                        sleep(min(1.0, (monotonic() - begun) * (1 / share - 1)))
                if _identity(os.fstat(file.fileno())) != facts.identity:
                    return None
        except OSError:
            return None
        self._known[facts.path] = (facts.identity, digest.hexdigest())
        return digest.hexdigest()


def walk(out_dir: str, over: Callable[[], bool], most: int = limits.INDEX_FILES) -> Iterator[FileFacts]:
    """Regular files below the out dir, at most `most`, until `over()`. Links are not followed; the runner's own records are left out."""
    count = 0
    pending = [""]
    while pending:
        directory = pending.pop()
        try:
            entries = sorted(os.scandir(os.path.join(out_dir, directory)), key=lambda entry: entry.name)
        except OSError:
            continue  # removed meanwhile
        for entry in entries:
            if count >= most or over():
                return
            path = os.path.join(directory, entry.name)
            try:
                found = entry.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISDIR(found.st_mode):
                pending.append(path)
            elif stat.S_ISREG(found.st_mode) and not (directory == "" and _is_ours(entry.name)):
                count += 1
                yield FileFacts(path, found.st_size, found.st_mtime, _identity(found))


def build_index(capsule: Capsule, hasher: Hasher, index_seconds: float, hash_seconds: float) -> Dict[str, Any]:
    """The index after the trainer's end. Digests that are not ready in time stay None; the engine completes them."""
    end = monotonic() + index_seconds
    files = list(walk(capsule.out_dir, lambda: monotonic() > end))
    truncated = len(files) >= limits.INDEX_FILES or monotonic() > end
    end = monotonic() + hash_seconds
    for facts in sorted(files, key=lambda item: item.size):
        if hasher.known(facts) is None and hasher.hash(facts, lambda: monotonic() > end) is None and monotonic() > end:
            break
    return {
        "apiVersion": ARTIFACTS_API_VERSION,
        "job": capsule.job_id,
        "attempt": capsule.attempt,
        "files": sorted((_file_entry(facts, hasher.known(facts)) for facts in files), key=lambda entry: entry["path"]),
        "checkpoints": describe_checkpoints(capsule),
        "truncated": truncated,
    }


def describe_checkpoints(capsule: Capsule) -> List[Dict[str, Any]]:
    found: List[Dict[str, Any]] = []
    for path in find_checkpoints(capsule.out_dir, capsule.checkpoint_globs, limits.CHECKPOINTS):
        problem = checkpoint_problem(capsule, path)
        entry = {"path": shown_path(path), "step": step_of(path), "complete": problem is None}
        found.append(dict(entry, problem=problem) if problem else entry)
    return found


def checkpoint_problem(capsule: Capsule, path: str) -> Optional[str]:
    expect_optimizer = not (capsule.spec.get("config") or {}).get("save_only_model")
    return problem_of(os.path.join(capsule.out_dir, path), expect_optimizer)


def artifacts_path(out_dir: str) -> str:
    return os.path.join(out_dir, ARTIFACTS_FILE)


def _file_entry(facts: FileFacts, digest: Optional[str]) -> Dict[str, Any]:
    entry: Dict[str, Any] = {"path": shown_path(facts.path), "size": facts.size}
    return dict(entry, sha256=digest) if digest else entry


def shown_path(path: str) -> str:
    """Names that are not UTF-8 are shown with replacement characters: JSON cannot carry them."""
    return os.fsencode(path).decode("utf-8", "replace")


def _identity(found: os.stat_result) -> Tuple[int, int, int]:
    return found.st_ino, found.st_size, found.st_mtime_ns


def _is_ours(name: str) -> bool:
    return name.startswith(_OUR_FILES) and (name.endswith(".json") or ".json.tmp-" in name)
