"""Further attempts: how long a run rests, and when it has had enough."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneplane_server.domain.phases import Phase, Reason, Verdict
from tuneplane_server.domain.retries import (
    JITTER,
    MOST_ATTEMPTS,
    REST_FIRST,
    REST_MOST,
    Again,
    Ended,
    Enough,
    decide,
    ends_without_progress,
    rest_before,
)

LOST = Verdict(Phase.LOST, Reason("node-lost"), from_outcome=False)
PREEMPTED = Verdict(Phase.FAILED, Reason("preempted"), from_outcome=False)
ALL = {"infra": 100, "platform": 100, "user": 100, "policy": 100}


@given(st.sampled_from(["infra", "platform", "user"]), st.integers(0, 40), st.text(max_size=20))
def test_a_rest_doubles_up_to_a_bound_give_or_take_the_jitter(class_: str, used: int, job_id: str) -> None:
    plain = min(REST_MOST, REST_FIRST * 2 ** min(used, 16))
    rest = rest_before(class_, used, job_id)
    assert plain * (1 - JITTER) <= rest <= plain * (1 + JITTER)
    assert rest == rest_before(class_, used, job_id)


def test_two_runs_that_ended_together_do_not_come_back_together() -> None:
    assert len({rest_before("infra", 3, f"run-{number}") for number in range(20)}) == 20


def test_what_a_policy_ended_goes_on_at_once() -> None:
    assert rest_before("policy", 7, "x") == timedelta()
    assert decide(PREEMPTED, [Ended("preempted", 1)], ALL, "x") == Again(timedelta())


def test_a_limit_that_is_used_up_ends_it_and_says_nothing_more() -> None:
    ends = [Ended("node-lost", 1), Ended("node-lost", 2)]
    assert decide(LOST, ends, {"infra": 1}, "x") == Enough()
    assert isinstance(decide(LOST, ends, {"infra": 2}, "x"), Again)


def test_the_rest_grows_with_the_attempts_of_its_class_only() -> None:
    ends = [Ended("preempted", 1), Ended("node-lost", 2), Ended("container-lost", 3), Ended("node-lost", 4)]
    assert decide(LOST, ends, ALL, "x") == Again(rest_before("infra", 2, "x"))


@pytest.mark.parametrize(
    ("ends", "count"),
    [
        ([], 1),
        ([Ended("a", 5)], 1),
        ([Ended("a", 5), Ended("a", 5), Ended("a", 5)], 3),
        ([Ended("a"), Ended("a")], 2),
        ([Ended("a", 5), Ended("b", 5), Ended("b", 5)], 2),
        ([Ended("a", 5), Ended("a", 6), Ended("a", 6)], 2),
        ([Ended("a", 5, 4), Ended("a", 5), Ended("a", 5)], 3),
        ([Ended("a", 5), Ended("a", 5, 4), Ended("a", 5)], 2),
        ([Ended("a", 5, 4), Ended("a", 5, 4), Ended("a", 5, 3)], 3),
        ([Ended("a", 5, 2), Ended("a", 5, 3), Ended("a", 5, 4)], 1),
    ],
)
def test_ends_are_alike_when_reason_and_step_are_and_no_newer_checkpoint_is_there(
    ends: list[Ended], count: int
) -> None:
    assert ends_without_progress(ends) == count


def test_the_same_end_without_progress_is_no_accident_after_a_while() -> None:
    ends = [Ended("node-lost", 7)] * 4
    assert isinstance(decide(LOST, ends, ALL, "x"), Again)
    assert decide(LOST, [*ends, Ended("node-lost", 7)], ALL, "x") == Enough(repeated=5)


def test_a_run_that_makes_room_again_and_again_did_not_fail() -> None:
    assert isinstance(decide(PREEMPTED, [Ended("preempted", 7)] * 10, ALL, "x"), Again)


def test_there_is_a_ceiling_whatever_the_limits_say() -> None:
    ends = [Ended("node-lost", step) for step in range(MOST_ATTEMPTS)]
    assert isinstance(decide(LOST, ends[:-1], ALL, "x"), Again)
    assert decide(LOST, ends, ALL, "x") == Enough(attempts=MOST_ATTEMPTS)
