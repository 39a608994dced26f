"""How long telemetry of runs that are over is kept, and how much of it in all: which of it goes, and why."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum


class Kind(StrEnum):
    """What is kept and removed apart from each other."""

    LOGS = "logs"
    METRICS = "metrics"
    SAMPLES = "samples"


class Why(StrEnum):
    AGE = "age"  # the run ended longer ago than this kind is kept
    SIZE = "size"  # the project keeps more than it may; the oldest goes first


@dataclass(frozen=True)
class Keep:
    """Days after the end of a run, by kind, and bytes of output and samples of all runs of the project. None: for ever, any."""

    days: dict[Kind, int]
    total_bytes: int | None = None

    @property
    def everything(self) -> bool:
        return not self.days and self.total_bytes is None


@dataclass(frozen=True)
class Ended:
    """A run that is over, and what is stored of it. Bytes are those of the raw output and of the samples' JSON;
    `metrics`: series, reported or of the machine."""

    job_id: str
    finished_at: datetime
    log_bytes: int
    sample_bytes: int
    metrics: bool

    def holds(self, kind: Kind) -> bool:
        return {
            Kind.LOGS: self.log_bytes > 0,
            Kind.SAMPLES: self.sample_bytes > 0,
            Kind.METRICS: self.metrics,
        }[kind]


@dataclass(frozen=True)
class Removal:
    job_id: str
    kind: Kind
    why: Why


def removals(keep: Keep, runs: Iterable[Ended], used_bytes: int, now: datetime, limit: int) -> list[Removal]:
    """At most `limit` removals, those of the oldest runs first. `runs`: by their end, oldest first. `used_bytes`: of the whole
    project, live runs too; what live runs use counts, but is never removed.
    """
    found: list[Removal] = []
    excess = 0 if keep.total_bytes is None else used_bytes - keep.total_bytes
    for run in runs:
        for kind in (Kind.SAMPLES, Kind.LOGS, Kind.METRICS):
            size = {Kind.SAMPLES: run.sample_bytes, Kind.LOGS: run.log_bytes}.get(kind, 0)
            why = _why(keep, run, kind, size, excess, now)
            if why is not None:
                found.append(Removal(run.job_id, kind, why))
                excess -= size
            if len(found) >= limit:
                return found
    return found


def _why(keep: Keep, run: Ended, kind: Kind, size: int, excess: int, now: datetime) -> Why | None:
    if not run.holds(kind):
        return None
    days = keep.days.get(kind)
    if days is not None and now - run.finished_at >= timedelta(days=days):
        return Why.AGE
    return Why.SIZE if excess > 0 and size > 0 else None
