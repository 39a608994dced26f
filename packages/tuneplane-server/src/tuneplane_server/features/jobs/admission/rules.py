"""The list of rules. Each says everything that it finds; all refusals go back together."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tuneplane.contract.refusals import Refusal
from tuneplane_server.features.jobs.admission import (
    action,
    allowed_images,
    allowed_profiles,
    canonical,
    config,
    duration,
    follow_ups,
    framework,
    gates,
    ingest_url,
    needs,
    observability,
    package,
    priority,
    profile,
    quota,
    recipe,
    references,
    roles,
    runtime,
    shape,
    slurm,
    unsupported,
)
from tuneplane_server.features.jobs.admission.context import AdmissionContext

type Rule = Callable[[AdmissionContext], Iterable[Refusal]]

# The order is the order in which people read the refusals: what, how, where, with what, and who may.
RULES: tuple[Rule, ...] = (
    recipe.check,
    framework.check,
    config.check,
    canonical.check,
    observability.check,
    profile.check,
    shape.check,
    slurm.check,
    roles.check,
    runtime.check,
    needs.check,
    references.check,
    action.check,
    follow_ups.check,
    unsupported.check,
    gates.check,
    ingest_url.check,
    package.check,
    allowed_profiles.check,
    allowed_images.check,
    duration.check,
    priority.check,
    quota.check,
)


def admit(context: AdmissionContext) -> list[Refusal]:
    """Every refusal of every rule; empty when the job is admitted."""
    return [refusal for rule in RULES for refusal in rule(context)]
