"""No refusal: a job above the policy's figures is admitted and waits for an administrator."""

from __future__ import annotations

from tuneplane_server.features.jobs.admission.context import AdmissionContext
from tuneplane_server.features.jobs.admission.duration import longest_run


def needs_approval(context: AdmissionContext) -> bool:
    """Whether an administrator has to let the job run. A run without an end is above every figure of seconds."""
    policy, seconds = context.standings.approval, longest_run(context)
    many = policy.gpus is not None and context.gpus > policy.gpus
    return many or (policy.seconds is not None and (seconds is None or seconds > policy.seconds))
