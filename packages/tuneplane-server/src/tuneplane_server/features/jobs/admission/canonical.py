"""The JobSpec has a canonical form (RFC 8785): its capsule is addressed by digest, and JSON carries every number exactly."""

from __future__ import annotations

from collections.abc import Iterator

from tuneplane.contract.digests import canonical_json
from tuneplane.contract.refusals import Refusal
from tuneplane.i18n import _
from tuneplane_server.features.jobs.admission.context import AdmissionContext


def check(context: AdmissionContext) -> Iterator[Refusal]:
    try:
        canonical_json(context.spec.to_json())
    except ValueError as error:
        yield Refusal(
            "spec-invalid",
            _("the JobSpec has no canonical form: {error}").format(error=error),
            _("whole numbers must lie within ±2^53; write larger ones as text"),
        )
