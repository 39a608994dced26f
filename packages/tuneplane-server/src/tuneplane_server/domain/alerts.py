"""The rules of alerts: what is looked for, whether it is so now, and when that fires or is over. Pure; the time is an argument.

A rule fires once when what it looks for has held for its time, and is over once when the opposite has held for a while: to fire and
to be over are two thresholds, so a value around one of them does not flap. All that is remembered is an `AlertState`, which is kept
in the database: a restart, or another console, goes on where the last look ended. Where nothing can be said, nothing changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from tuneplane.i18n import N_
from tuneplane_server.domain.phases import Phase
from tuneplane_server.domain.watch import NOT_FINITE, STALLED

CALM_MINUTES = 5.0  # what was so for long is over after so much of the opposite at the latest
MARGIN = 0.05  # share of a threshold between firing and being over

type Data = Mapping[str, Any]


class Kind(StrEnum):
    NON_FINITE = "non-finite"
    REWARD_COLLAPSE = "reward-collapse"
    KL_ABOVE = "kl-above"
    NO_PROGRESS = "no-progress"
    GPU_IDLE = "gpu-idle"
    METRIC_ABOVE = "metric-above"
    METRIC_BELOW = "metric-below"
    JOB_FAILED = "job-failed"
    JOB_SUCCEEDED = "job-succeeded"


# Kinds about a run that is over: they fire and are never over.
ENDINGS = {Kind.JOB_FAILED: Phase.FAILED, Kind.JOB_SUCCEEDED: Phase.SUCCEEDED}
LOST_TOO = Phase.LOST  # a lost run is a failed one for who waits for it
# What the watchdog shows on the job already gets no second condition there.
_SHOWN_BY = {Kind.NON_FINITE: NOT_FINITE, Kind.NO_PROGRESS: STALLED}
CONDITION_PREFIX = "alert:"

TEXTS: dict[Kind, str] = {
    Kind.NON_FINITE: N_("{metric} is no number: {value} at step {step}"),
    Kind.REWARD_COLLAPSE: N_("{metric} has collapsed: {value} at step {step}, it has been up to {best}"),
    Kind.KL_ABOVE: N_("{metric} is {value} at step {step}, above {threshold}"),
    Kind.NO_PROGRESS: N_("no progress for {minutes} minutes, since {since}"),
    Kind.GPU_IDLE: N_("all its GPUs are idle for {minutes} minutes, since {since}"),
    Kind.METRIC_ABOVE: N_("{metric} is {value} at step {step}, above {threshold}"),
    Kind.METRIC_BELOW: N_("{metric} is {value} at step {step}, below {threshold}"),
    Kind.JOB_FAILED: N_("the run has failed: {reason}"),
    Kind.JOB_SUCCEEDED: N_("the run has succeeded"),
}


@dataclass(frozen=True)
class Rule:
    """`minutes`: how long it must hold. `reports`: how many new values must say so as well. `threshold`: of the metric kinds; for
    `reward-collapse` the share of the way from its best down to its worst that counts as collapsed."""

    name: str
    kind: Kind
    enabled: bool = True
    metric: str = ""
    threshold: float = 0.0
    minutes: float = 0.0
    reports: int = 1
    set_at: datetime | None = None  # None: a default


# Every project has these; on are those that hardly ever cry wolf.
DEFAULTS: dict[str, Rule] = {
    rule.name: rule
    for rule in (
        Rule("non-finite", Kind.NON_FINITE),
        Rule("no-progress", Kind.NO_PROGRESS, minutes=60),
        Rule("gpu-idle", Kind.GPU_IDLE, minutes=30),
        Rule("job-failed", Kind.JOB_FAILED),
        # Scales of rewards and of the KL differ from experiment to experiment, and who runs hundreds waits for few.
        Rule("reward-collapse", Kind.REWARD_COLLAPSE, False, "train/reward", 0.8, 10, 10),
        Rule("kl-above", Kind.KL_ABOVE, False, "train/kl_penalty", 10.0, 5, 3),
        Rule("job-succeeded", Kind.JOB_SUCCEEDED, enabled=False),
    )
}


@dataclass(frozen=True)
class MetricFact:
    """The newest value of a metric of the main rank (None: NaN), how many there were, and the lowest and highest of all."""

    step: int
    value: float | None
    count: int
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Facts:
    """What is known of one live attempt. `idle_since`: None while one of its cards works or they are not all measured."""

    running_since: datetime | None
    conditions: Mapping[str, Data] = field(default_factory=dict)
    metrics: Mapping[str, MetricFact] = field(default_factory=dict)
    last_metric_at: datetime | None = None
    busy_until: datetime | None = None
    idle_since: datetime | None = None
    cards_known: bool = False


class Stage(StrEnum):
    OK = "ok"
    PENDING = "pending"  # it is so, not yet for long enough
    FIRING = "firing"


@dataclass(frozen=True)
class AlertState:
    """Of one rule about one run. `since`: when the stage began. `calm_since`: of a firing one, since when it is not so any more.
    `count`: reports of its metric when it became pending."""

    stage: Stage = Stage.OK
    since: datetime | None = None
    calm_since: datetime | None = None
    count: int = 0
    data: Data = field(default_factory=dict)


NOTHING = AlertState()


class Effect(StrEnum):
    FIRED = "fired"
    RESOLVED = "resolved"


@dataclass(frozen=True)
class Seen:
    """`holds` None: nothing can be said now. `count`: of reports so far, for rules that ask for several."""

    holds: bool | None
    data: Data = field(default_factory=dict)
    count: int = 0


def step(rule: Rule, before: AlertState, facts: Facts, now: datetime) -> tuple[AlertState, Effect | None]:
    """One look at a live run. The same facts at the same time change nothing the second time."""
    if not rule.enabled:
        return over(before)
    seen = _RULES[rule.kind](rule, before.stage is Stage.FIRING, facts, now) if rule.kind in _RULES else Seen(None)
    if seen.holds is None:
        return before, None
    if before.stage is Stage.FIRING:
        return _while_firing(rule, before, seen, now)
    if not seen.holds:
        return NOTHING, None
    pending = before if before.stage is Stage.PENDING else AlertState(Stage.PENDING, now, None, seen.count)
    assert pending.since is not None
    long_enough = now - pending.since >= timedelta(minutes=_hold(rule))
    often_enough = seen.count - pending.count >= rule.reports - 1
    if long_enough and often_enough:
        return AlertState(Stage.FIRING, now, None, seen.count, seen.data), Effect.FIRED
    return replace(pending, data=seen.data) if before.stage is not Stage.PENDING else pending, None


def over(before: AlertState) -> tuple[AlertState, Effect | None]:
    """The run has ended, or nobody wants to know any more."""
    return NOTHING, Effect.RESOLVED if before.stage is Stage.FIRING else None


def ending(rule: Rule, phase: Phase, ended_at: datetime) -> bool:
    """Whether a rule is about a run that ended like this, and was there when it did."""
    wanted = ENDINGS.get(rule.kind)
    if not rule.enabled or wanted is None or (rule.set_at is not None and ended_at < rule.set_at):
        return False
    return phase is wanted or (wanted is Phase.FAILED and phase is LOST_TOO)


def least_minutes(rules: Iterable[Rule], kind: Kind) -> float | None:
    """How long at least what the enabled ones of a kind look for must have been so; None: nobody wants to know."""
    return min((rule.minutes for rule in rules if rule.enabled and rule.kind is kind), default=None)


def shown_already(kind: Kind, conditions: Collection[str]) -> bool:
    """Whether a condition of the watchdog's says the same; `conditions`: types of those that the job has."""
    return _SHOWN_BY.get(kind) in conditions


def message_of(kind: str) -> str | None:
    """The message id of an alert, which its data fills; None for a kind that this version does not know."""
    return TEXTS[Kind(kind)] if kind in list(Kind) else None


def _while_firing(rule: Rule, before: AlertState, seen: Seen, now: datetime) -> tuple[AlertState, Effect | None]:
    if seen.holds:
        return (before if before.calm_since is None else replace(before, calm_since=None)), None
    calm_since = before.calm_since or now
    if now - calm_since >= timedelta(minutes=min(_hold(rule), CALM_MINUTES)):
        return NOTHING, Effect.RESOLVED
    return replace(before, calm_since=calm_since), None


def _hold(rule: Rule) -> float:
    """Minutes for which a look must say so again; some rules look back over their minutes themselves."""
    return 0.0 if rule.kind in (Kind.NON_FINITE, Kind.NO_PROGRESS, Kind.GPU_IDLE) else rule.minutes


# --- what is so now -----------------------------------------------------------------------------------------------------


def _non_finite(rule: Rule, firing: bool, facts: Facts, now: datetime) -> Seen:
    """The watchdog has counted the reports."""
    found = facts.conditions.get(NOT_FINITE)
    return Seen(found is not None, {} if found is None else dict(found))


def _no_progress(rule: Rule, firing: bool, facts: Facts, now: datetime) -> Seen:
    """A stall as the watchdog sees it, or, of runs that report metrics, no new one for the rule's own time."""
    stalled = facts.conditions.get(STALLED)
    if stalled is not None:
        return Seen(
            holds=True, data={"minutes": str(stalled.get("minutes", "")), "since": str(stalled.get("since", ""))}
        )
    if facts.running_since is None or facts.last_metric_at is None:
        return Seen(holds=False)
    if facts.busy_until is not None and now < facts.busy_until:
        return Seen(holds=False)
    return _since(rule, max(facts.last_metric_at, facts.running_since), now)


def _gpu_idle(rule: Rule, firing: bool, facts: Facts, now: datetime) -> Seen:
    if facts.running_since is None:
        return Seen(holds=False)
    if not facts.cards_known:
        return Seen(holds=None)
    if facts.idle_since is None or (facts.busy_until is not None and now < facts.busy_until):
        return Seen(holds=False)
    return _since(rule, max(facts.idle_since, facts.running_since), now)


def _since(rule: Rule, since: datetime, now: datetime) -> Seen:
    holds = now - since >= timedelta(minutes=rule.minutes)
    return Seen(holds, {"minutes": f"{rule.minutes:g}", "since": f"{since:%Y-%m-%d %H:%M} UTC"})


def _above(rule: Rule, firing: bool, facts: Facts, now: datetime) -> Seen:
    bound = rule.threshold - (MARGIN * abs(rule.threshold) if firing else 0.0)
    return _compared(rule, facts, lambda value: value > bound)


def _below(rule: Rule, firing: bool, facts: Facts, now: datetime) -> Seen:
    bound = rule.threshold + (MARGIN * abs(rule.threshold) if firing else 0.0)
    return _compared(rule, facts, lambda value: value < bound)


def _compared(rule: Rule, facts: Facts, is_so: Callable[[float], bool]) -> Seen:
    fact = facts.metrics.get(rule.metric)
    if fact is None or fact.value is None or math.isnan(fact.value):
        return Seen(holds=None)  # a NaN is another rule's
    data = {
        "metric": rule.metric,
        "value": f"{fact.value:g}",
        "step": fact.step,
        "threshold": f"{rule.threshold:g}",
    }
    return Seen(is_so(fact.value), data, fact.count)


def _collapse(rule: Rule, firing: bool, facts: Facts, now: datetime) -> Seen:
    """Down from its best by most of all that it ever covered; half of that is no collapse any more."""
    fact = facts.metrics.get(rule.metric)
    if fact is None or fact.value is None or fact.high is None or fact.low is None:
        return Seen(holds=None)
    span = fact.high - fact.low
    if not math.isfinite(span) or not math.isfinite(fact.value):
        return Seen(holds=None)
    fallen = fact.high - fact.value
    share = rule.threshold / 2 if firing else rule.threshold
    data = {"metric": rule.metric, "value": f"{fact.value:g}", "step": fact.step, "best": f"{fact.high:g}"}
    return Seen(span > 0 and fallen >= share * span, data, fact.count)


_RULES: dict[Kind, Callable[[Rule, bool, Facts, datetime], Seen]] = {
    Kind.NON_FINITE: _non_finite,
    Kind.REWARD_COLLAPSE: _collapse,
    Kind.KL_ABOVE: _above,
    Kind.NO_PROGRESS: _no_progress,
    Kind.GPU_IDLE: _gpu_idle,
    Kind.METRIC_ABOVE: _above,
    Kind.METRIC_BELOW: _below,
}
