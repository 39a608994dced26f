"""Some recipes train nothing without a model or data that the job names."""

from __future__ import annotations

from collections.abc import Iterator

from tuneplane.contract.refusals import Refusal
from tuneplane.recipes.needs import missing_inputs
from tuneplane_server.features.jobs.admission.context import AdmissionContext


def check(context: AdmissionContext) -> Iterator[Refusal]:
    if context.entry is not None and context.spec.spec.action is None:
        spec = context.spec.spec
        yield from missing_inputs(context.manifest, spec.model.to_json(), spec.data.to_json())
