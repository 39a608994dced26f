"""Who stands in the queue, what may come of it for each, and whose quota keeps whom: what every way to make a plan shares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from tuneplane_server.domain.placement import Assignment, Hold, NodeRoom, PoolRequest
from tuneplane_server.domain.quotas import Account, Block, Scope, Want, blocked

# Whoever waits for one of these of an account is not overtaken by other jobs of the same account.
_IN_TURN = ("gpus", "jobs")

type AccountKey = tuple[Scope, str]


class WaitKind(StrEnum):
    NEXT = "next"  # it starts now
    CARDS = "cards"  # not enough cards are free where it could run
    CPUS = "cpus"  # not enough CPUs or memory are free
    TURN = "turn"  # it would fit, but would put back one that stands before it
    QUOTA = "quota"  # its owner or project has as much as it may have
    PAUSED = "paused"
    APPROVAL = "awaiting-approval"
    RESTING = "resting"  # a further attempt begins later
    MACHINES = "machines"  # no machine that could run it is there
    DRAINED = "drained"  # nothing is started for now


@dataclass(frozen=True, slots=True)
class Waiting:
    """A queued job. `held_back`: `JobState.held_back`; `max_seconds`: its limit, None without one."""

    job_id: str
    attempt: int
    owner_id: str
    project_id: str
    pools: tuple[PoolRequest, ...]
    priority: int
    created_at: datetime
    max_seconds: int | None = None
    held_back: str | None = None
    not_before: datetime | None = None

    @property
    def gpus(self) -> int:
        return sum(pool.nodes * pool.gpus_per_node for pool in self.pools)


@dataclass(frozen=True, slots=True)
class Live:
    """An attempt that holds something, the oldest first in a plan's arguments. `ends_at`: at the latest, None when unknown."""

    job_id: str
    owner: str
    holds: tuple[Hold, ...]
    ends_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Placement:
    job_id: str
    attempt: int
    assignments: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class Wait:
    """Why a job does not run yet. `position`: in the order of those that may run, from 1; None for the others.

    `behind`: the job that it may not put back (TURN) or overtake (QUOTA). `estimate`: when it starts at the latest, as long as
    nothing more urgent comes; None when nobody can know.
    """

    job_id: str
    kind: WaitKind
    position: int | None = None
    behind: str | None = None
    account: Account | None = None
    block: Block | None = None
    estimate: datetime | None = None


@dataclass(frozen=True)
class Plan:
    """`waits` in the order of the queue, first those that may run. `rooms`: what is left free after `placements`."""

    placements: tuple[Placement, ...]
    waits: Mapping[str, Wait]
    rooms: Mapping[str, NodeRoom]


def held_back(job: Waiting, now: datetime) -> Wait | None:
    if job.held_back is not None:
        return Wait(job.job_id, WaitKind(job.held_back))
    if job.not_before is not None and job.not_before > now:
        return Wait(job.job_id, WaitKind.RESTING)
    return None


class Allowance:
    """What the accounts still allow, one job after the other in the order of the queue."""

    def __init__(self, now: datetime, accounts: Mapping[AccountKey, Account]) -> None:
        self._now, self._accounts = now, dict(accounts)
        self._in_turn: dict[AccountKey, tuple[str, Block]] = {}

    def over_quota(self, job: Waiting) -> Wait | None:
        want = Want(job.gpus, job.max_seconds)
        for key in accounts_of(job):
            account = self._accounts.get(key)
            if account is None:
                continue
            first = self._in_turn.get(key)
            if first is not None and (want.gpus or first[1].rule == "jobs"):
                return Wait(job.job_id, WaitKind.QUOTA, behind=first[0], account=account, block=first[1])
            block = blocked(account, want, self._now)
            if block is not None:
                if block.rule in _IN_TURN:
                    self._in_turn[key] = (job.job_id, block)
                return Wait(job.job_id, WaitKind.QUOTA, account=account, block=block)
        return None

    def take(self, job: Waiting) -> None:
        """The job was placed."""
        want = Want(job.gpus, job.max_seconds)
        for key in accounts_of(job):
            if key in self._accounts:
                self._accounts[key] = self._accounts[key].with_(want, self._now)

    def limits(self, job: Waiting) -> bool:
        """Whether a quota may keep it although there is room."""
        return any(key in self._accounts for key in accounts_of(job))


def accounts_of(job: Waiting) -> tuple[AccountKey, AccountKey]:
    return ("user", job.owner_id), ("project", job.project_id)
