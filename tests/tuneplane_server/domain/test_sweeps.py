"""When a trial begins, how it ended, when a sweep is over, and which trial is best."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneplane_server.domain import sweeps
from tuneplane_server.domain.phases import TERMINAL, Phase
from tuneplane_server.domain.sweeps import (
    FAILURES_IN_A_ROW,
    OVER,
    SweepState,
    Trial,
    TrialState,
    Turn,
    best,
    ended_as,
    failures_in_a_row,
    rung,
    to_begin,
    trial_key,
    turn,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
STATES = st.sampled_from(TrialState)


def trials(*states: TrialState) -> list[Trial]:
    return [
        Trial(number, state, None, NOON + timedelta(minutes=number) if state in OVER else None)
        for number, state in enumerate(states)
    ]


@pytest.mark.parametrize(
    ("phase", "reason", "state"),
    [
        (Phase.SUCCEEDED, None, TrialState.SUCCEEDED),
        (Phase.FAILED, "cuda-oom", TrialState.FAILED),
        (Phase.LOST, "node-lost", TrialState.FAILED),
        (Phase.CANCELLED, "cancelled", TrialState.CANCELLED),
        (Phase.CANCELLED, "sweep-pruned", TrialState.PRUNED),
    ],
)
def test_the_end_of_a_job_is_the_end_of_its_trial(phase: Phase, reason: str | None, state: TrialState) -> None:
    assert ended_as(phase, reason) is state


def test_every_end_of_a_job_ends_its_trial() -> None:
    assert {ended_as(phase, None) for phase in TERMINAL} <= OVER


@given(st.lists(STATES, max_size=12), st.integers(0, 15), st.integers(1, 6))
def test_never_more_live_than_allowed_and_each_number_once(states: list[TrialState], more: int, most: int) -> None:
    known, total = trials(*states), len(states) + more
    numbers = to_begin(known, total, most)
    live = sum(trial.state is TrialState.SUBMITTED for trial in known)
    assert len(numbers) <= max(0, most - live)
    assert len(set(numbers)) == len(numbers)
    assert all(0 <= number < total for number in numbers)
    begun = {trial.number for trial in known if trial.state is not TrialState.PLANNED}
    assert not begun & set(numbers)
    left = total - len(begun)
    assert len(numbers) == min(left, max(0, most - live))


def test_planned_ones_come_before_new_ones() -> None:
    known = trials(TrialState.SUCCEEDED, TrialState.PLANNED, TrialState.SUBMITTED, TrialState.PLANNED)
    assert to_begin(known, 9, 4) == [1, 3, 4]


S, F, P, C, R, N = (
    TrialState.SUCCEEDED,
    TrialState.FAILED,
    TrialState.PRUNED,
    TrialState.CANCELLED,
    TrialState.SUBMITTED,
    TrialState.PLANNED,
)


@pytest.mark.parametrize(
    ("state", "states", "total", "expected"),
    [
        (SweepState.RUNNING, (), 3, None),
        (SweepState.RUNNING, (S, R), 2, None),
        (SweepState.RUNNING, (S, N), 2, None),
        (SweepState.RUNNING, (S, F, P, C), 4, Turn(SweepState.DONE)),
        (SweepState.RUNNING, (F,) * FAILURES_IN_A_ROW, 9, Turn(SweepState.STOPPING, FAILURES_IN_A_ROW)),
        (SweepState.RUNNING, (F,) * FAILURES_IN_A_ROW, FAILURES_IN_A_ROW, Turn(SweepState.DONE)),
        (SweepState.STOPPING, (F, R), 9, None),
        (SweepState.STOPPING, (F, N), 9, Turn(SweepState.STOPPED)),
        (SweepState.CANCELLING, (S, R), 9, None),
        (SweepState.CANCELLING, (S, C, N), 9, Turn(SweepState.CANCELLED)),
    ],
)
def test_what_becomes_of_a_sweep(
    state: SweepState, states: tuple[TrialState, ...], total: int, expected: Turn | None
) -> None:
    assert turn(state, trials(*states), total) == expected


def test_failures_count_in_the_order_in_which_the_trials_ended() -> None:
    assert failures_in_a_row(trials(F, F, S, F, F, R)) == 2
    assert failures_in_a_row(trials(F, S)) == 0
    late = [Trial(0, F, None, NOON + timedelta(hours=1)), Trial(1, S, None, NOON)]
    assert failures_in_a_row(late) == 1


def test_the_best_succeeded_has_a_value_and_came_first_of_equals() -> None:
    known = [Trial(0, S, 2.0), Trial(1, S, 1.0), Trial(2, S, 1.0), Trial(3, P, 0.5), Trial(4, S, None)]
    assert best(known, "min") == known[1]
    assert best(known, "max") == known[0]
    assert best([Trial(0, F, 1.0)], "min") is None


def test_trials_sort_by_their_value_those_without_one_last() -> None:
    known = [Trial(0, S, None), Trial(1, S, 2.0), Trial(2, R, 1.0)]
    for goal, expected in (("min", [2, 1, 0]), ("max", [1, 2, 0])):
        assert [trial.number for trial in sorted(known, key=lambda one: sweeps.worth(one, goal))] == expected


def test_only_what_failed_or_was_cancelled_is_tried_again() -> None:
    assert {state for state in TrialState if sweeps.again(state)} == {F, C}


def test_rungs_lie_further_and_further_apart() -> None:
    assert [rung(50, 3, passed) for passed in range(4)] == [50, 150, 450, 1350]


@given(st.tuples(st.integers(0, 999), st.integers(1, 9)), st.tuples(st.integers(0, 999), st.integers(1, 9)))
def test_every_try_of_a_trial_has_a_key_of_its_own(one: tuple[int, int], other: tuple[int, int]) -> None:
    assert (trial_key("06fq", *one) == trial_key("06fq", *other)) == (one == other)
