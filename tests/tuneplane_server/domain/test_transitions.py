"""The ledger's rules: an exhaustive matrix of what each phase allows, and properties over random histories."""

from __future__ import annotations

import itertools
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneplane_server.domain.phases import (
    TERMINAL,
    Approval,
    Cleanup,
    Desired,
    JobState,
    Phase,
    Reason,
    StopCause,
    Verdict,
)
from tuneplane_server.domain.transitions import Change, Event, Evidence, Ignored, Result, Unchanged, transition

START = datetime(2026, 1, 1, tzinfo=UTC)
HANDLE = {"name": "tp-1"}
SUCCEEDED = Verdict(Phase.SUCCEEDED, None, from_outcome=True)
FAILED = Verdict(Phase.FAILED, Reason("trainer-failed", {"exit_code": 1}), from_outcome=True)
LOST = Verdict(Phase.LOST, Reason("container-lost"), from_outcome=False)
PAUSED = Verdict(Phase.CANCELLED, Reason("paused"), from_outcome=True)
CANCELLED = Verdict(Phase.CANCELLED, Reason("cancelled"), from_outcome=False)


def at(seconds: int = 1, **known: Any) -> Evidence:
    return Evidence(START + timedelta(seconds=seconds), **known)


def after(job: JobState, event: Event, evidence: Evidence) -> JobState:
    result = transition(job, event, evidence)
    assert isinstance(result, Change), result
    return result.state


QUEUED = JobState(Phase.QUEUED, START)
STARTING = after(QUEUED, Event.PLACED, at())
LAUNCHED = after(STARTING, Event.LAUNCHED, at(handle=HANDLE))
RUNNING = after(LAUNCHED, Event.RUNNING, at(2))
DRAINING = after(RUNNING, Event.OUTCOME, at(3, verdict=SUCCEEDED))
ENDED = after(RUNNING, Event.ENDED, at(3, verdict=FAILED))
CLEANED = after(ENDED, Event.CLEANED, at(4))
HELD = after(QUEUED, Event.PAUSE, at(1))
PAUSING = after(RUNNING, Event.PAUSE, at(3))
PARKABLE = after(after(PAUSING, Event.ENDED, at(4, verdict=PAUSED)), Event.CLEANED, at(5))
UNAPPROVED = replace(QUEUED, approval=Approval.PENDING)
DONE = {
    phase: after(after(RUNNING, Event.ENDED, at(3, verdict=verdict)), Event.SETTLED, at(4))
    for phase, verdict in (
        (Phase.SUCCEEDED, SUCCEEDED),
        (Phase.FAILED, FAILED),
        (Phase.CANCELLED, CANCELLED),
        (Phase.LOST, LOST),
    )
}
STATES = {
    "queued": QUEUED,
    "starting": STARTING,
    "launched": LAUNCHED,
    "running": RUNNING,
    "draining": DRAINING,
    "ended": ENDED,
    "cleaned": CLEANED,
    "held": HELD,
    "pausing": PAUSING,
    "parkable": PARKABLE,
    "unapproved": UNAPPROVED,
    **{str(phase): state for phase, state in DONE.items()},
}
TERMINALS = {str(phase) for phase in TERMINAL}
ALL = set(STATES)
# event -> the states in which it changes something; in every other it is ignored or nothing new
ALLOWED = {
    Event.PLACED: {"queued"},
    Event.LAUNCHED: {"starting"},
    Event.RUNNING: {"starting", "launched"},
    Event.UNREACHABLE: {"launched", "running", "draining", "ended", "cleaned", "pausing", "parkable"},
    Event.OUTCOME: {"starting", "launched", "running", "pausing"},
    Event.ENDED: {"starting", "launched", "running", "draining", "pausing"},
    Event.OVERDUE: {"draining"},
    Event.CLEANED: {"ended", *TERMINALS},
    Event.SETTLED: {"ended", "cleaned"},
    Event.RETRIED: {"cleaned"},
    Event.PARKED: {"parkable"},
    Event.PAUSE: ALL - TERMINALS - {"held", "pausing", "parkable"},
    Event.RESUME: {"held", "pausing", "parkable"},
    Event.APPROVE: {"unapproved"},
    Event.REJECT: {"unapproved"},
    Event.CANCEL: ALL - TERMINALS,
    Event.TIME_LIMIT: {"starting", "launched", "running"},
    Event.POLICY_STOP: {"starting", "launched", "running"},
    Event.ADOPTED: ALL - TERMINALS,
    Event.CONDITION: ALL - TERMINALS,
    Event.CONDITION_CLEARED: set(),
}
FULL = at(9, handle=HANDLE, verdict=FAILED, condition="launch-delayed", stop_cause=StopCause.STALLED)


def test_the_matrix_names_every_event() -> None:
    assert set(ALLOWED) == set(Event)


@pytest.mark.parametrize(("event", "name"), list(itertools.product(Event, STATES)))
def test_an_event_changes_exactly_the_states_it_is_for(event: Event, name: str) -> None:
    result = transition(STATES[name], event, FULL)
    assert isinstance(result, Change) == (name in ALLOWED[event])
    if isinstance(result, Ignored):
        assert result.event is event
        assert result.why


def test_a_life_from_queue_to_success() -> None:
    ended = after(DRAINING, Event.ENDED, at(4, verdict=FAILED))
    assert (ended.phase, ended.cleanup, ended.verdict) == (Phase.FINISHING, Cleanup.PENDING, SUCCEEDED)
    assert ended.phase_since == DRAINING.phase_since
    done = after(ended, Event.SETTLED, at(5))
    assert (done.phase, done.reason, done.finished_at) == (Phase.SUCCEEDED, None, START + timedelta(seconds=5))
    assert done.started_at == START + timedelta(seconds=2)
    assert after(done, Event.CLEANED, at(6)).cleanup is Cleanup.CONFIRMED


IN_QUEUE = {"queue": "Slurm", "word": "Resources"}
WAITING = after(LAUNCHED, Event.CONDITION, at(2, condition="executor-queue", data=IN_QUEUE))


def test_what_is_known_of_the_wait_in_the_queue_of_the_executor_is_renewed_and_since_when_stays() -> None:
    assert isinstance(transition(WAITING, Event.CONDITION, at(9, condition="executor-queue", data=IN_QUEUE)), Unchanged)
    moved = {**IN_QUEUE, "position": 3}
    both = after(WAITING, Event.CONDITION, at(8, condition="launch-delayed"))
    later = after(both, Event.CONDITION, at(9, condition="executor-queue", data=moved))
    assert [(item.type, item.since, dict(item.data)) for item in later.conditions] == [
        ("executor-queue", START + timedelta(seconds=2), moved),
        ("launch-delayed", START + timedelta(seconds=8), {}),
    ]
    # Every other condition stays as it began.
    again = transition(both, Event.CONDITION, at(9, condition="launch-delayed", data={"detail": "x"}))
    assert isinstance(again, Unchanged)


@pytest.mark.parametrize("condition", ["executor-queue", "executor-starting"])
@pytest.mark.parametrize("name", STATES)
def test_only_what_has_not_begun_waits_for_its_start(name: str, condition: str) -> None:
    result = transition(STATES[name], Event.CONDITION, at(9, condition=condition))
    assert isinstance(result, Change) == (name in ("starting", "launched"))


@pytest.mark.parametrize(
    ("event", "verdict"), [(Event.RUNNING, None), (Event.OUTCOME, SUCCEEDED), (Event.ENDED, CANCELLED)]
)
def test_whatever_ends_the_wait_for_the_start_takes_its_conditions_away(event: Event, verdict: Verdict | None) -> None:
    both = after(WAITING, Event.CONDITION, at(3, condition="executor-starting"))
    assert after(both, event, at(4, verdict=verdict)).conditions == ()


def test_the_machines_are_known_with_the_start_or_later_and_only_while_it_runs() -> None:
    real = {**HANDLE, "nodes": ["h1"]}
    assert after(WAITING, Event.RUNNING, at(4, handle=real)).handle == real
    known = after(RUNNING, Event.RUNNING, at(4, handle=real))
    assert known == replace(RUNNING, handle=real)
    assert isinstance(transition(known, Event.RUNNING, at(5, handle=real)), Unchanged)
    assert after(STARTING, Event.RUNNING, at(4, handle=real)).handle is None  # nobody has recorded its launch


def test_a_run_that_cannot_be_asked_about_keeps_its_phase_and_the_condition_clears_by_itself() -> None:
    away = after(RUNNING, Event.UNREACHABLE, at(10))
    assert away.phase is Phase.RUNNING
    assert away.has_condition("unreachable")
    assert isinstance(transition(away, Event.UNREACHABLE, at(70)), Unchanged)
    back = after(away, Event.RUNNING, at(300))
    assert back == RUNNING
    assert isinstance(transition(back, Event.RUNNING, at(302)), Unchanged)


def test_seeing_an_end_clears_unreachable() -> None:
    away = after(RUNNING, Event.UNREACHABLE, at(10))
    assert not after(away, Event.ENDED, at(11, verdict=LOST)).conditions
    assert not after(away, Event.OUTCOME, at(11, verdict=SUCCEEDED)).conditions


def test_an_outcome_seen_before_the_run_was_seen_running_counts_as_its_start() -> None:
    draining = after(LAUNCHED, Event.OUTCOME, at(7, verdict=SUCCEEDED))
    assert draining.started_at == draining.phase_since == START + timedelta(seconds=7)


# Scenario 3: the first end is the end, in every order.
ENDS = {
    "succeeded": [(Event.ENDED, SUCCEEDED), (Event.SETTLED, None)],
    "failed": [(Event.ENDED, FAILED), (Event.SETTLED, None)],
    "cancel": [(Event.CANCEL, None), (Event.ENDED, CANCELLED), (Event.SETTLED, None)],
}


@pytest.mark.parametrize("order", list(itertools.permutations(ENDS)))
def test_the_first_end_is_the_phase_and_the_later_ones_are_ignored(order: tuple[str, ...]) -> None:
    """Scenario 3."""
    job, ignored = RUNNING, []
    for name in order:
        for event, verdict in ENDS[name]:
            result = transition(job, event, at(5, verdict=verdict))
            if isinstance(result, Change):
                job = result.state
            elif isinstance(result, Ignored):
                ignored.append(result.event)
    expected = {"succeeded": Phase.SUCCEEDED, "failed": Phase.FAILED, "cancel": Phase.CANCELLED}[order[0]]
    assert job.phase is expected
    assert len(ignored) == sum(len(ENDS[name]) for name in order[1:])


def test_cancel_in_the_queue_ends_at_once() -> None:
    job = after(QUEUED, Event.CANCEL, at())
    assert (job.phase, job.reason, job.cleanup) == (Phase.CANCELLED, Reason("cancelled"), Cleanup.NONE)


def test_cancel_of_a_live_run_only_writes_what_is_desired() -> None:
    job = after(RUNNING, Event.CANCEL, at())
    assert (job.phase, job.desired, job.stop_cause) == (Phase.RUNNING, Desired.CANCEL, StopCause.CANCEL)
    assert job.has_condition("stopping")
    assert transition(job, Event.CANCEL, at()) == Ignored(Event.CANCEL, "already-cancelled")


def test_a_run_that_finished_before_the_stop_reached_it_has_succeeded() -> None:
    job = after(after(RUNNING, Event.CANCEL, at()), Event.ENDED, at(verdict=SUCCEEDED))
    assert after(job, Event.SETTLED, at()).phase is Phase.SUCCEEDED


def test_the_first_cause_of_a_stop_stays() -> None:
    limited = after(RUNNING, Event.TIME_LIMIT, at())
    both = after(limited, Event.CANCEL, at(5))
    assert (both.stop_cause, both.desired) == (StopCause.TIME_LIMIT, Desired.CANCEL)
    assert [condition.type for condition in both.conditions] == ["stopping"]
    assert transition(both, Event.TIME_LIMIT, at()) == Ignored(Event.TIME_LIMIT, "stopping-time-limit")


def test_a_further_attempt_begins_clean_and_only_after_cleanup() -> None:
    assert transition(ENDED, Event.RETRIED, at()) == Ignored(Event.RETRIED, "cleanup-pending")
    again = after(CLEANED, Event.RETRIED, at(9))
    assert again == JobState(Phase.QUEUED, START + timedelta(seconds=9), attempt=2, started_at=RUNNING.started_at)


def test_a_further_attempt_rests_until_its_time_and_forgets_that_when_it_is_placed() -> None:
    again = after(CLEANED, Event.RETRIED, at(9, not_before=START + timedelta(seconds=60)))
    assert again.not_before == START + timedelta(seconds=60)
    assert after(again, Event.PLACED, at(61)).not_before is None


def test_a_paused_run_is_stopped_proved_gone_and_queued_again_held_back() -> None:
    assert (PAUSING.phase, PAUSING.stop_cause, PAUSING.has_condition("stopping")) == (
        Phase.RUNNING,
        StopCause.PAUSE,
        True,
    )
    assert transition(PARKABLE, Event.SETTLED, at()) == Ignored(Event.SETTLED, "paused")
    assert transition(PARKABLE, Event.RETRIED, at()) == Ignored(Event.RETRIED, "paused")
    parked = after(PARKABLE, Event.PARKED, at(6))
    assert (parked.phase, parked.attempt, parked.held_back, parked.reason) == (Phase.QUEUED, 2, "paused", None)
    assert transition(parked, Event.PLACED, at()) == Ignored(Event.PLACED, "paused")
    resumed = after(parked, Event.RESUME, at(9))
    assert resumed.held_back is None
    assert after(resumed, Event.PLACED, at(10)).phase is Phase.STARTING


def test_a_run_resumed_while_it_stops_is_queued_and_not_held_back() -> None:
    stopping = after(after(PAUSING, Event.RESUME, at(4)), Event.ENDED, at(5, verdict=PAUSED))
    parked = after(after(stopping, Event.CLEANED, at(6)), Event.PARKED, at(7))
    assert (parked.phase, parked.held_back) == (Phase.QUEUED, None)


def test_a_paused_run_is_parked_only_when_its_attempt_is_proved_gone() -> None:
    ended = after(PAUSING, Event.ENDED, at(4, verdict=PAUSED))
    assert transition(ended, Event.PARKED, at()) == Ignored(Event.PARKED, "cleanup-pending")


def test_a_cancel_while_it_is_being_paused_cancels_it() -> None:
    for cancelled in (after(PARKABLE, Event.CANCEL, at(6)), after(PAUSING, Event.CANCEL, at(4))):
        if cancelled.verdict is None:
            cancelled = after(after(cancelled, Event.ENDED, at(5, verdict=PAUSED)), Event.CLEANED, at(6))
        assert transition(cancelled, Event.PARKED, at()) == Ignored(Event.PARKED, "cancelled")
        assert transition(cancelled, Event.PAUSE, at()) == Ignored(Event.PAUSE, "cancelled")
        done = after(cancelled, Event.SETTLED, at(7))
        assert (done.phase, done.reason) == (Phase.CANCELLED, Reason("cancelled"))


def test_a_run_that_ends_by_itself_while_it_is_being_paused_has_ended() -> None:
    done = after(after(PAUSING, Event.ENDED, at(4, verdict=SUCCEEDED)), Event.SETTLED, at(5))
    assert done.phase is Phase.SUCCEEDED


def test_a_pause_at_the_end_holds_back_the_further_attempt_only() -> None:
    held = after(CLEANED, Event.PAUSE, at(5))
    assert held.stop_cause is None
    assert after(held, Event.RETRIED, at(6)).held_back == "paused"


def test_what_needs_approval_waits_for_it_or_ends() -> None:
    assert transition(UNAPPROVED, Event.PLACED, at()) == Ignored(Event.PLACED, "awaiting-approval")
    assert after(after(UNAPPROVED, Event.APPROVE, at()), Event.PLACED, at()).phase is Phase.STARTING
    refused = after(UNAPPROVED, Event.REJECT, at(data={"actor": "root", "why": "too big"}))
    assert (refused.phase, refused.reason) == (
        Phase.CANCELLED,
        Reason("approval-refused", {"detail": "too big"}),
    )


def test_a_cancelled_run_gets_no_further_attempt() -> None:
    job = after(CLEANED, Event.CANCEL, at())
    assert transition(job, Event.RETRIED, at()) == Ignored(Event.RETRIED, "cancelled")
    assert after(job, Event.SETTLED, at()).phase is Phase.FAILED


def test_launching_twice_keeps_the_first_handle() -> None:
    assert isinstance(transition(LAUNCHED, Event.LAUNCHED, at(handle={"name": "other"})), Unchanged)


def test_what_was_waited_for_is_no_condition_any_more() -> None:
    waiting = after(QUEUED, Event.CONDITION, at(condition="waiting-for-gpus"))
    assert after(waiting, Event.PLACED, at()).conditions == ()
    delayed = after(STARTING, Event.CONDITION, at(condition="launch-delayed"))
    assert after(delayed, Event.LAUNCHED, at(handle=HANDLE)).conditions == ()
    assert after(delayed, Event.ENDED, at(verdict=FAILED)).conditions == ()
    assert after(after(RUNNING, Event.CANCEL, at()), Event.ENDED, at(verdict=CANCELLED)).conditions == ()


def test_a_condition_is_set_once_and_cleared() -> None:
    delayed = after(STARTING, Event.CONDITION, at(3, condition="launch-delayed", data={"detail": "x"}))
    assert isinstance(transition(delayed, Event.CONDITION, at(5, condition="launch-delayed")), Unchanged)
    assert after(delayed, Event.CONDITION_CLEARED, at(6, condition="launch-delayed")) == STARTING
    assert isinstance(transition(STARTING, Event.CONDITION_CLEARED, at(condition="x")), Unchanged)


@pytest.mark.parametrize("name", sorted(TERMINALS))
def test_what_is_over_has_no_condition_but_of_its_clearing_away(name: str) -> None:
    assert isinstance(transition(STATES[name], Event.CONDITION, at(condition="stalled")), Ignored)
    assert after(STATES[name], Event.CONDITION, at(condition="cleanup-delayed")).has_condition("cleanup-delayed")


@pytest.mark.parametrize(
    ("phase", "reason", "from_outcome"),
    [(Phase.RUNNING, None, True), (Phase.SUCCEEDED, Reason("x"), True), (Phase.FAILED, None, True), (Phase.SUCCEEDED, None, False)],
)  # fmt: skip
def test_a_verdict_that_makes_no_sense_cannot_be_made(phase: Phase, reason: Reason | None, from_outcome: bool) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Verdict(phase, reason, from_outcome=from_outcome)


steps = st.lists(
    st.tuples(
        st.sampled_from(Event),
        st.sampled_from([SUCCEEDED, FAILED, LOST, CANCELLED, PAUSED]),
        st.sampled_from(["launch-delayed", "unreachable", "stopping"]),
    ),
    max_size=40,
)
CLEANUP_ORDER = [Cleanup.NONE, Cleanup.PENDING, Cleanup.CONFIRMED]


@given(steps)
def test_no_history_breaks_the_ledger(history: list[tuple[Event, Verdict, str]]) -> None:
    job = QUEUED
    for number, (event, verdict, condition) in enumerate(history):
        evidence = at(
            number + 1,
            handle={"name": f"h{number}"},
            verdict=verdict,
            condition=condition,
            stop_cause=StopCause.STALLED,
        )
        result: Result = transition(job, event, evidence)
        if not isinstance(result, Change):
            continue
        _check_step(job, event, result.state)
        job = result.state
        assert job.phase.terminal == (job.finished_at is not None)
        assert (job.phase in (Phase.QUEUED,)) <= (job.handle is None)
        assert job.phase is not Phase.SUCCEEDED or (job.verdict == SUCCEEDED and job.reason is None)
        assert (job.phase in (Phase.FAILED, Phase.LOST, Phase.CANCELLED)) == (job.reason is not None)
        assert len({item.type for item in job.conditions}) == len(job.conditions)


def _check_step(before: JobState, event: Event, now: JobState) -> None:
    if before.phase.terminal:
        assert replace(now, cleanup=before.cleanup, conditions=before.conditions) == before
    if now.phase is not before.phase:
        assert event in {
            Event.PLACED, Event.RUNNING, Event.OUTCOME, Event.ENDED, Event.SETTLED, Event.RETRIED, Event.CANCEL,
            Event.PARKED, Event.REJECT,
        }  # fmt: skip
    if event in (Event.RETRIED, Event.PARKED):
        assert now.attempt == before.attempt + 1
        assert before.cleanup is Cleanup.CONFIRMED
        return
    assert now.attempt == before.attempt
    assert CLEANUP_ORDER.index(now.cleanup) - CLEANUP_ORDER.index(before.cleanup) in (0, 1)
    for name in ("verdict", "reason", "stop_cause", "handle", "started_at", "finished_at"):
        if getattr(before, name) is not None:
            assert getattr(now, name) == getattr(before, name), name
    assert not (before.desired is Desired.CANCEL and now.desired is Desired.RUN)


def test_an_end_says_why_no_further_attempt_is_made() -> None:
    done = after(CLEANED, Event.SETTLED, at(5, data={"repeated": 5, "missing_records": 1}))
    assert done.reason == Reason("trainer-failed", {"exit_code": 1, "repeated": 5})
    assert after(CLEANED, Event.SETTLED, at(5)).reason == FAILED.reason
    success = after(after(RUNNING, Event.ENDED, at(3, verdict=SUCCEEDED)), Event.SETTLED, at(5, data={"repeated": 5}))
    assert success.reason is None
