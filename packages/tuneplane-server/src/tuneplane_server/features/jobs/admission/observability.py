"""`external` observability says where the curves are; what a recipe calls `external` is not watched from inside."""

from __future__ import annotations

from collections.abc import Iterator

from tuneplane.contract.refusals import Refusal
from tuneplane.i18n import _
from tuneplane_server.features.jobs.admission.context import AdmissionContext


def check(context: AdmissionContext) -> Iterator[Refusal]:
    framework = context.spec.spec.framework
    if framework.observability == "external" and framework.observability_url is None:
        yield Refusal(
            "observability-url",
            _("a run with external observability needs the address where its curves are"),
            _("add --observability-url https://…"),
            field="spec.framework.observability_url",
        )
