"""What a sweep does next, from what is known of its trials. Pure: which variant a trial gets and which trials are stopped early is
decided elsewhere; here is when a trial begins, how it ended, and when the sweep is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tuneplane_server.domain.phases import Phase

# So many trials that failed one after the other are no accident: what they have in common is mended before more are begun.
FAILURES_IN_A_ROW = 5
STOPPED_EARLY = "sweep-pruned"  # the reason of a run that its sweep ended


class SweepState(StrEnum):
    RUNNING = "running"
    STOPPING = "stopping"  # no more trials are begun, for something is in the way; those that live go on to their end
    CANCELLING = "cancelling"  # its live trials are being ended
    DONE = "done"
    STOPPED = "stopped"  # what was in the way no waiting mends; once it is mended, the sweep can be resumed
    CANCELLED = "cancelled"


ACTIVE = (SweepState.RUNNING, SweepState.STOPPING, SweepState.CANCELLING)
_ENDS = {
    SweepState.RUNNING: SweepState.DONE,
    SweepState.STOPPING: SweepState.STOPPED,
    SweepState.CANCELLING: SweepState.CANCELLED,
}


class TrialState(StrEnum):
    PLANNED = "planned"  # its variant is known, its job is not there yet
    SUBMITTED = "submitted"  # its job lives
    SUCCEEDED = "succeeded"
    PRUNED = "pruned"  # stopped early: others were better at the same step
    FAILED = "failed"
    CANCELLED = "cancelled"


OVER = frozenset({TrialState.SUCCEEDED, TrialState.PRUNED, TrialState.FAILED, TrialState.CANCELLED})


@dataclass(frozen=True)
class Trial:
    """`value`: the objective as it was reported last, None when it was not, or is no number. `ended_at`: None while it is not over."""

    number: int
    state: TrialState
    value: float | None = None
    ended_at: datetime | None = None


@dataclass(frozen=True)
class Turn:
    """The state that a sweep comes to. `failures`: so many trials in a row that it begins no more; 0 for every other turn."""

    state: SweepState
    failures: int = 0


def ended_as(phase: Phase, reason: str | None) -> TrialState:
    """What the end of its job makes of a trial; `phase` is terminal, `reason` its code."""
    if phase is Phase.SUCCEEDED:
        return TrialState.SUCCEEDED
    if phase is Phase.CANCELLED:
        return TrialState.PRUNED if reason == STOPPED_EARLY else TrialState.CANCELLED
    return TrialState.FAILED


def to_begin(trials: Sequence[Trial], total: int, max_parallel: int) -> list[int]:
    """Numbers of the trials to submit now: those that are planned first, then new ones, at most `max_parallel` living."""
    live = sum(trial.state is TrialState.SUBMITTED for trial in trials)
    planned = [trial.number for trial in trials if trial.state is TrialState.PLANNED]
    known = {trial.number for trial in trials}
    new = (number for number in range(total) if number not in known)
    room = max(0, max_parallel - live)
    chosen = sorted(planned)[:room]
    while len(chosen) < room and (number := next(new, None)) is not None:
        chosen.append(number)
    return chosen


def turn(state: SweepState, trials: Sequence[Trial], total: int) -> Turn | None:
    """What becomes of a sweep that is at work; None while it goes on as it is."""
    left = len(trials) < total or any(trial.state not in OVER for trial in trials)
    failures = failures_in_a_row(trials)
    if state is SweepState.RUNNING and left and failures >= FAILURES_IN_A_ROW:
        return Turn(SweepState.STOPPING, failures)
    if state is SweepState.RUNNING and left:
        return None
    live = any(trial.state is TrialState.SUBMITTED for trial in trials)
    return None if live else Turn(_ENDS[state])


def failures_in_a_row(trials: Iterable[Trial]) -> int:
    """How many of the trials that ended last failed, up to the last one that did not."""
    ended = [trial for trial in trials if trial.ended_at is not None]
    count = 0
    for trial in sorted(ended, key=lambda trial: (trial.ended_at, trial.number), reverse=True):
        if trial.state is not TrialState.FAILED:
            break
        count += 1
    return count


def best(trials: Iterable[Trial], goal: str) -> Trial | None:
    """The trial with the best value of those that succeeded; the earlier one of equals."""
    good = [trial for trial in trials if trial.state is TrialState.SUCCEEDED and trial.value is not None]
    return min(good, key=lambda trial: (worth(trial, goal), trial.number), default=None)


def worth(trial: Trial, goal: str) -> tuple[bool, float]:
    """Sorts trials by their value, the best first, those without one last."""
    if trial.value is None:
        return True, 0.0
    return False, -trial.value if goal == "max" else trial.value


def again(state: TrialState) -> bool:
    """Whether a sweep that is resumed runs such a trial anew."""
    return state in (TrialState.FAILED, TrialState.CANCELLED)


def rung(min_steps: int, factor: int, passed: int) -> int:
    """The step at which a trial that has `passed` so many comparisons meets the next one."""
    return min_steps * factor**passed


def trial_key(sweep_id: str, number: int, tries: int) -> str:
    """The idempotency key of a trial's job: whoever submits it again, after whatever crash, gets the job that is there."""
    return f"sweep:{sweep_id}:{number}:{tries}"
