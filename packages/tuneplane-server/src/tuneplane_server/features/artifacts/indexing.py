"""The index of an out dir: the one its runner wrote, or, when that is missing or unusable, what a look finds."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any

from pydantic import ValidationError

from tuneplane.contract.outcome import ArtifactFile, ArtifactIndex, Checkpoint
from tuneplane.contract.words import ARTIFACTS_FILE, CAPSULE_FILE
from tuneplane.runner.artifacts import walk
from tuneplane.runner.checkpoints import find_checkpoints, problem_of, step_of
from tuneplane_server.domain.artifact_paths import is_safe
from tuneplane_server.features.artifacts.files import (
    FileGoneError,
    PathEscapeError,
    is_directory_inside,
    open_inside,
)

MAX_INDEX_BYTES = 64 * 1024 * 1024
MAX_FILES = 100_000
MAX_CHECKPOINTS = 1000
SCAN_SECONDS = 60.0
DEFAULT_GLOBS = ["checkpoints/checkpoint-*"]


@dataclass(frozen=True)
class FoundIndex:
    """`source`: runner or scan. `skipped`: entries whose path must not be used."""

    source: str
    files: list[ArtifactFile]
    checkpoints: list[Checkpoint]
    truncated: bool
    skipped: int


def read_index(out_dir: Path, job_id: str, attempt: int) -> FoundIndex:
    """Never fails for what a job wrote; raises `OSError` when the storage cannot be asked."""
    index = _written(out_dir, job_id, attempt)
    if index is None:
        return _scan(out_dir)
    return _checked(out_dir, index)


def _written(out_dir: Path, job_id: str, attempt: int) -> ArtifactIndex | None:
    content = _read(out_dir, ARTIFACTS_FILE)
    if content is None:
        return None
    try:
        index = ArtifactIndex.model_validate_json(content)
    except ValidationError:
        return None
    return index if (index.job, index.attempt) == (job_id, attempt) else None


def _scan(out_dir: Path) -> FoundIndex:
    end = monotonic() + SCAN_SECONDS
    found = list(walk(str(out_dir), lambda: monotonic() > end, MAX_FILES))
    # Names that are no UTF-8 hold lone surrogates; they are left out below, before any of them reaches a model.
    files = [ArtifactFile(path=facts.path, size=facts.size) for facts in found if is_safe(facts.path)]
    capsule = _capsule(out_dir)
    save_only_model = bool(capsule.get("jobspec", {}).get("spec", {}).get("config", {}).get("save_only_model"))
    checkpoints = [
        Checkpoint(path=path, step=step_of(path), complete=problem is None, problem=problem)
        for path in find_checkpoints(str(out_dir), _globs(capsule), MAX_CHECKPOINTS)
        if is_directory_inside(out_dir, path)
        for problem in (problem_of(str(out_dir / path), not save_only_model),)
    ]
    truncated = len(found) >= MAX_FILES or monotonic() > end
    return FoundIndex("scan", files, checkpoints, truncated, len(found) - len(files))


def _checked(out_dir: Path, index: ArtifactIndex) -> FoundIndex:
    """The runner's index without what must not be used; it lies where the job itself may write."""
    kept = {file.path: file for file in index.files[:MAX_FILES] if is_safe(file.path)}
    good = {
        # A checkpoint is mounted into a further attempt: one behind a link could be anybody's.
        one.path: one
        for one in index.checkpoints[:MAX_CHECKPOINTS]
        if is_directory_inside(out_dir, one.path)
    }
    over = len(index.files) > MAX_FILES or len(index.checkpoints) > MAX_CHECKPOINTS
    skipped = len(index.files) - len(kept) + len(index.checkpoints) - len(good)
    return FoundIndex("runner", list(kept.values()), list(good.values()), index.truncated or over, skipped)


def _capsule(out_dir: Path) -> dict[str, Any]:
    """The capsule beside the out dir, for the recipe's own checkpoint patterns; empty when it is gone."""
    try:
        value = json.loads((out_dir.parent / "capsule" / CAPSULE_FILE).read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _globs(capsule: dict[str, Any]) -> list[str]:
    globs = capsule.get("recipe", {}).get("artifacts", {}).get("checkpoints")
    good = [one for one in globs if isinstance(one, str)] if isinstance(globs, list) else []
    return good or DEFAULT_GLOBS


def _read(out_dir: Path, name: str) -> bytes | None:
    try:
        descriptor = open_inside(out_dir, name)
    except (FileGoneError, PathEscapeError):
        return None
    with os.fdopen(descriptor, "rb") as file:
        content = file.read(MAX_INDEX_BYTES + 1)
    return content if len(content) <= MAX_INDEX_BYTES else None
