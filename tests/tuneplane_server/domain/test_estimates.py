"""When jobs behind the head of a line start at the latest: told where it is certain, and only there."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tuneplane_server.domain.queue_build import NOW, job, later, live, machine, plan, pool
from tuneplane_server.domain.line import Live, Waiting
from tuneplane_server.domain.placement import Hold
from tuneplane_server.domain.queue import CLEARING, COMING_UP, latest_end, schedule
from tuneplane_server.domain.quotas import Account, Limits

HOUR = 3600
TURN = (
    timedelta(seconds=HOUR) + COMING_UP + CLEARING
)  # of a run of an hour, from its placement to when all is given back
ONE = [machine("n1")]
BUSY = live("x", "n1", tuple(range(8)), 30)


def estimates(line: list[Waiting], **known: Any) -> list[datetime | None]:
    made = plan(line, ONE, BUSY, **known)
    return [made.waits[item.job_id].estimate for item in line]


def test_who_needs_no_more_than_all_before_it_starts_when_they_are_over() -> None:
    line = [job(name, 8, age=9 - n, max_seconds=HOUR) for n, name in enumerate("abcd")]
    assert estimates(line) == [later(30), later(30) + TURN, later(30) + 2 * TURN, later(30) + 3 * TURN]


def test_a_smaller_one_may_wait_for_the_longest_of_those_before_it() -> None:
    line = [
        job("a", 8, age=9, max_seconds=5 * HOUR),
        job("b", 4, age=8, max_seconds=HOUR),
        job("c", 2, age=7, max_seconds=HOUR),
    ]
    end_of_a = later(30) + timedelta(hours=5) + COMING_UP + CLEARING
    assert estimates(line) == [later(30), end_of_a, end_of_a + TURN]


@pytest.mark.parametrize(
    "line",
    [
        pytest.param([job("a", 8, age=2), job("b", 8)], id="the head has no limit"),
        pytest.param([job("a", 4, age=2, max_seconds=HOUR), job("b", 8)], id="it needs more than the head"),
        pytest.param(
            [job("a", 8, age=3, max_seconds=HOUR), job("b", 8, age=2), job("c", 8)], id="the one before it has no limit"
        ),
        pytest.param([job("a", 8, age=2, max_seconds=HOUR), job("b", 2, 2)], id="several pools"),
        pytest.param(
            [job("a", pool(8), age=2, max_seconds=HOUR), job("b", pool(4, cpus=9))], id="CPUs that the head has not"
        ),
    ],
)
def test_nothing_is_told_where_nobody_can_know(line: list[Waiting]) -> None:
    assert estimates(line)[-1] is None


def test_a_quota_may_keep_it_though_there_is_room() -> None:
    line = [job("a", 8, age=2, max_seconds=HOUR), job("b", 8, owner="bob")]
    assert estimates(line)[1] is not None
    limited = {("user", "bob"): Account("user", "bob", "bob", Limits(gpus=99))}
    assert estimates(line, accounts=limited)[1] is None


def test_who_comes_into_the_line_by_itself_may_stand_before_it() -> None:
    line = [job("a", 8, age=2, max_seconds=HOUR), job("b", 8, max_seconds=HOUR)]
    resting = job("r", 8, age=9, not_before=later(1))
    assert estimates([*line, resting])[:2] == [later(30), None]
    waits_for_quota = job("q", 8, age=9, owner="bob")
    full = {("user", "bob"): Account("user", "bob", "bob", Limits(gpus=1), gpus=1)}
    assert estimates([*line, waits_for_quota], accounts=full)[:2] == [later(30), None]
    assert estimates([*line, job("p", 8, age=9, held_back="paused")])[1] is not None  # only people let it go on


def test_one_that_wants_the_cards_of_two_lines_leaves_both_without_a_promise() -> None:
    machines = [machine("n1"), machine("n2", 4, "a100")]
    line = [
        job("h", 8, age=5, max_seconds=HOUR),
        job("a", pool(4, profile="a100"), age=4, max_seconds=HOUR),
        job("both", pool(1), pool(1, profile="a100"), age=3, max_seconds=HOUR),
        job("h2", 8, age=2, max_seconds=HOUR),
        job("a2", pool(4, profile="a100"), age=1, max_seconds=HOUR),
    ]
    made = plan(line, machines, BUSY, live("y", "n2", (0, 1, 2, 3), 30))
    assert [made.waits[item.job_id].estimate for item in line] == [later(30), later(30), None, None, None]


def test_lines_that_want_the_same_cpus_promise_nothing_to_those_behind() -> None:
    line = [
        job("h", pool(8, cpus=8), age=3, max_seconds=HOUR),
        job("c", pool(0, profile="cpu", cpus=60), age=2, max_seconds=HOUR),
        job("h2", pool(8, cpus=8), age=1, max_seconds=HOUR),
    ]
    made = plan(line, ONE, live("x", "n1", tuple(range(8)), 30, cpus=10))
    assert [made.waits[item.job_id].estimate for item in line] == [later(30), None, None]


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32))
def test_whoever_was_told_a_moment_has_started_by_then(seed: int) -> None:
    """Runs end as late as they may or earlier, and more and more jobs come, none of them more urgent."""
    dice = Random(seed)
    machines = [machine(f"n{number}", 4) for number in range(dice.randrange(1, 3))]
    waiting = [_random_job(dice, number, 0, NOW) for number in range(dice.randrange(3, 9))]
    running: dict[str, tuple[Live, datetime]] = {}  # with the moment at which it really ends
    told: dict[str, datetime] = {}
    now = NOW
    for step in range(200):
        running = {job_id: item for job_id, item in running.items() if item[1] > now}
        made = schedule(now, waiting, [item for item, _end in running.values()], machines, {}, {})
        if step == 0:
            told = {wait.job_id: wait.estimate for wait in made.waits.values() if wait.estimate is not None}
        by_id = {item.job_id: item for item in waiting}
        for placement in made.placements:
            assert now <= told.pop(placement.job_id, now), f"{placement.job_id} was to start earlier"
            of = by_id[placement.job_id]
            holds = tuple(Hold(part.node, part.gpus, part.cpus, part.memory_gb) for part in placement.assignments)
            latest = latest_end(now, None, of.max_seconds, now)
            runs = (latest - now) * dice.choice((0.1, 0.7, 1)) if latest is not None else timedelta(hours=90)
            running[of.job_id] = (Live(of.job_id, "ada", holds, latest), now + runs)
        waiting = [item for item in waiting if item.job_id not in {one.job_id for one in made.placements}]
        if dice.random() < 0.7:
            waiting.append(_random_job(dice, 100 + step, -1, now))
        ends = [end for _item, end in running.values()]
        if not told:
            return
        now = min([*ends, now + timedelta(minutes=dice.choice((1, 20, 50)))])
        assert now <= min(told.values()), f"{told} have not started"
    raise AssertionError("nothing comes to an end")


def _random_job(dice: Random, number: int, priority: int, now: datetime) -> Waiting:
    limit = dice.choice((HOUR, HOUR, 2 * HOUR, 600, None))
    shape = pool(dice.choice((1, 2, 4)), nodes=1, cpus=dice.choice((0, 0, 2)))
    age = (NOW - now).total_seconds() / 60 + 60 - number
    return job(f"j{number:03d}", shape, age=age, priority=priority, max_seconds=limit)
