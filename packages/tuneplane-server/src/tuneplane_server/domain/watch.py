"""The watchdog's rules: which conditions are true of a running job, given what was seen of it. They change no phase.

Each rule gets the condition's data as it is now (None: not set) and returns what it should be. To set one takes more than to
keep it, so that a value around a threshold does not flap. Where nothing can be said, what is there stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from statistics import median
from typing import Any

from tuneplane_server.domain.phases import StopCause

STALLED, RANK_SILENT, UNHEARD = "stalled", "rank-silent", "unheard"
NOT_FINITE, NEAR_LIMIT = "loss-not-finite", "near-limit"
DISK_LOW, CLOCK_OFF = "disk-low", "clock-off"

HEARD_SECONDS = 60.0  # whose heartbeat is younger is heard now
KEEP = 0.5  # a condition that is set stays down to this share of what sets it
ROOM_AGAIN = 1.2  # so many times the threshold must be free again
OFFSETS_AT_LEAST = 3  # heartbeats before a clock is judged: one may have been on its way for long
NEAR_SHARE, NEAR_SECONDS = 0.1, 1800.0  # the last tenth of a limit, at most half an hour
IDLE = "idle"
QUIET_STATES = ("preparing", "draining")  # the runner's own phases; they have deadlines of their own

type Data = Mapping[str, Any]


@dataclass(frozen=True)
class WatchPolicy:
    """What is looked for (None: not) and what may be done by itself; the policy `watchdog` of the installation."""

    stalled_minutes: int | None = 30
    silent_minutes: int | None = 10
    not_finite_reports: int | None = 3
    disk_free_gb: float | None = 10
    clock_seconds: int | None = 60
    stop_stalled: bool = False
    stop_not_finite: bool = False


@dataclass(frozen=True)
class Beat:
    """The newest heartbeat of one machine, by this console's clock."""

    rank: int
    state: str
    received_at: datetime


@dataclass(frozen=True)
class BadLoss:
    """A loss whose last value is no number. `reports`: how many in a row were seen so."""

    metric: str
    rank: int
    step: int
    value: str
    reports: int


@dataclass(frozen=True)
class CardLoad:
    """Of all the cards of an attempt. `idle_since`: None while at least one of them works."""

    idle_since: datetime | None


@dataclass(frozen=True)
class Sighting:
    """What is known of one live attempt. `last`: when something of a kind came last, None for never.

    `listening_since`: when this console began to listen; what was sent while it was away is still on its way.
    `busy_until`: a phase that reported itself is expected to last until then. `offsets`: machine rank -> seconds that its clock is
    ahead, of several heartbeats. `cards`: what the load of its GPUs says, None when it has none or not all of them are measured.
    """

    running_since: datetime | None  # None: it does not run
    listening_since: datetime
    machines: int = 1
    last: Mapping[str, datetime | None] = field(default_factory=dict)
    busy_until: datetime | None = None
    cards: CardLoad | None = None
    beats: Sequence[Beat] = ()
    bad_loss: BadLoss | None = None
    offsets: Mapping[int, Sequence[float]] = field(default_factory=dict)
    max_seconds: int | None = None
    free_gb: float | None = None


@dataclass(frozen=True)
class Judgement:
    """`conditions`: type -> data of all that are to be set; every other one of the watchdog's is not. `stop`: by policy."""

    conditions: Mapping[str, Data]
    stop: StopCause | None = None


@dataclass(frozen=True)
class Step:
    """One change of a job's conditions; `data` None clears it."""

    condition: str
    data: Data | None


def judge(seen: Sighting, before: Mapping[str, Data], policy: WatchPolicy, now: datetime) -> Judgement:
    """`before`: the job's conditions now, with their data."""
    found = {name: rule(seen, before.get(name), policy, now) for name, rule in RULES.items()}
    return Judgement({name: data for name, data in found.items() if data is not None}, _stop(seen, found, policy, now))


def steps(before: Mapping[str, Data], judgement: Judgement) -> list[Step]:
    """What makes the conditions as judged. One that is about something else now begins anew, with a new time."""
    made: list[Step] = []
    if not before and not judgement.conditions:
        return made
    for name in RULES:
        old, new = before.get(name), judgement.conditions.get(name)
        if old is not None and (new is None or _subject(name, old) != _subject(name, new)):
            made.append(Step(name, None))
            old = None
        if new is not None and old is None:
            made.append(Step(name, new))
    return made


def disk_low(free_gb: float | None, before: bool, threshold_gb: float | None) -> bool:
    """Whether the disk counts as low; `free_gb` None: it cannot be asked, so nothing changes."""
    if threshold_gb is None:
        return False
    if free_gb is None:
        return before
    return free_gb < threshold_gb * (ROOM_AGAIN if before else 1.0)


# --- the rules ----------------------------------------------------------------------------------------------------------


def _stalled(seen: Sighting, before: Data | None, policy: WatchPolicy, now: datetime) -> Data | None:
    if policy.stalled_minutes is None or seen.running_since is None:
        return None
    heard = _heard(seen, now)
    if not heard:
        return before  # its runner is silent too: what it did since is unknown
    if any(beat.state in QUIET_STATES for beat in heard) or (seen.busy_until is not None and now < seen.busy_until):
        return None
    signs = [seen.running_since, *(time for time in seen.last.values() if time is not None)]
    if seen.cards is not None:
        if seen.cards.idle_since is None:
            return None  # it computes, however silently
        signs.append(seen.cards.idle_since)
    if before is None:
        signs.append(seen.listening_since)
    since = max(signs)
    if now - since < timedelta(minutes=policy.stalled_minutes):
        return None
    looked = {} if seen.cards is None else {"gpus": IDLE}
    return before or {"minutes": policy.stalled_minutes, "since": _clock_text(since), **looked}


def _rank_silent(seen: Sighting, before: Data | None, policy: WatchPolicy, now: datetime) -> Data | None:
    """Some machines of several are not heard while others are."""
    if policy.silent_minutes is None or seen.running_since is None or seen.machines <= 1:
        return None
    bound = timedelta(minutes=policy.silent_minutes)
    last = _last_heard(seen, seen.running_since)
    known = _ranks(before)
    silent = {rank: time for rank, time in last.items() if now - time > bound * (KEEP if rank in known else 1.0)}
    if not silent or not any(now - time <= bound * KEEP for time in last.values()):
        return None
    ranks = ", ".join(str(rank) for rank in sorted(silent))
    return {"ranks": ranks, "since": _clock_text(min(silent.values()))}


def _unheard(seen: Sighting, before: Data | None, policy: WatchPolicy, now: datetime) -> Data | None:
    """No machine of the run is heard."""
    if policy.silent_minutes is None or seen.running_since is None:
        return None
    bound = timedelta(minutes=policy.silent_minutes)
    newest = max(_last_heard(seen, seen.running_since).values())
    if before is not None:
        return before if now - newest > bound * KEEP else None
    if now - max(newest, seen.listening_since) <= bound:
        return None
    return {"minutes": policy.silent_minutes, "since": _clock_text(newest)}


def _not_finite(seen: Sighting, before: Data | None, policy: WatchPolicy, now: datetime) -> Data | None:
    bad = seen.bad_loss
    if policy.not_finite_reports is None or seen.running_since is None or bad is None:
        return None
    if before is None and bad.reports < policy.not_finite_reports:
        return None
    return {"metric": bad.metric, "step": bad.step, "rank": bad.rank, "value": bad.value}


def _near_limit(seen: Sighting, before: Data | None, policy: WatchPolicy, now: datetime) -> Data | None:
    if seen.max_seconds is None or seen.running_since is None:
        return None
    end = seen.running_since + timedelta(seconds=seen.max_seconds)
    if (end - now).total_seconds() > min(NEAR_SHARE * seen.max_seconds, NEAR_SECONDS):
        return None
    return {"seconds": seen.max_seconds, "at": _clock_text(end)}


def _disk_low(seen: Sighting, before: Data | None, policy: WatchPolicy, now: datetime) -> Data | None:
    if not disk_low(seen.free_gb, before is not None, policy.disk_free_gb):
        return None
    return before if seen.free_gb is None else {"free_gb": f"{seen.free_gb:.1f}"}


def _clock_off(seen: Sighting, before: Data | None, policy: WatchPolicy, now: datetime) -> Data | None:
    if policy.clock_seconds is None or seen.running_since is None:
        return None
    judged = {rank: median(values) for rank, values in seen.offsets.items() if len(values) >= OFFSETS_AT_LEAST}
    if not judged:
        return before
    rank = max(judged, key=lambda rank: (abs(judged[rank]), -rank))
    if abs(judged[rank]) <= policy.clock_seconds * (1.0 if before is None else KEEP):
        return None
    return {"rank": rank, "seconds": round(judged[rank])}


type Rule = Callable[[Sighting, Data | None, WatchPolicy, datetime], Data | None]
RULES: dict[str, Rule] = {
    STALLED: _stalled,
    RANK_SILENT: _rank_silent,
    UNHEARD: _unheard,
    NOT_FINITE: _not_finite,
    NEAR_LIMIT: _near_limit,
    DISK_LOW: _disk_low,
    CLOCK_OFF: _clock_off,
}
# What a condition is about; figures beside it may move without making it another one.
_SUBJECTS = {RANK_SILENT: ("ranks",), NOT_FINITE: ("metric", "rank"), CLOCK_OFF: ("rank",)}


def _stop(seen: Sighting, found: Mapping[str, Data | None], policy: WatchPolicy, now: datetime) -> StopCause | None:
    """Only on what was seen now: an old condition of a run that nobody hears stops nothing."""
    if policy.stop_stalled and found[STALLED] is not None and _heard(seen, now):
        return StopCause.STALLED
    if policy.stop_not_finite and found[NOT_FINITE] is not None:
        return StopCause.NOT_FINITE
    return None


def _heard(seen: Sighting, now: datetime) -> list[Beat]:
    return [beat for beat in seen.beats if (now - beat.received_at).total_seconds() <= HEARD_SECONDS]


def _last_heard(seen: Sighting, running_since: datetime) -> dict[int, datetime]:
    """Of every machine; one that has never been heard counts from the start of the run."""
    heard = {beat.rank: beat.received_at for beat in seen.beats}
    return {rank: max(heard.get(rank, running_since), running_since) for rank in range(max(1, seen.machines))}


def _ranks(data: Data | None) -> set[int]:
    return set() if data is None else {int(rank) for rank in str(data.get("ranks", "")).split(", ") if rank.isdigit()}


def _subject(name: str, data: Data) -> tuple[Any, ...]:
    return tuple(data.get(key) for key in _SUBJECTS.get(name, ()))


def _clock_text(time: datetime) -> str:
    """Readers have many time zones and a condition's text has one."""
    return f"{time:%Y-%m-%d %H:%M} UTC"
