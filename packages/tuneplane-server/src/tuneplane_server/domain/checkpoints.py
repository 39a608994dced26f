"""Which checkpoint a further attempt, or a run that follows, resumes from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class FoundCheckpoint:
    """`path` is relative to the attempt's out dir; `complete` says whether a run can resume from it, `problem` why not."""

    attempt: int
    path: str
    step: int
    complete: bool
    problem: str | None = None


def newest_complete(found: Iterable[FoundCheckpoint]) -> FoundCheckpoint | None:
    """The highest step of the latest attempt that has a complete checkpoint; None when there is none."""
    usable = [checkpoint for checkpoint in found if checkpoint.complete]
    return max(usable, key=_age, default=None)


def of_step(found: Iterable[FoundCheckpoint], step: int) -> FoundCheckpoint | None:
    """The checkpoint of a step: a complete one before one that is not, of the latest attempt; None when no attempt has it."""
    named = [checkpoint for checkpoint in found if checkpoint.step == step]
    return max(named, key=lambda checkpoint: (checkpoint.complete, checkpoint.attempt), default=None)


def complete_steps(found: Iterable[FoundCheckpoint]) -> list[int]:
    """The steps that a run can resume from, each once, in order."""
    return sorted({checkpoint.step for checkpoint in found if checkpoint.complete})


def next_start(
    found: Sequence[FoundCheckpoint], attempt: int, started_from: str | None
) -> FoundCheckpoint | str | None:
    """Where the attempt after `attempt` starts: at its newest complete checkpoint; else where it started itself.

    An attempt that started from an older checkpoint on request, or from another run's, must not be followed by one that starts
    elsewhere. Only where it started from nothing is an earlier attempt asked. `started_from`: an absolute path.
    """
    own = newest_complete(checkpoint for checkpoint in found if checkpoint.attempt == attempt)
    return own or started_from or newest_complete(found)


def _age(checkpoint: FoundCheckpoint) -> tuple[int, int]:
    return checkpoint.attempt, checkpoint.step
