"""The watchdog's rules (scenario 32): what sets a condition, what keeps it, what clears it, and what is no evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneplane_server.domain import watch
from tuneplane_server.domain.conditions import CONDITIONS, condition_message
from tuneplane_server.domain.phases import StopCause
from tuneplane_server.domain.watch import (
    CLOCK_OFF,
    DISK_LOW,
    NEAR_LIMIT,
    NOT_FINITE,
    RANK_SILENT,
    STALLED,
    UNHEARD,
    BadLoss,
    Beat,
    CardLoad,
    Sighting,
    WatchPolicy,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
NOW = START + timedelta(hours=5)
POLICY = WatchPolicy()
NAN = BadLoss("train/loss", 0, 120, "NaN", 3)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def beat(rank: int = 0, age: float = 1, state: str = "running") -> Beat:
    return Beat(rank, state, ago(age))


def healthy(**changes: Any) -> Sighting:
    """A run of two machines that reports; `changes` are what is wrong with it."""
    given = {"log": ago(5), "metric": ago(5), "sample": None, "event": ago(3600)}
    seen = Sighting(START, START, 2, given, beats=(beat(0), beat(1)), free_gb=500.0, offsets={0: (0.1,) * 5})
    return replace(seen, **changes)


def quiet(minutes: float, **changes: Any) -> Sighting:
    return healthy(last={"log": ago(60 * minutes), "metric": None}, **changes)


def conditions(
    seen: Sighting, before: Mapping[str, watch.Data] | None = None, policy: WatchPolicy = POLICY, now: datetime = NOW
) -> Mapping[str, watch.Data]:
    return watch.judge(seen, before or {}, policy, now).conditions


def test_nothing_is_wrong_with_a_run_that_reports() -> None:
    assert conditions(healthy()) == {}


def test_every_condition_has_its_words() -> None:
    assert set(watch.RULES) <= set(CONDITIONS)


# --- stalled (scenario 32) --------------------------------------------------------------------------------------------


def test_a_run_that_says_nothing_for_long_while_its_machines_live_is_stalled() -> None:
    assert conditions(quiet(29)) == {}
    assert conditions(quiet(31)) == {STALLED: {"minutes": 30, "since": "2026-01-01 04:29 UTC"}}


@pytest.mark.parametrize("kind", ["log", "metric", "sample", "event"])
def test_anything_new_of_any_kind_is_a_sign_of_life(kind: str) -> None:
    assert conditions(healthy(last={kind: ago(60)}), {STALLED: {"minutes": 30}}) == {}


@pytest.mark.parametrize(
    "seen",
    [
        quiet(31, busy_until=NOW + timedelta(minutes=1)),
        quiet(31, beats=(beat(0, state="preparing"), beat(1))),
        quiet(31, beats=(beat(0, state="draining"),)),
        quiet(31, running_since=None),
        quiet(31, listening_since=ago(60)),
        quiet(300, running_since=ago(60)),
    ],
    ids=["reported-phase", "preparing", "draining", "not-running", "console-was-away", "started-just-now"],
)
def test_what_explains_the_silence_is_no_stall(seen: Sighting) -> None:
    assert STALLED not in conditions(seen)


def test_gpus_that_work_are_no_stall_and_idle_ones_have_to_be_idle_as_long() -> None:
    """Scenario 32."""
    assert STALLED not in conditions(quiet(300, cards=CardLoad(None)))
    assert STALLED not in conditions(quiet(300, cards=CardLoad(ago(60 * 29))))
    found = conditions(quiet(300, cards=CardLoad(ago(60 * 31))))[STALLED]
    assert found == {"minutes": 30, "since": "2026-01-01 04:29 UTC", "gpus": "idle"}
    assert condition_message(STALLED, found) != condition_message(STALLED, {"minutes": 30}) == CONDITIONS[STALLED]
    assert STALLED not in conditions(quiet(300, cards=CardLoad(None)), {STALLED: found}), "it computes again"


def test_a_reported_phase_counts_as_long_as_it_said() -> None:
    assert STALLED in conditions(quiet(31, busy_until=ago(1)))


def test_a_run_whose_runner_is_not_heard_either_is_not_judged() -> None:
    unheard = quiet(31, beats=(beat(0, age=90), beat(1, age=90)))
    assert STALLED not in conditions(unheard)
    assert conditions(unheard, {STALLED: {"minutes": 30}})[STALLED] == {"minutes": 30}


def test_a_stall_that_was_found_before_the_console_started_again_is_kept() -> None:
    assert STALLED in conditions(quiet(31, listening_since=ago(60)), {STALLED: {"minutes": 30}})


# --- ranks ------------------------------------------------------------------------------------------------------------


def test_a_machine_that_is_not_heard_while_others_are_is_named() -> None:
    assert conditions(healthy(beats=(beat(0), beat(1, age=590)))) == {}
    silent = healthy(machines=3, beats=(beat(0), beat(1, age=900), beat(2, age=700)))
    assert conditions(silent) == {RANK_SILENT: {"ranks": "1, 2", "since": "2026-01-01 04:45 UTC"}}


def test_a_machine_that_was_never_heard_counts_from_the_start_of_the_run() -> None:
    assert conditions(healthy(beats=(beat(0),))) == {RANK_SILENT: {"ranks": "1", "since": "2026-01-01 00:00 UTC"}}
    assert conditions(healthy(beats=(beat(0),), running_since=ago(300))) == {}


def test_a_silent_machine_is_heard_again_only_when_it_is_heard_well() -> None:
    before = {RANK_SILENT: {"ranks": "1", "since": "x"}}
    assert RANK_SILENT in conditions(healthy(beats=(beat(0), beat(1, age=400))), before)
    assert conditions(healthy(beats=(beat(0), beat(1, age=200))), before) == {}


def test_when_nobody_is_heard_it_is_the_run_and_no_rank() -> None:
    seen = healthy(beats=(beat(0, age=700), beat(1, age=800)))
    assert conditions(seen) == {UNHEARD: {"minutes": 10, "since": "2026-01-01 04:48 UTC"}}
    before = {UNHEARD: {"minutes": 10}}
    assert UNHEARD in conditions(healthy(beats=(beat(0, age=400),)), before)
    assert UNHEARD not in conditions(healthy(beats=(beat(0, age=200),)), before)


def test_a_console_that_was_away_gives_the_machines_their_time() -> None:
    assert conditions(healthy(beats=(beat(0, age=3600),), listening_since=ago(60))) == {}


# --- loss, limit, disk, clock -----------------------------------------------------------------------------------------


def test_a_loss_that_is_no_number_several_times_in_a_row() -> None:
    assert conditions(healthy(bad_loss=replace(NAN, reports=2))) == {}
    data = {"metric": "train/loss", "step": 120, "rank": 0, "value": "NaN"}
    assert conditions(healthy(bad_loss=NAN)) == {NOT_FINITE: data}
    assert NOT_FINITE in conditions(healthy(bad_loss=replace(NAN, reports=1)), {NOT_FINITE: data})
    assert conditions(healthy(), {NOT_FINITE: data}) == {}


@pytest.mark.parametrize(("limit", "is_near"), [(18_001, True), (19_799, True), (19_801, False), (20_100, False)])
def test_the_last_tenth_of_a_limit_and_at_most_half_an_hour_of_it_is_near(limit: int, is_near: bool) -> None:
    assert (NEAR_LIMIT in conditions(healthy(max_seconds=limit))) is is_near


def test_the_end_of_a_short_limit_is_told_with_its_time() -> None:
    seen = healthy(running_since=ago(95), max_seconds=100)
    assert conditions(seen)[NEAR_LIMIT] == {"seconds": 100, "at": "2026-01-01 05:00 UTC"}


@pytest.mark.parametrize(
    ("free", "before", "low"),
    [(9.9, False, True), (10.1, False, False), (11.9, True, True), (12.1, True, False), (None, True, True)],
)
def test_the_disk_counts_as_low_until_there_is_clearly_room_again(free: float | None, before: bool, low: bool) -> None:
    had: dict[str, watch.Data] = {DISK_LOW: {"free_gb": "9.0"}} if before else {}
    found = conditions(healthy(free_gb=free), had)
    assert (DISK_LOW in found) is low
    assert watch.disk_low(free, before, 10) is low


def test_the_disk_is_low_for_a_run_in_any_live_phase() -> None:
    assert conditions(healthy(running_since=None, free_gb=1.0)) == {DISK_LOW: {"free_gb": "1.0"}}
    assert conditions(healthy(free_gb=None)) == {}


def test_a_clock_is_judged_by_the_median_of_several_heartbeats() -> None:
    assert conditions(healthy(offsets={0: (0.0, 300.0, 0.1, 0.0, 0.2)})) == {}
    assert conditions(healthy(offsets={0: (0.1,) * 3, 1: (-90.4, -90.0, -91.0)})) == {
        CLOCK_OFF: {"rank": 1, "seconds": -90}
    }
    assert conditions(healthy(offsets={0: (90.0, 90.0)})) == {}


def test_a_clock_is_right_again_only_well_below_the_threshold() -> None:
    before = {CLOCK_OFF: {"rank": 1, "seconds": 90}}
    assert CLOCK_OFF in conditions(healthy(offsets={1: (40.0,) * 3}), before)
    assert CLOCK_OFF not in conditions(healthy(offsets={1: (20.0,) * 3}), before)
    assert CLOCK_OFF in conditions(healthy(offsets={}), before)


def test_what_the_policy_does_not_look_for_is_never_found() -> None:
    nothing = WatchPolicy(None, None, None, None, None)
    bad = quiet(300, beats=(), bad_loss=NAN, free_gb=0.0, offsets={0: (900.0,) * 5})
    everything: dict[str, watch.Data] = {name: {"ranks": "0"} for name in watch.RULES}
    assert conditions(bad, everything, nothing) == {}


# --- what is done about it ----------------------------------------------------------------------------------------------


def test_a_run_is_stopped_only_where_the_policy_says_so() -> None:
    stalled, bad = quiet(31), healthy(bad_loss=NAN)
    for seen in (stalled, bad):
        assert watch.judge(seen, {}, POLICY, NOW).stop is None
    assert watch.judge(stalled, {}, WatchPolicy(stop_stalled=True), NOW).stop is StopCause.STALLED
    assert watch.judge(bad, {}, WatchPolicy(stop_not_finite=True), NOW).stop is StopCause.NOT_FINITE
    assert watch.judge(healthy(), {}, WatchPolicy(stop_stalled=True, stop_not_finite=True), NOW).stop is None


def test_a_stall_of_a_run_that_is_not_heard_now_stops_nothing() -> None:
    unheard = quiet(31, beats=(beat(0, age=90),))
    judgement = watch.judge(unheard, {STALLED: {"minutes": 30}}, WatchPolicy(stop_stalled=True), NOW)
    assert (STALLED in judgement.conditions, judgement.stop) == (True, None)


def test_a_condition_about_another_rank_begins_anew() -> None:
    before = {RANK_SILENT: {"ranks": "1", "since": "x"}, "unreachable": {}}
    seen = healthy(machines=3, beats=(beat(0), beat(1), beat(2, age=900)))
    steps = watch.steps(before, watch.judge(seen, before, POLICY, NOW))
    assert [(step.condition, step.data is None) for step in steps] == [(RANK_SILENT, True), (RANK_SILENT, False)]


# --- properties -------------------------------------------------------------------------------------------------------

ages = st.floats(0, 20_000)
sightings = st.builds(
    Sighting,
    running_since=st.one_of(st.none(), ages.map(ago)),
    listening_since=ages.map(ago),
    machines=st.integers(1, 4),
    last=st.dictionaries(st.sampled_from(["log", "metric", "sample", "event"]), st.one_of(st.none(), ages.map(ago))),
    busy_until=st.one_of(st.none(), ages.map(ago)),
    cards=st.one_of(st.none(), st.builds(CardLoad, st.one_of(st.none(), ages.map(ago)))),
    beats=st.lists(
        st.builds(Beat, st.integers(0, 3), st.sampled_from(["preparing", "running", "draining"]), ages.map(ago)),
        max_size=4,
        unique_by=lambda one: one.rank,
    ),
    bad_loss=st.one_of(st.none(), st.builds(replace, st.just(NAN), reports=st.integers(1, 9))),
    offsets=st.dictionaries(st.integers(0, 3), st.lists(st.floats(-500, 500), max_size=5)),
    max_seconds=st.one_of(st.none(), st.integers(1, 40_000)),
    free_gb=st.one_of(st.none(), st.floats(0, 100)),
)
policies = st.builds(
    WatchPolicy,
    stalled_minutes=st.one_of(st.none(), st.integers(1, 300)),
    silent_minutes=st.one_of(st.none(), st.integers(1, 300)),
    not_finite_reports=st.one_of(st.none(), st.integers(1, 9)),
    disk_free_gb=st.one_of(st.none(), st.floats(0, 50)),
    clock_seconds=st.one_of(st.none(), st.integers(1, 400)),
    stop_stalled=st.booleans(),
    stop_not_finite=st.booleans(),
)


@given(sightings, policies)
def test_looking_again_at_the_same_changes_nothing(seen: Sighting, policy: WatchPolicy) -> None:
    """No condition flaps while nothing happens: what is set by a look stays set by the next."""
    first = watch.judge(seen, {}, policy, NOW)
    again = watch.judge(seen, first.conditions, policy, NOW)
    assert watch.steps(first.conditions, again) == []
    assert again.stop == first.stop


@given(sightings, sightings, policies)
def test_the_steps_lead_from_what_is_to_what_was_judged(before: Sighting, seen: Sighting, policy: WatchPolicy) -> None:
    have: dict[str, watch.Data] = {**watch.judge(before, {}, policy, NOW).conditions, "unreachable": {}}
    judgement = watch.judge(seen, have, policy, NOW)
    for step in watch.steps(have, judgement):
        if step.data is None:
            del have[step.condition]
        else:
            assert step.condition not in have
            have[step.condition] = step.data
    assert set(have) == {"unreachable", *judgement.conditions}


@given(sightings, policies)
def test_nothing_is_stopped_without_its_condition_and_its_policy(seen: Sighting, policy: WatchPolicy) -> None:
    judgement = watch.judge(seen, {}, policy, NOW)
    if judgement.stop is StopCause.STALLED:
        assert policy.stop_stalled
        assert STALLED in judgement.conditions
    if judgement.stop is StopCause.NOT_FINITE:
        assert policy.stop_not_finite
        assert NOT_FINITE in judgement.conditions
    if seen.running_since is None:
        assert set(judgement.conditions) <= {DISK_LOW}
        assert judgement.stop is None
