"""The words of the ledger and the state that `transition` works on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class Phase(StrEnum):
    QUEUED = "queued"
    STARTING = "starting"
    RUNNING = "running"
    FINISHING = "finishing"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    LOST = "lost"

    @property
    def terminal(self) -> bool:
        return self in TERMINAL


TERMINAL = frozenset({Phase.SUCCEEDED, Phase.FAILED, Phase.CANCELLED, Phase.LOST})
# Phases in which something of the job may be out there on a machine.
LIVE = (Phase.STARTING, Phase.RUNNING, Phase.FINISHING)


class Desired(StrEnum):
    RUN = "run"
    CANCEL = "cancel"


class Cleanup(StrEnum):
    """`none`: nothing to clean yet; `pending`: the attempt is over, its cards are still held; `confirmed`: proved gone."""

    NONE = "none"
    PENDING = "pending"
    CONFIRMED = "confirmed"


class StopCause(StrEnum):
    """Why we ourselves stop an attempt; the first cause stays."""

    CANCEL = "cancel"
    TIME_LIMIT = "time-limit"
    PAUSE = "pause"
    STALLED = "stalled"  # by policy: nothing was heard of its trainer for too long
    NOT_FINITE = "loss-not-finite"  # by policy
    PRUNED = "sweep-pruned"  # by its sweep: other trials were better at the same step


class Approval(StrEnum):
    """`none`: not needed; `pending`: it waits for an administrator; `given`: somebody said yes."""

    NONE = "none"
    PENDING = "pending"
    GIVEN = "given"


@dataclass(frozen=True)
class Reason:
    """`code` of the reason table; `data` fills its text: names and numbers only."""

    code: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Verdict:
    """How an attempt ended. `succeeded` exists only on the runner's own word: an exit code alone proves nothing."""

    phase: Phase
    reason: Reason | None
    from_outcome: bool

    def __post_init__(self) -> None:
        if not self.phase.terminal:
            raise ValueError(f"{self.phase} ends nothing")
        if (self.phase is Phase.SUCCEEDED) != (self.reason is None):
            raise ValueError("every end but success has a reason")
        if self.phase is Phase.SUCCEEDED and not self.from_outcome:
            raise ValueError("success needs the runner's outcome record")


@dataclass(frozen=True)
class Condition:
    """Something true of a job for now that is no phase, for example `unreachable`."""

    type: str
    since: datetime
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class JobState:
    """The part of a job row that events change. `handle` is what the executor gave at launch, None before.

    `paused`: somebody holds it back; `not_before`: a further attempt rests until then. Neither is a phase: the job is queued.
    """

    phase: Phase
    phase_since: datetime
    desired: Desired = Desired.RUN
    stop_cause: StopCause | None = None
    conditions: tuple[Condition, ...] = ()
    verdict: Verdict | None = None
    reason: Reason | None = None
    cleanup: Cleanup = Cleanup.NONE
    attempt: int = 1
    handle: Mapping[str, Any] | None = None
    paused: bool = False
    approval: Approval = Approval.NONE
    not_before: datetime | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None

    @property
    def held_back(self) -> str | None:
        """The word for why a queued job is not to be placed whatever is free; None when it may be."""
        if self.paused:
            return "paused"
        return "awaiting-approval" if self.approval is Approval.PENDING else None

    def has_condition(self, kind: str) -> bool:
        return any(condition.type == kind for condition in self.conditions)
