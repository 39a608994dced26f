"""The rules of alerts: each kind, and over all of them that what fires fires once, is over once and does not flap."""

from __future__ import annotations

import math
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tuneplane_server.domain import alerts
from tuneplane_server.domain.alerts import (
    DEFAULTS,
    TEXTS,
    AlertState,
    Effect,
    Facts,
    Kind,
    MetricFact,
    Rule,
    Stage,
    ending,
    message_of,
    over,
    shown_already,
    step,
)
from tuneplane_server.domain.conditions import condition_message
from tuneplane_server.domain.phases import Phase

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KL = "train/kl_penalty"
ABOVE = Rule("high", Kind.METRIC_ABOVE, metric=KL, threshold=10.0, minutes=5, reports=3)


def at(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def facts(value: float | None = None, count: int = 1, low: float = 0.0, high: float = 20.0, **known: Any) -> Facts:
    metric = {} if value is None and "metrics" not in known else {KL: MetricFact(count, value, count, low, high)}
    known = {"running_since": NOW, "metrics": metric} | known
    return Facts(**known)


def look(rule: Rule, *seen: tuple[float, Facts], before: AlertState = AlertState()) -> tuple[AlertState, list[Effect]]:
    """Looks at these minutes; the last state and what happened on the way."""
    state, effects = before, []
    for minutes, what in seen:
        state, effect = step(rule, state, what, at(minutes))
        effects += [] if effect is None else [effect]
    return state, effects


# --- a metric over a threshold ------------------------------------------------------------------------------------------


def test_it_fires_when_it_has_held_for_long_enough_and_often_enough() -> None:
    high = [(minute, facts(12.0, count=minute + 1)) for minute in range(7)]
    state, effects = look(ABOVE, *high)
    assert (state.stage, effects) == (Stage.FIRING, [Effect.FIRED])
    assert state.data == {"metric": KL, "value": "12", "step": 6, "threshold": "10"}
    assert look(ABOVE, *high[:5])[1] == [], "not for five minutes yet"
    assert look(ABOVE, *((minute, facts(12.0, count=2)) for minute in range(9)))[1] == [], "one report is no trend"


def test_one_good_value_begins_anew() -> None:
    seen = [(0, facts(12.0, 1)), (3, facts(5.0, 2)), (4, facts(12.0, 3)), (8, facts(12.0, 9))]
    state, effects = look(ABOVE, *seen)
    assert (state.stage, state.since, effects) == (Stage.PENDING, at(4), [])


def test_a_value_around_the_threshold_does_not_flap() -> None:
    firing, _fired = look(ABOVE, *((minute, facts(12.0, minute + 1)) for minute in range(7)))
    seen = [(7 + minute, facts(9.8 if minute % 2 else 10.2, 10 + minute)) for minute in range(40)]
    assert look(ABOVE, *seen, before=firing) == (firing, [])


def test_it_is_over_when_the_opposite_has_held_for_a_while() -> None:
    firing, _fired = look(ABOVE, *((minute, facts(12.0, minute + 1)) for minute in range(7)))
    low = [(10 + minute, facts(3.0, 20 + minute)) for minute in range(4)]
    calm, effects = look(ABOVE, *low, before=firing)
    assert (calm.stage, calm.calm_since, effects) == (Stage.FIRING, at(10), [])
    assert look(ABOVE, (14, facts(12.0, 30)), before=calm)[0] == replace(firing, calm_since=None)
    assert look(ABOVE, (15, facts(3.0, 30)), before=calm) == (AlertState(), [Effect.RESOLVED])


@pytest.mark.parametrize("unknown", [facts(), facts(math.nan), facts(None, metrics={})])
def test_nothing_changes_where_nothing_can_be_said(unknown: Facts) -> None:
    pending = AlertState(Stage.PENDING, at(0))
    for before in (AlertState(), pending, AlertState(Stage.FIRING, at(0))):
        assert step(ABOVE, before, unknown, at(60)) == (before, None)
    empty = replace(unknown, metrics={KL: MetricFact(1, None, 1)})
    assert step(ABOVE, pending, empty, at(60)) == (pending, None)


def test_below_is_the_other_way_round() -> None:
    rule = replace(ABOVE, kind=Kind.METRIC_BELOW, minutes=0, reports=1)
    state, effects = look(rule, (0, facts(9.0)), (1, facts(10.3)), (2, facts(10.6)))
    assert (state, effects) == (AlertState(), [Effect.FIRED, Effect.RESOLVED])


# --- the other kinds ----------------------------------------------------------------------------------------------------


def test_a_loss_that_is_no_number_is_what_the_watchdog_says() -> None:
    rule = DEFAULTS["non-finite"]
    bad = facts(conditions={"loss-not-finite": {"metric": "train/loss", "value": "NaN", "step": 4}})
    state, effects = look(rule, (0, facts()), (1, bad), (2, bad))
    assert (effects, state.data["metric"]) == ([Effect.FIRED], "train/loss")
    assert look(rule, (3, facts()), before=state) == (AlertState(), [Effect.RESOLVED])


def test_no_progress_is_of_runs_that_report_metrics() -> None:
    rule = DEFAULTS["no-progress"]
    silent = facts(last_metric_at=at(0))
    assert look(rule, (59, silent))[1] == []
    assert look(rule, (61, silent))[1] == [Effect.FIRED]
    assert look(rule, (61, facts()))[1] == [], "it never reported any"
    assert look(rule, (61, replace(silent, running_since=None)))[1] == []
    assert look(rule, (61, replace(silent, busy_until=at(90))))[1] == [], "it says that it evaluates"
    assert look(rule, (95, replace(silent, busy_until=at(90))))[1] == [Effect.FIRED]
    stalled = facts(conditions={"stalled": {"minutes": 30, "since": "then"}})
    state, effects = look(rule, (31, stalled))
    assert (effects, state.data) == ([Effect.FIRED], {"minutes": "30", "since": "then"}), "it never reported a metric"
    assert look(rule, (32, facts()), before=state)[1] == [Effect.RESOLVED]


def test_idle_gpus_are_those_that_were_measured() -> None:
    rule = DEFAULTS["gpu-idle"]
    idle = facts(cards_known=True, idle_since=at(0))
    assert look(rule, (29, idle))[1] == []
    state, effects = look(rule, (30, idle))
    assert (effects, state.data) == ([Effect.FIRED], {"minutes": "30", "since": "2026-01-01 00:00 UTC"})
    assert look(rule, (40, replace(idle, cards_known=False)), before=state) == (state, []), "unknown is not busy"
    assert look(rule, (40, replace(idle, idle_since=None)), before=state)[1] == [Effect.RESOLVED]
    assert look(rule, (40, replace(idle, busy_until=at(60))))[1] == []
    assert look(rule, (40, replace(idle, running_since=None)))[1] == []


def test_a_reward_has_collapsed_when_most_of_what_it_gained_is_lost() -> None:
    rule = replace(DEFAULTS["reward-collapse"], enabled=True, metric=KL, minutes=0, reports=1)
    assert look(rule, (0, facts(5.0, 9, low=0.0, high=20.0)))[1] == [], "three quarters lost are not four fifths"
    state, effects = look(rule, (0, facts(3.0, 9, low=0.0, high=20.0)))
    assert (effects, state.data["best"]) == ([Effect.FIRED], "20")
    assert look(rule, (1, facts(9.0, 10)), before=state)[1] == [], "less than half of it is made good"
    assert look(rule, (1, facts(13.0, 10)), before=state)[1] == [Effect.RESOLVED]
    assert look(rule, (0, facts(4.0, 1, low=4.0, high=4.0)))[1] == [], "a first value has lost nothing"
    odd = (facts(None, metrics={KL: MetricFact(1, None, 1)}), facts(math.inf), facts(1.0, high=math.inf), facts())
    odd = (
        *odd,
        facts(1.0, metrics={KL: MetricFact(1, 1.0, 1, None, None)}),
        facts(1.0, metrics={KL: MetricFact(1, 1.0, 1, None, 2.0)}),
    )
    for unknown in odd:
        assert look(rule, (0, unknown))[1] == []


def test_a_rule_that_is_switched_off_is_over_at_once_and_never_fires() -> None:
    off = replace(ABOVE, enabled=False)
    assert step(off, AlertState(Stage.FIRING, at(0)), facts(99.0), at(1)) == (AlertState(), Effect.RESOLVED)
    assert look(off, *((minute, facts(99.0, minute)) for minute in range(20))) == (AlertState(), [])


def test_the_shortest_time_that_anybody_wants_to_know_of_is_that_of_the_enabled_rules() -> None:
    off = replace(ABOVE, minutes=1, enabled=False)
    assert alerts.least_minutes([off, replace(ABOVE, minutes=30), ABOVE], Kind.METRIC_ABOVE) == 5
    assert alerts.least_minutes([off], Kind.METRIC_ABOVE) is None
    assert alerts.least_minutes([ABOVE], Kind.GPU_IDLE) is None


def test_the_end_of_a_run_is_told_by_what_it_was() -> None:
    failed, succeeded = DEFAULTS["job-failed"], replace(DEFAULTS["job-succeeded"], enabled=True)
    assert [phase for phase in Phase if ending(failed, phase, NOW)] == [Phase.FAILED, Phase.LOST]
    assert [phase for phase in Phase if ending(succeeded, phase, NOW)] == [Phase.SUCCEEDED]
    assert not ending(DEFAULTS["job-succeeded"], Phase.SUCCEEDED, NOW)
    assert not ending(ABOVE, Phase.FAILED, NOW)
    late = replace(succeeded, set_at=at(1))
    assert not ending(late, Phase.SUCCEEDED, at(0)), "who asks today is not told of yesterday"
    assert ending(late, Phase.SUCCEEDED, at(2))
    assert step(failed, AlertState(), facts(), NOW) == (AlertState(), None)
    assert over(AlertState(Stage.PENDING, NOW)) == (AlertState(), None)


def test_every_kind_has_its_words_and_the_defaults_are_quiet_ones() -> None:
    assert set(TEXTS) == set(Kind)
    assert {name for name, rule in DEFAULTS.items() if rule.enabled} == {
        "non-finite", "no-progress", "gpu-idle", "job-failed",
    }  # fmt: skip
    assert message_of("of-tomorrow") is None
    assert shown_already(Kind.NO_PROGRESS, ["stalled"])
    assert not shown_already(Kind.NO_PROGRESS, ["disk-low"])
    assert not shown_already(Kind.GPU_IDLE, ["stalled"])
    assert condition_message("alert:x", {"kind": "gpu-idle"}) == TEXTS[Kind.GPU_IDLE]
    assert condition_message("alert:x", {}) is None
    assert condition_message("of-tomorrow", {}) is None


# --- over all of them ---------------------------------------------------------------------------------------------------

VALUES = st.none() | st.floats(-5, 25) | st.just(math.nan)
RULES = st.builds(
    Rule,
    st.just("r"),
    st.sampled_from([Kind.METRIC_ABOVE, Kind.METRIC_BELOW, Kind.KL_ABOVE, Kind.REWARD_COLLAPSE]),
    metric=st.just(KL),
    threshold=st.floats(0.1, 1.0) | st.floats(0, 20),
    minutes=st.integers(0, 10),
    reports=st.integers(1, 4),
)


@settings(max_examples=150, deadline=None)
@given(RULES, st.lists(st.tuples(st.integers(0, 4), VALUES), max_size=40))
def test_it_fires_and_is_over_in_turn_and_only_after_its_time(
    rule: Rule, looks: list[tuple[int, float | None]]
) -> None:
    state, minute, effects = AlertState(), 0, []
    for count, (passed, value) in enumerate(looks, start=1):
        minute += passed
        what = facts(value, count)
        before = state
        state, effect = step(rule, state, what, at(minute))
        if effect is Effect.FIRED:
            assert before.stage is not Stage.FIRING
            begun = before.since if before.stage is Stage.PENDING else at(minute)
            assert begun is not None
            assert at(minute) - begun >= timedelta(minutes=rule.minutes)
        effects += [] if effect is None else [effect]
        assert step(rule, state, what, at(minute)) == (state, None) or rule.minutes == 0, (
            "the same look changes nothing"
        )
    assert effects == [Effect.FIRED, Effect.RESOLVED] * (len(effects) // 2) + [Effect.FIRED] * (len(effects) % 2)


@settings(max_examples=60, deadline=None)
@given(st.floats(0.5, 1e6), st.lists(st.floats(-0.049, 0.049), min_size=1, max_size=30))
def test_noise_below_the_margin_fires_at_most_once(threshold: float, noise: list[float]) -> None:
    rule = Rule("r", Kind.METRIC_ABOVE, metric=KL, threshold=threshold)
    seen = [(minute, facts(threshold * (1 + share), minute + 1)) for minute, share in enumerate(noise)]
    assert len(look(rule, *seen)[1]) <= 1


def test_a_kind_without_a_rule_of_its_own_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(alerts._RULES, Kind.METRIC_ABOVE)
    assert step(ABOVE, AlertState(), facts(99.0), NOW) == (AlertState(), None)
