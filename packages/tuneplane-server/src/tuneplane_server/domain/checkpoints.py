"""Which checkpoint a further attempt resumes from."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class FoundCheckpoint:
    """`path` is relative to the attempt's out dir; `complete` says whether a run can resume from it."""

    attempt: int
    path: str
    step: int
    complete: bool


def newest_complete(found: Iterable[FoundCheckpoint]) -> FoundCheckpoint | None:
    """The highest step of the latest attempt that has a complete checkpoint; None when there is none."""
    usable = [checkpoint for checkpoint in found if checkpoint.complete]
    return max(usable, key=lambda checkpoint: (checkpoint.attempt, checkpoint.step), default=None)
