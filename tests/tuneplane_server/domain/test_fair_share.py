from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneplane_server.domain.fair_share import HALF_LIFE, Turn, faded_use, in_order

NOW = datetime(2026, 3, 1, tzinfo=UTC)


def test_what_was_used_a_half_life_ago_counts_half() -> None:
    fresh = faded_use(8, NOW - timedelta(seconds=10), NOW, NOW)
    old = faded_use(8, NOW - HALF_LIFE - timedelta(seconds=10), NOW - HALF_LIFE, NOW)
    assert fresh == pytest.approx(80, rel=1e-4)
    assert old == pytest.approx(fresh / 2)


def test_what_lies_ahead_or_lasted_no_time_is_nothing() -> None:
    assert faded_use(8, NOW + timedelta(hours=1), NOW + timedelta(hours=2), NOW) == 0
    assert faded_use(8, NOW, NOW, NOW) == 0
    assert faded_use(8, NOW, NOW - timedelta(hours=1), NOW) == 0


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(0, 10**7))
def test_a_use_fades_and_its_parts_add_up(length: int, more: int, ago: int) -> None:
    end = NOW - timedelta(seconds=ago)
    middle = end - timedelta(seconds=more)
    start = middle - timedelta(seconds=length)
    whole = faded_use(2, start, end, NOW)
    parts = faded_use(2, start, middle, NOW) + faded_use(2, middle, end, NOW)
    assert whole == pytest.approx(parts, abs=1e-3)
    assert whole <= 2 * (length + more) + 1e-3
    assert faded_use(2, start, end, NOW + timedelta(days=1)) <= whole


TURNS = st.lists(
    st.builds(
        Turn,
        st.uuids().map(str),
        st.sampled_from(["ada", "bob", "eve"]),
        st.integers(-2, 2),
        st.integers(0, 1000).map(lambda minutes: NOW - timedelta(minutes=minutes)),
        st.integers(0, 8),
        st.one_of(st.none(), st.integers(1, 10**6)),
    ),
    max_size=30,
    unique_by=lambda turn: turn.job_id,
)
USE = st.dictionaries(st.sampled_from(["ada", "bob"]), st.floats(0, 1e9))


@given(TURNS, USE)
def test_everyone_stands_once_by_priority_and_of_one_owner_the_older_before_the_younger(
    turns: list[Turn], use: dict[str, float]
) -> None:
    known = {turn.job_id: turn for turn in turns}
    ordered = [known[job_id] for job_id in in_order(turns, use)]
    assert sorted(known) == sorted(turn.job_id for turn in ordered)
    assert [turn.priority for turn in ordered] == sorted((turn.priority for turn in turns), reverse=True)
    for priority in range(-2, 3):
        for owner in ("ada", "bob", "eve"):
            ages = [turn.created_at for turn in ordered if (turn.priority, turn.owner_id) == (priority, owner)]
            assert ages == sorted(ages)


@given(TURNS, USE)
def test_the_first_in_line_of_a_priority_is_of_an_owner_who_has_used_least(
    turns: list[Turn], use: dict[str, float]
) -> None:
    if not turns:
        return
    highest = max(turn.priority for turn in turns)
    first = next(turn for turn in turns if turn.job_id == next(iter(in_order(turns, use))))
    least = min(use.get(turn.owner_id, 0) for turn in turns if turn.priority == highest)
    assert use.get(first.owner_id, 0) // 3600 == least // 3600
