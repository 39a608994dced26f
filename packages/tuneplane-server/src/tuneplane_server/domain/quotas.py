"""What a user or a project may use: GPUs and jobs at once, GPU-hours of a UTC day and month.

A use of GPUs is reserved when an attempt starts (until the job's longest end) and settled when it has ended. A period's
use is the overlap of each use with it, so a run across midnight or the end of a month counts in both for its share, and
nothing has to be carried over or reset: the figures follow from the rows, also after a restart.

`blocked` is what a queued job waits for, `never` what no waiting mends. A job that is admitted under a limit of GPU-hours
fits a whole period alone, so whoever waits for a period gets its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Literal

type Scope = Literal["user", "project"]
type Rule = Literal["gpus", "jobs", "gpu_hours_day", "gpu_hours_month"]

HOUR_SECONDS = 3600
DAY_SECONDS = 24 * HOUR_SECONDS
LONGEST_MONTH_SECONDS = 31 * DAY_SECONDS
# A use of unknown length is worth at least this, so that it waits where nothing is left.
LEAST_SECONDS = 1
# Reservations are looked at for this long ahead; what lies beyond is seen when it comes nearer.
AHEAD = timedelta(days=400)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """None: no limit. Hours are GPU-hours, storage is in GB (10^9 bytes), seconds are a job's longest run.

    `profiles`: the names allowed. `images`: the patterns allowed (`features/governance/images.py`).
    """

    gpus: int | None = None
    jobs: int | None = None
    queued_jobs: int | None = None
    gpu_hours_day: float | None = None
    gpu_hours_month: float | None = None
    storage_gb: float | None = None
    profiles: tuple[str, ...] | None = None
    images: tuple[str, ...] | None = None
    max_seconds: int | None = None
    max_priority: int | None = None


@dataclass(frozen=True)
class Period:
    """From `start` up to, not including, `end`; both aware, UTC."""

    start: datetime
    end: datetime


type PeriodOf = Callable[[datetime], Period]


@dataclass(frozen=True)
class Use:
    """GPUs of one attempt. `reserved_until`: its longest end, None when its length is unknown; `ended_at`: None while live."""

    gpus: int
    started_at: datetime
    reserved_until: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True)
class Want:
    """What a job would take: GPUs over all its pools, for at most `seconds` (None: unknown)."""

    gpus: int
    seconds: float | None


@dataclass(frozen=True)
class Block:
    """The rule that holds a job back, in the rule's own unit. `until`: when the period's figure begins anew (UTC)."""

    rule: Rule
    limit: float
    used: float
    wanted: float
    until: datetime | None = None


@dataclass(frozen=True)
class Account:
    """One user's or project's limits and present use; `account_of` makes it from the rows.

    `days_ahead`, `months_ahead`: GPU-seconds that live uses have reserved in later periods, by the period's start.
    """

    scope: Scope
    id: str
    name: str
    limits: Limits
    gpus: int = 0
    jobs: int = 0
    gpu_seconds_day: float = 0
    gpu_seconds_month: float = 0
    days_ahead: Mapping[datetime, float] = field(default_factory=dict)
    months_ahead: Mapping[datetime, float] = field(default_factory=dict)

    def with_(self, want: Want, now: datetime) -> Account:
        """The account after one more job of this size was placed at `now`."""
        use = _use_of(want, now)
        return replace(
            self,
            gpus=self.gpus + want.gpus,
            jobs=self.jobs + 1,
            gpu_seconds_day=self.gpu_seconds_day + _seconds_in(day_of(now), use, now),
            gpu_seconds_month=self.gpu_seconds_month + _seconds_in(month_of(now), use, now),
            days_ahead=_reserve_ahead(self.days_ahead, self.limits.gpu_hours_day, use, now, day_of),
            months_ahead=_reserve_ahead(self.months_ahead, self.limits.gpu_hours_month, use, now, month_of),
        )


@dataclass(frozen=True)
class Settled:
    """GPU-seconds of uses that have ended, in the UTC day and month that a figure is asked for."""

    day: float = 0
    month: float = 0


NOTHING_SETTLED = Settled()


def account_of(
    scope: Scope,
    subject_id: str,
    name: str,
    limits: Limits,
    *,
    jobs: int,
    uses: Iterable[Use],
    now: datetime,
    settled: Settled = NOTHING_SETTLED,
) -> Account:
    """What `jobs` live jobs, `uses` and `settled` come to at `now`. `uses`: every live one, and every one that ended in this UTC
    month and is not counted in `settled`.
    """
    known = tuple(uses)
    live = [use for use in known if use.ended_at is None]
    day, month = day_of(now), month_of(now)
    days: Mapping[datetime, float] = {}
    months: Mapping[datetime, float] = {}
    for use in live:
        days = _reserve_ahead(days, limits.gpu_hours_day, use, now, day_of)
        months = _reserve_ahead(months, limits.gpu_hours_month, use, now, month_of)
    return Account(
        scope,
        subject_id,
        name,
        limits,
        gpus=sum(use.gpus for use in live),
        jobs=jobs,
        gpu_seconds_day=settled.day + use_in(day.start, day.end, known, now),
        gpu_seconds_month=settled.month + use_in(month.start, month.end, known, now),
        days_ahead=days,
        months_ahead=months,
    )


def day_of(now: datetime) -> Period:
    """The UTC day that `now` lies in."""
    start = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return Period(start, start + timedelta(days=1))


def month_of(now: datetime) -> Period:
    """The UTC month that `now` lies in."""
    start = day_of(now).start.replace(day=1)
    return Period(start, (start + timedelta(days=31)).replace(day=1))


def use_in(start: datetime, end: datetime, uses: Iterable[Use], now: datetime) -> float:
    """GPU-seconds of `uses` from `start` up to `end`: settled ones until they ended, live ones until the end they reserved.

    A live use without a reservation, or past it, counts until `now`.
    """
    period = Period(start, end)
    return sum(_seconds_in(period, use, now) for use in uses)


def blocked(account: Account, want: Want, now: datetime) -> Block | None:
    """What the job has to wait for before it may start at `now`; None: this account lets it start."""
    limits = account.limits
    if limits.jobs is not None and account.jobs + 1 > limits.jobs:
        return Block("jobs", limits.jobs, account.jobs, 1)
    if not want.gpus:
        return None
    if limits.gpus is not None and account.gpus + want.gpus > limits.gpus:
        return Block("gpus", limits.gpus, account.gpus, want.gpus)
    use = _use_of(want, now)
    if limits.gpu_hours_day is not None:
        days = {day_of(now).start: account.gpu_seconds_day, **account.days_ahead}
        block = _full_period("gpu_hours_day", limits.gpu_hours_day, [(day_of(at), days[at]) for at in days], use, now)
        if block is not None:
            return block
    if limits.gpu_hours_month is not None:
        months = {month_of(now).start: account.gpu_seconds_month, **account.months_ahead}
        full = [(month_of(at), months[at]) for at in months]
        return _full_period("gpu_hours_month", limits.gpu_hours_month, full, use, now)
    return None


def never(account: Account, want: Want) -> Block | None:
    """The limit under which the job could not start even with nothing else running; None: it fits, at some time.

    Of GPU-hours it counts the most that the job can take of one period; an unknown length counts as next to nothing.
    """
    limits = account.limits
    if limits.jobs is not None and limits.jobs < 1:
        return Block("jobs", limits.jobs, 0, 1)
    if not want.gpus:
        return None
    if limits.gpus is not None and want.gpus > limits.gpus:
        return Block("gpus", limits.gpus, 0, want.gpus)
    seconds = LEAST_SECONDS if want.seconds is None else want.seconds
    day = want.gpus * min(seconds, DAY_SECONDS) / HOUR_SECONDS
    if limits.gpu_hours_day is not None and day > limits.gpu_hours_day:
        return Block("gpu_hours_day", limits.gpu_hours_day, 0, day)
    month = want.gpus * min(seconds, LONGEST_MONTH_SECONDS) / HOUR_SECONDS
    if limits.gpu_hours_month is not None and month > limits.gpu_hours_month:
        return Block("gpu_hours_month", limits.gpu_hours_month, 0, month)
    return None


def _full_period(
    rule: Rule, limit: float, periods: Iterable[tuple[Period, float]], use: Use, now: datetime
) -> Block | None:
    """The first of the periods that the use would overfill."""
    for period, used in sorted(periods, key=lambda item: item[0].start):
        wanted = _seconds_in(period, use, now)
        if wanted and used + wanted > limit * HOUR_SECONDS:
            return Block(rule, limit, used / HOUR_SECONDS, wanted / HOUR_SECONDS, period.end)
    return None


def _use_of(want: Want, now: datetime) -> Use:
    seconds = LEAST_SECONDS if want.seconds is None else want.seconds
    return Use(want.gpus, now, now + timedelta(seconds=seconds), None)


def _seconds_in(period: Period, use: Use, now: datetime) -> float:
    overlap = min(_end_of(use, now), period.end) - max(use.started_at, period.start)
    return use.gpus * overlap.total_seconds() if overlap > timedelta() else 0


def _end_of(use: Use, now: datetime) -> datetime:
    if use.ended_at is not None:
        return use.ended_at
    return now if use.reserved_until is None else max(use.reserved_until, now)


def _reserve_ahead(
    reserved: Mapping[datetime, float], limit: float | None, use: Use, now: datetime, period_of: PeriodOf
) -> Mapping[datetime, float]:
    """`reserved` with what a live use takes of each later period; left as it is where no limit asks for it."""
    if limit is None:
        return reserved
    total = dict(reserved)
    for start, seconds in _ahead(use, now, period_of):
        total[start] = total.get(start, 0) + seconds
    return total


def _ahead(use: Use, now: datetime, period_of: PeriodOf) -> Iterator[tuple[datetime, float]]:
    """(start, GPU-seconds) of each period after the present one that a live use reaches into."""
    end = min(_end_of(use, now), now + AHEAD)
    period = period_of(period_of(now).end)
    while period.start < end:
        yield period.start, _seconds_in(period, use, now)
        period = period_of(period.end)
