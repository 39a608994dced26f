"""The one function through which every change of a job goes.

An event that is not allowed in the job's state changes nothing and is returned as `Ignored`, to be recorded; a repeated
sighting of what is known already is `Unchanged` and recorded nowhere. The rules (design §3):

- not seeing a job is a condition, never an end; only evidence ends an attempt;
- a terminal phase is written once, as are the reason, the stop cause and the verdict of an attempt;
- `desired` goes from run to cancel and never back;
- cleanup goes none, pending, confirmed, and cards are free only after confirmed;
- a further attempt begins only after the one before it is proved gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from tuneplane_server.domain.phases import (
    Cleanup,
    Condition,
    Desired,
    JobState,
    Phase,
    Reason,
    StopCause,
    Verdict,
)

UNREACHABLE, STOPPING, LAUNCH_DELAYED = "unreachable", "stopping", "launch-delayed"


class Event(StrEnum):
    PLACED = "placed"  # its cards are held; the launch may begin
    LAUNCHED = "launched"  # the executor has created it, or had already
    RUNNING = "running"  # seen running
    UNREACHABLE = "unreachable"  # the backend could not be asked
    OUTCOME = "outcome"  # the runner has written how it ended, and is still sending what is left
    ENDED = "ended"  # evidence that it runs no more, or will never
    OVERDUE = "overdue"  # ended by its own word, and still not gone at the deadline
    CLEANED = "cleaned"  # the executor has proved that nothing is left
    SETTLED = "settled"  # all its telemetry is in, or known to be missing
    RETRIED = "retried"  # a further attempt
    CANCEL = "cancel"  # its owner does not want it any more
    TIME_LIMIT = "time-limit"  # it has run for as long as it may
    ADOPTED = "adopted"  # a console has started and found it alive in the ledger
    CONDITION = "condition"  # something is true for now
    CONDITION_CLEARED = "condition-cleared"


@dataclass(frozen=True)
class Evidence:
    """What is known with an event; each event uses what its rule names."""

    time: datetime
    handle: Mapping[str, Any] | None = None  # LAUNCHED
    verdict: Verdict | None = None  # OUTCOME, ENDED
    condition: str = ""  # CONDITION, CONDITION_CLEARED
    data: Mapping[str, Any] = field(default_factory=dict)  # kept with the recorded event


@dataclass(frozen=True)
class Change:
    state: JobState
    event: Event


@dataclass(frozen=True)
class Unchanged:
    """Nothing new: recorded nowhere."""


@dataclass(frozen=True)
class Ignored:
    """Not allowed now; recorded with the reason, a short stable word."""

    event: Event
    why: str


type Result = Change | Unchanged | Ignored
UNCHANGED = Unchanged()


def transition(job: JobState, event: Event, evidence: Evidence) -> Result:
    """What `event` makes of `job`. Pure: the time comes with the evidence."""
    return _RULES[event](job, event, evidence)


def _placed(job: JobState, event: Event, evidence: Evidence) -> Result:
    if job.phase is not Phase.QUEUED:
        return Ignored(event, f"phase-{job.phase}")
    return Change(replace(_in_phase(job, Phase.STARTING, evidence), conditions=()), event)


def _launched(job: JobState, event: Event, evidence: Evidence) -> Result:
    if job.phase is not Phase.STARTING:
        return Ignored(event, f"phase-{job.phase}")
    if job.handle is not None:
        return UNCHANGED
    assert evidence.handle is not None
    return Change(replace(_without_condition(job, LAUNCH_DELAYED), handle=dict(evidence.handle)), event)


def _running(job: JobState, event: Event, evidence: Evidence) -> Result:
    if job.phase.terminal or job.phase is Phase.QUEUED or job.cleanup is not Cleanup.NONE:
        return Ignored(event, f"phase-{job.phase}")
    seen = _without_condition(job, UNREACHABLE)
    if job.phase is Phase.STARTING:
        return Change(
            replace(_in_phase(seen, Phase.RUNNING, evidence), started_at=seen.started_at or evidence.time), event
        )
    return UNCHANGED if seen is job else Change(seen, event)


def _unreachable(job: JobState, event: Event, evidence: Evidence) -> Result:
    if job.phase.terminal or job.handle is None:
        return Ignored(event, f"phase-{job.phase}")
    seen = _with_condition(job, UNREACHABLE, evidence)
    return UNCHANGED if seen is job else Change(seen, event)


def _outcome(job: JobState, event: Event, evidence: Evidence) -> Result:
    if job.phase not in (Phase.STARTING, Phase.RUNNING):
        return Ignored(event, f"phase-{job.phase}")
    assert evidence.verdict is not None
    seen = _in_phase(_without_condition(job, UNREACHABLE), Phase.FINISHING, evidence)
    return Change(replace(seen, verdict=evidence.verdict, started_at=job.started_at or evidence.time), event)


def _ended(job: JobState, event: Event, evidence: Evidence) -> Result:
    if job.phase.terminal or job.phase is Phase.QUEUED or job.cleanup is not Cleanup.NONE:
        return Ignored(event, f"phase-{job.phase}")
    assert evidence.verdict is not None
    seen = job
    for over in (UNREACHABLE, LAUNCH_DELAYED, STOPPING):
        seen = _without_condition(seen, over)
    ended = seen if seen.phase is Phase.FINISHING else _in_phase(seen, Phase.FINISHING, evidence)
    return Change(replace(ended, verdict=job.verdict or evidence.verdict, cleanup=Cleanup.PENDING), event)


def _overdue(job: JobState, event: Event, evidence: Evidence) -> Result:
    if job.phase is not Phase.FINISHING or job.cleanup is not Cleanup.NONE:
        return Ignored(event, f"phase-{job.phase}")
    return Change(replace(job, cleanup=Cleanup.PENDING), event)


def _cleaned(job: JobState, event: Event, evidence: Evidence) -> Result:
    if job.cleanup is not Cleanup.PENDING:
        return Ignored(event, f"cleanup-{job.cleanup}")
    return Change(replace(job, cleanup=Cleanup.CONFIRMED), event)


def _settled(job: JobState, event: Event, evidence: Evidence) -> Result:
    if job.phase is not Phase.FINISHING or job.verdict is None or job.cleanup is Cleanup.NONE:
        return Ignored(event, f"phase-{job.phase}")
    return Change(_end(job, job.verdict, evidence), event)


def _retried(job: JobState, event: Event, evidence: Evidence) -> Result:
    if job.phase is not Phase.FINISHING or job.verdict is None or job.verdict.phase is Phase.SUCCEEDED:
        return Ignored(event, f"phase-{job.phase}")
    if job.cleanup is not Cleanup.CONFIRMED:
        return Ignored(event, f"cleanup-{job.cleanup}")
    if job.desired is Desired.CANCEL:
        return Ignored(event, "cancelled")
    fresh = JobState(Phase.QUEUED, evidence.time, attempt=job.attempt + 1, started_at=job.started_at)
    return Change(fresh, event)


def _cancel(job: JobState, event: Event, evidence: Evidence) -> Result:
    if job.phase.terminal:
        return Ignored(event, f"phase-{job.phase}")
    if job.desired is Desired.CANCEL:
        return Ignored(event, "already-cancelled")
    wanted = replace(job, desired=Desired.CANCEL)
    if job.phase is Phase.QUEUED:
        return Change(_end(replace(wanted, stop_cause=StopCause.CANCEL), _cancelled(), evidence), event)
    if job.verdict is not None:  # it has ended by itself; what is left to cancel is a further attempt
        return Change(wanted, event)
    stopping = _with_condition(wanted, STOPPING, evidence)
    return Change(replace(stopping, stop_cause=job.stop_cause or StopCause.CANCEL), event)


def _time_limit(job: JobState, event: Event, evidence: Evidence) -> Result:
    if job.phase not in (Phase.STARTING, Phase.RUNNING) or job.stop_cause is not None:
        return Ignored(event, f"phase-{job.phase}" if job.stop_cause is None else f"stopping-{job.stop_cause}")
    return Change(replace(_with_condition(job, STOPPING, evidence), stop_cause=StopCause.TIME_LIMIT), event)


def _adopted(job: JobState, event: Event, evidence: Evidence) -> Result:
    if job.phase.terminal:
        return Ignored(event, f"phase-{job.phase}")
    return Change(job, event)


def _condition(job: JobState, event: Event, evidence: Evidence) -> Result:
    seen = _with_condition(job, evidence.condition, evidence)
    return UNCHANGED if seen is job else Change(seen, event)


def _condition_cleared(job: JobState, event: Event, evidence: Evidence) -> Result:
    cleared = _without_condition(job, evidence.condition)
    return UNCHANGED if cleared is job else Change(cleared, event)


_RULES: dict[Event, Callable[[JobState, Event, Evidence], Result]] = {
    Event.PLACED: _placed,
    Event.LAUNCHED: _launched,
    Event.RUNNING: _running,
    Event.UNREACHABLE: _unreachable,
    Event.OUTCOME: _outcome,
    Event.ENDED: _ended,
    Event.OVERDUE: _overdue,
    Event.CLEANED: _cleaned,
    Event.SETTLED: _settled,
    Event.RETRIED: _retried,
    Event.CANCEL: _cancel,
    Event.TIME_LIMIT: _time_limit,
    Event.ADOPTED: _adopted,
    Event.CONDITION: _condition,
    Event.CONDITION_CLEARED: _condition_cleared,
}


def _cancelled() -> Verdict:
    return Verdict(Phase.CANCELLED, Reason("cancelled"), from_outcome=False)


def _in_phase(job: JobState, phase: Phase, evidence: Evidence) -> JobState:
    return replace(job, phase=phase, phase_since=evidence.time)


def _end(job: JobState, verdict: Verdict, evidence: Evidence) -> JobState:
    """The terminal state. Conditions of a life that is over go with it."""
    ended = _in_phase(job, verdict.phase, evidence)
    return replace(ended, verdict=verdict, reason=verdict.reason, conditions=(), finished_at=evidence.time)


def _with_condition(job: JobState, kind: str, evidence: Evidence) -> JobState:
    """The same object when it has that condition already: `since` is when it began."""
    if job.has_condition(kind):
        return job
    condition = Condition(kind, evidence.time, dict(evidence.data))
    return replace(job, conditions=(*job.conditions, condition))


def _without_condition(job: JobState, kind: str) -> JobState:
    """The same object when it has no such condition."""
    if not job.has_condition(kind):
        return job
    return replace(job, conditions=tuple(item for item in job.conditions if item.type != kind))
