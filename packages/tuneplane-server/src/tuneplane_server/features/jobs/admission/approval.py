"""No refusal: a job above the policy's figures is admitted and waits for an administrator."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from tuneplane_server.features.jobs.admission.context import AdmissionContext
from tuneplane_server.features.jobs.admission.duration import longest_run


@dataclass(frozen=True)
class Exceeded:
    """A figure of the policy `approval` that a job is above. `wanted`: None for a run without an end."""

    rule: Literal["gpus", "seconds"]
    limit: int
    wanted: int | None


def needs_approval(context: AdmissionContext) -> bool:
    """Whether an administrator has to let the job run."""
    return any(exceeded(context))


def exceeded(context: AdmissionContext) -> Iterator[Exceeded]:
    """Why an administrator has to. A run without an end is above every figure of seconds."""
    policy, seconds = context.standings.approval, longest_run(context)
    if policy.gpus is not None and context.gpus > policy.gpus:
        yield Exceeded("gpus", policy.gpus, context.gpus)
    if policy.seconds is not None and (seconds is None or seconds > policy.seconds):
        yield Exceeded("seconds", policy.seconds, seconds)
