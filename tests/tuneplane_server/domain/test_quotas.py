from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneplane_server.domain.quotas import (
    Account,
    Block,
    Limits,
    Use,
    Want,
    account_of,
    blocked,
    day_of,
    month_of,
    never,
    use_in,
)

NOW = datetime(2026, 3, 31, 21, 0, tzinfo=UTC)
MIDNIGHT = datetime(2026, 4, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def account(limits: Limits, uses: tuple[Use, ...] = (), now: datetime = NOW) -> Account:
    live = sum(use.ended_at is None for use in uses)
    return account_of("user", "u1", "li", limits, jobs=live, uses=uses, now=now)


def live(gpus: int, hours: float | None, started: datetime = NOW) -> Use:
    return Use(gpus, started, None if hours is None else started + hours * HOUR, None)


def test_without_limits_nothing_holds_a_job_back() -> None:
    free = account(Limits(), (live(512, None), live(8, 24 * 300)))
    assert blocked(free, Want(4096, None), NOW) is None
    assert never(free, Want(4096, 1e7)) is None
    assert not free.days_ahead
    assert not free.months_ahead


def test_gpus_at_once_are_counted_over_live_uses_only() -> None:
    over = Use(8, NOW - 2 * HOUR, None, NOW - HOUR)
    mine = account(Limits(gpus=8), (live(5, 1), over))
    assert blocked(mine, Want(3, 60), NOW) is None
    assert blocked(mine, Want(4, 60), NOW) == Block("gpus", 8, 5, 4)
    assert never(mine, Want(8, 60)) is None
    assert never(mine, Want(9, 60)) == Block("gpus", 8, 0, 9)


def test_jobs_at_once_count_jobs_without_gpus_too() -> None:
    mine = account(Limits(jobs=2, gpus=0), (live(0, 1),))
    assert blocked(mine, Want(0, 60), NOW) is None
    assert blocked(mine.with_(Want(0, 60), NOW), Want(0, 60), NOW) == Block("jobs", 2, 2, 1)
    assert never(mine, Want(0, None)) is None
    assert never(account(Limits(jobs=0)), Want(0, None)) == Block("jobs", 0, 0, 1)


def test_hours_of_the_day_say_when_they_begin_anew() -> None:
    mine = account(Limits(gpu_hours_day=10), (Use(4, NOW - 2 * HOUR, None, NOW),))
    assert blocked(mine, Want(1, 2 * 3600), NOW) is None
    assert blocked(mine, Want(1, 2 * 3600 + 1), NOW) == Block("gpu_hours_day", 10, 8, 2 + 1 / 3600, MIDNIGHT)


def test_hours_of_the_month_say_when_they_begin_anew() -> None:
    mine = account(Limits(gpu_hours_month=100), (Use(8, NOW - 12 * HOUR, None, NOW),))
    assert blocked(mine, Want(2, 2 * 3600), NOW) is None
    assert blocked(mine, Want(2, 3 * 3600), NOW) == Block("gpu_hours_month", 100, 96, 6, MIDNIGHT)


def test_a_job_that_reaches_into_the_next_day_needs_room_there_too() -> None:
    """Otherwise jobs that start before midnight would take the whole of tomorrow without a limit."""
    mine = account(Limits(gpu_hours_day=12), (live(2, 6),))  # six hours today, six tomorrow
    want = Want(1, 12 * 3600)  # three today, nine tomorrow
    assert mine.days_ahead == {MIDNIGHT: 6 * 3600}
    assert blocked(mine, want, NOW) == Block("gpu_hours_day", 12, 6, 9, MIDNIGHT + timedelta(days=1))
    assert blocked(mine, Want(1, 9 * 3600), NOW) is None
    assert blocked(mine.with_(Want(1, 9 * 3600), NOW), Want(1, 4 * 3600), NOW) == Block(
        "gpu_hours_day", 12, 12, 1, MIDNIGHT + timedelta(days=1)
    )


def test_a_job_that_reaches_into_the_next_month_needs_room_there_too() -> None:
    mine = account(Limits(gpu_hours_month=800), (live(1, 24 * 32),))
    may = datetime(2026, 5, 1, tzinfo=UTC)
    assert mine.months_ahead == {MIDNIGHT: 720 * 3600, may: 45 * 3600}
    assert blocked(mine, Want(1, 24 * 32 * 3600), NOW) == Block("gpu_hours_month", 800, 720, 720, may)
    assert blocked(mine.with_(Want(1, 80 * 3600), NOW), Want(1, 24 * 3600), NOW) is not None


def test_an_unknown_length_waits_only_where_nothing_is_left() -> None:
    some = account(Limits(gpu_hours_day=8), (Use(2, NOW - 3 * HOUR, None, NOW),))
    none = account(Limits(gpu_hours_day=8), (Use(2, NOW - 4 * HOUR, None, NOW),))
    assert blocked(some, Want(8, None), NOW) is None
    block = blocked(none, Want(8, None), NOW)
    assert block is not None
    assert (block.rule, block.used, block.until) == ("gpu_hours_day", 8, MIDNIGHT)
    assert never(none, Want(8, None)) is None
    assert never(account(Limits(gpu_hours_month=0)), Want(1, None)) is not None


def test_jobs_without_gpus_use_no_hours() -> None:
    spent = account(Limits(gpus=1, gpu_hours_day=1, gpu_hours_month=1), (Use(9, NOW - HOUR, None, NOW),))
    assert blocked(spent, Want(0, 1e6), NOW) is None
    assert never(spent, Want(0, 1e6)) is None


@pytest.mark.parametrize(
    ("limits", "want", "rule"),
    [
        (Limits(gpu_hours_day=23), Want(1, 86400), "gpu_hours_day"),
        (Limits(gpu_hours_day=24), Want(1, 30 * 86400), None),
        (Limits(gpu_hours_day=24), Want(2, 43201), "gpu_hours_day"),
        (Limits(gpu_hours_month=743), Want(1, 60 * 86400), "gpu_hours_month"),
        (Limits(gpu_hours_month=744), Want(1, 60 * 86400), None),
        (Limits(gpu_hours_day=100, gpu_hours_month=10), Want(8, 3 * 3600), "gpu_hours_month"),
    ],
)
def test_a_job_that_no_period_has_room_for_never_starts(limits: Limits, want: Want, rule: str | None) -> None:
    found = never(account(limits), want)
    assert (None if found is None else found.rule) == rule


@pytest.mark.parametrize(
    ("now", "start", "end"),
    [
        (datetime(2024, 2, 29, 12, tzinfo=UTC), datetime(2024, 2, 1, tzinfo=UTC), datetime(2024, 3, 1, tzinfo=UTC)),
        (datetime(2026, 2, 28, 23, 59, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC), datetime(2026, 3, 1, tzinfo=UTC)),
        (datetime(2026, 12, 31, tzinfo=UTC), datetime(2026, 12, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)),
        (
            datetime(2026, 1, 1, 7, tzinfo=timezone(timedelta(hours=8))),
            datetime(2025, 12, 1, tzinfo=UTC),
            datetime(2026, 1, 1, tzinfo=UTC),
        ),
    ],
)
def test_months_are_utc_months(now: datetime, start: datetime, end: datetime) -> None:
    month = month_of(now)
    assert (month.start, month.end) == (start, end)


def test_a_leap_day_is_a_day_of_its_own() -> None:
    leap = day_of(datetime(2024, 2, 29, 5, tzinfo=UTC))
    run = Use(4, datetime(2024, 2, 28, tzinfo=UTC), None, datetime(2024, 3, 2, tzinfo=UTC))
    assert use_in(leap.start, leap.end, [run], NOW) == 4 * 86400


def test_a_run_over_the_border_counts_in_both_months_for_its_share() -> None:
    run = Use(8, NOW, None, MIDNIGHT + 5 * HOUR)
    now = MIDNIGHT + timedelta(days=3)
    march, april = month_of(NOW), month_of(now)
    assert use_in(march.start, march.end, [run], now) == 8 * 3 * 3600
    assert use_in(april.start, april.end, [run], now) == 8 * 5 * 3600


def test_what_is_reserved_is_settled_when_the_attempt_ends() -> None:
    reserved = live(8, 2)
    settled = replace(reserved, ended_at=NOW + HOUR)
    day = day_of(NOW)
    assert use_in(day.start, day.end, [reserved], NOW + HOUR) == 8 * 7200
    assert use_in(day.start, day.end, [settled], NOW + HOUR) == 8 * 3600


def test_a_live_use_past_its_reservation_counts_until_now() -> None:
    day = day_of(NOW)
    assert use_in(day.start, day.end, [live(2, 1)], NOW + 2 * HOUR) == 2 * 7200
    assert use_in(day.start, day.end, [live(2, None)], NOW + 2 * HOUR) == 2 * 7200


def test_a_clock_that_went_back_makes_no_negative_use() -> None:
    day = day_of(NOW)
    assert use_in(day.start, day.end, [Use(8, NOW, None, NOW - HOUR), live(8, None)], NOW - HOUR) == 0


# --- properties ---------------------------------------------------------------------------------------------------------

# From the last days of a year to past a leap day.
moments = st.integers(0, 66 * 86400).map(
    lambda seconds: datetime(2023, 12, 30, tzinfo=UTC) + timedelta(seconds=seconds)
)


@st.composite
def uses(draw: st.DrawFn) -> Use:
    start = draw(moments)
    length = st.integers(0, 40 * 86400).map(lambda seconds: start + timedelta(seconds=seconds))
    return Use(draw(st.integers(0, 16)), start, draw(st.none() | length), draw(st.none() | length))


@given(st.lists(uses(), max_size=6), moments)
def test_the_days_of_a_month_sum_up_to_the_month(some: list[Use], now: datetime) -> None:
    month = month_of(now)
    total, day = 0.0, day_of(month.start)
    while day.start < month.end:
        total += use_in(day.start, day.end, some, now)
        day = day_of(day.end)
    assert total == use_in(month.start, month.end, some, now)


@given(st.lists(uses(), max_size=6), moments, st.integers(0, 8), st.integers(0, 40 * 86400))
def test_placing_a_job_is_the_same_as_finding_its_row_after_a_restart(
    some: list[Use], now: datetime, gpus: int, seconds: int
) -> None:
    limits = Limits(gpu_hours_day=1, gpu_hours_month=1)
    row = Use(gpus, now, now + timedelta(seconds=seconds), None)
    placed = account(limits, tuple(some), now).with_(Want(gpus, seconds), now)
    assert placed == account(limits, (*some, row), now)


@given(
    st.lists(st.tuples(st.integers(0, 8), st.none() | st.integers(0, 5 * 86400), st.integers(0, 86400)), max_size=12),
    st.integers(0, 16),
    st.integers(0, 6),
    st.integers(0, 200),
    st.integers(0, 2000),
    moments,
)
def test_what_starts_unblocked_never_goes_over_a_limit(
    wants: list[tuple[int, int | None, int]], gpus: int, jobs: int, day: int, month: int, start: datetime
) -> None:
    """Jobs come one after another and none ends early: no period, now or later, is promised to more than its limit."""
    limits = Limits(gpus=gpus, jobs=jobs, gpu_hours_day=day, gpu_hours_month=month)
    rows: list[Use] = []
    now = start
    for count, seconds, pause in wants:
        now += timedelta(seconds=pause)
        mine = account(limits, tuple(rows), now)
        if blocked(mine, Want(count, seconds), now) is None:
            rows.append(Use(count, now, now + timedelta(seconds=1 if seconds is None else seconds), None))
            assert sum(row.gpus for row in rows) <= gpus or count == 0
            assert len(rows) <= jobs
    # What is past its reservation and still live is nobody's promise: look at the time of the last start.
    promised = [replace(row, ended_at=row.reserved_until) for row in rows]
    at = start
    while promised and at < start + timedelta(days=20):
        period, whole = day_of(at), month_of(at)
        assert use_in(period.start, period.end, promised, now) <= day * 3600
        assert use_in(whole.start, whole.end, promised, now) <= month * 3600
        at = period.end


@given(st.integers(0, 16), st.none() | st.integers(0, 90 * 86400), st.integers(0, 30), st.integers(0, 2500), moments)
def test_a_job_that_may_start_some_day_is_not_blocked_at_the_start_of_a_month_with_nothing_else(
    gpus: int, seconds: int | None, day: int, month: int, now: datetime
) -> None:
    """Whoever is admitted gets a turn: nothing waits for ever behind its own quota."""
    limits = Limits(gpus=12, jobs=1, gpu_hours_day=day, gpu_hours_month=month)
    begin = month_of(now).start
    empty = account(limits, (), begin)
    if never(empty, Want(gpus, seconds)) is None:
        assert blocked(empty, Want(gpus, seconds), begin) is None
