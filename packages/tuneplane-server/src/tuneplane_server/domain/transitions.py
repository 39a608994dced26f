"""The one function through which every change of a job goes.

An event that is not allowed in the job's state changes nothing and is returned as `Ignored`, to be recorded; a repeated
sighting of what is known already is `Unchanged` and recorded nowhere. The rules (design §3):

- not seeing a job is a condition, never an end; only evidence ends an attempt;
- a terminal phase is written once, as are the reason, the stop cause and the verdict of an attempt;
- `desired` goes from run to cancel and never back;
- cleanup goes none, pending, confirmed, and cards are free only after confirmed;
- a further attempt begins only after the one before it is proved gone;
- a paused job is a queued one that is held back: its attempt is stopped with its grace, proved gone, and followed by another
  when somebody resumes it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from tuneplane_server.domain.phases import (
    Approval,
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
# Launched, and not begun: the executor's own queue holds it, or has let it go.
EXECUTOR_QUEUE, EXECUTOR_STARTING = "executor-queue", "executor-starting"
_BEFORE_THE_START = (EXECUTOR_QUEUE, EXECUTOR_STARTING)
# The conditions that a terminal phase may have.
AFTER_THE_END = frozenset({"cleanup-delayed", "logs-delayed", "handler-failing"})
PAUSED = "paused"  # the reason of an attempt that was stopped so that the job can wait


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
    PARKED = "parked"  # its paused attempt is gone; it waits in the queue
    PAUSE = "pause"  # its owner wants it to wait
    RESUME = "resume"  # its owner wants it to go on
    APPROVE = "approve"  # an administrator lets it run
    REJECT = "reject"  # an administrator does not
    CANCEL = "cancel"  # its owner does not want it any more
    TIME_LIMIT = "time-limit"  # it has run for as long as it may
    POLICY_STOP = "policy-stop"  # a policy ends it, for `stop_cause`
    ADOPTED = "adopted"  # a console has started and found it alive in the ledger
    CONDITION = "condition"  # something is true for now
    CONDITION_CLEARED = "condition-cleared"


@dataclass(frozen=True)
class Evidence:
    """What is known with an event; each event uses what its rule names."""

    time: datetime
    handle: Mapping[str, Any] | None = (
        None  # LAUNCHED; RUNNING, where the executor says only then which machines it is on
    )
    verdict: Verdict | None = None  # OUTCOME, ENDED
    condition: str = ""  # CONDITION, CONDITION_CLEARED
    stop_cause: StopCause | None = None  # POLICY_STOP
    not_before: datetime | None = None  # RETRIED: how long the further attempt rests
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
    if job.held_back is not None:
        return Ignored(event, job.held_back)
    return Change(replace(_in_phase(job, Phase.STARTING, evidence), conditions=(), not_before=None), event)


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
    if evidence.handle is not None and job.handle is not None and evidence.handle != job.handle:
        seen = replace(seen, handle=dict(evidence.handle))
    if job.phase is Phase.STARTING:
        seen = _begun(seen)
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
    seen = _in_phase(_begun(_without_condition(job, UNREACHABLE)), Phase.FINISHING, evidence)
    return Change(replace(seen, verdict=evidence.verdict, started_at=job.started_at or evidence.time), event)


def _ended(job: JobState, event: Event, evidence: Evidence) -> Result:
    if job.phase.terminal or job.phase is Phase.QUEUED or job.cleanup is not Cleanup.NONE:
        return Ignored(event, f"phase-{job.phase}")
    assert evidence.verdict is not None
    seen = _begun(job)
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
    if _was_paused(job) and job.desired is not Desired.CANCEL:
        return Ignored(event, PAUSED)  # it is parked, not over
    if _was_paused(
        job
    ):  # cancelled while it was being stopped for the pause: the attempt's own verdict stays what it was
        return Change(replace(_end(job, _cancelled(), evidence), verdict=job.verdict), event)
    return Change(_end(job, _with_why_no_more(job.verdict, evidence), evidence), event)


def _retried(job: JobState, event: Event, evidence: Evidence) -> Result:
    if job.phase is not Phase.FINISHING or job.verdict is None or job.verdict.phase is Phase.SUCCEEDED:
        return Ignored(event, f"phase-{job.phase}")
    if job.cleanup is not Cleanup.CONFIRMED:
        return Ignored(event, f"cleanup-{job.cleanup}")
    if job.desired is Desired.CANCEL:
        return Ignored(event, "cancelled")
    if _was_paused(job):
        return Ignored(event, PAUSED)
    return Change(replace(_next_attempt(job, evidence), not_before=evidence.not_before), event)


def _parked(job: JobState, event: Event, evidence: Evidence) -> Result:
    if job.phase is not Phase.FINISHING or not _was_paused(job):
        return Ignored(event, f"phase-{job.phase}")
    if job.cleanup is not Cleanup.CONFIRMED:
        return Ignored(event, f"cleanup-{job.cleanup}")
    if job.desired is Desired.CANCEL:
        return Ignored(event, "cancelled")
    return Change(_next_attempt(job, evidence), event)


def _pause(job: JobState, event: Event, evidence: Evidence) -> Result:
    if job.phase.terminal:
        return Ignored(event, f"phase-{job.phase}")
    if job.desired is Desired.CANCEL:
        return Ignored(event, "cancelled")
    if job.paused:
        return Ignored(event, "already-paused")
    held = replace(job, paused=True)
    if job.phase is Phase.QUEUED or job.verdict is not None:  # nothing runs, or it has ended by itself already
        return Change(held, event)
    stopping = _with_condition(held, STOPPING, evidence)
    return Change(replace(stopping, stop_cause=job.stop_cause or StopCause.PAUSE), event)


def _resume(job: JobState, event: Event, evidence: Evidence) -> Result:
    """An attempt that is being stopped for the pause still ends; the next one begins at once."""
    if job.phase.terminal:
        return Ignored(event, f"phase-{job.phase}")
    if not job.paused:
        return Ignored(event, "not-paused")
    return Change(replace(job, paused=False), event)


def _approve(job: JobState, event: Event, evidence: Evidence) -> Result:
    if job.phase is not Phase.QUEUED or job.approval is not Approval.PENDING:
        return Ignored(event, f"phase-{job.phase}" if job.phase.terminal else f"approval-{job.approval}")
    return Change(replace(job, approval=Approval.GIVEN), event)


def _reject(job: JobState, event: Event, evidence: Evidence) -> Result:
    if job.phase is not Phase.QUEUED or job.approval is not Approval.PENDING:
        return Ignored(event, f"phase-{job.phase}" if job.phase.terminal else f"approval-{job.approval}")
    verdict = Verdict(
        Phase.CANCELLED, Reason("approval-refused", {"detail": str(evidence.data.get("why", ""))}), from_outcome=False
    )
    return Change(_end(job, verdict, evidence), event)


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
    return _stop(job, event, evidence, StopCause.TIME_LIMIT)


def _policy_stop(job: JobState, event: Event, evidence: Evidence) -> Result:
    assert evidence.stop_cause is not None
    return _stop(job, event, evidence, evidence.stop_cause)


def _stop(job: JobState, event: Event, evidence: Evidence, cause: StopCause) -> Result:
    if job.phase not in (Phase.STARTING, Phase.RUNNING) or job.stop_cause is not None:
        return Ignored(event, f"phase-{job.phase}" if job.stop_cause is None else f"stopping-{job.stop_cause}")
    return Change(replace(_with_condition(job, STOPPING, evidence), stop_cause=cause), event)


def _adopted(job: JobState, event: Event, evidence: Evidence) -> Result:
    if job.phase.terminal:
        return Ignored(event, f"phase-{job.phase}")
    return Change(job, event)


def _condition(job: JobState, event: Event, evidence: Evidence) -> Result:
    """What a look saw just before the end would stay on the job for good: only clearing it away may still have its troubles."""
    if job.phase.terminal and evidence.condition not in AFTER_THE_END:
        return Ignored(event, f"phase-{job.phase}")
    if evidence.condition in _BEFORE_THE_START and job.phase is not Phase.STARTING:
        return Ignored(event, f"phase-{job.phase}")
    seen = _with_condition(job, evidence.condition, evidence)
    if seen is job and evidence.condition == EXECUTOR_QUEUE:
        seen = _with_news(job, EXECUTOR_QUEUE, evidence)
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
    Event.PARKED: _parked,
    Event.PAUSE: _pause,
    Event.RESUME: _resume,
    Event.APPROVE: _approve,
    Event.REJECT: _reject,
    Event.CANCEL: _cancel,
    Event.TIME_LIMIT: _time_limit,
    Event.POLICY_STOP: _policy_stop,
    Event.ADOPTED: _adopted,
    Event.CONDITION: _condition,
    Event.CONDITION_CLEARED: _condition_cleared,
}


def _cancelled() -> Verdict:
    return Verdict(Phase.CANCELLED, Reason("cancelled"), from_outcome=False)


def _with_why_no_more(verdict: Verdict, evidence: Evidence) -> Verdict:
    """SETTLED may say why no further attempt is made although the reason allows one: `domain.retries.Enough`."""
    why = {name: evidence.data[name] for name in ("repeated", "attempts") if name in evidence.data}
    if verdict.reason is None or not why:
        return verdict
    return replace(verdict, reason=Reason(verdict.reason.code, {**verdict.reason.data, **why}))


def _was_paused(job: JobState) -> bool:
    """Whether its attempt was stopped only so that the job can wait."""
    return job.verdict is not None and job.verdict.reason is not None and job.verdict.reason.code == PAUSED


def _next_attempt(job: JobState, evidence: Evidence) -> JobState:
    return JobState(
        Phase.QUEUED,
        evidence.time,
        attempt=job.attempt + 1,
        paused=job.paused,
        approval=job.approval,
        started_at=job.started_at,
    )


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


def _with_news(job: JobState, kind: str, evidence: Evidence) -> JobState:
    """The same condition, of which more or something else is known now; the same object when it is not."""
    data = dict(evidence.data)
    known = tuple(replace(item, data=data) if item.type == kind else item for item in job.conditions)
    return job if known == job.conditions else replace(job, conditions=known)


def _begun(job: JobState) -> JobState:
    """It waits for its start no more."""
    for kind in _BEFORE_THE_START:
        job = _without_condition(job, kind)
    return job


def _without_condition(job: JobState, kind: str) -> JobState:
    """The same object when it has no such condition."""
    if not job.has_condition(kind):
        return job
    return replace(job, conditions=tuple(item for item in job.conditions if item.type != kind))
