"""The package was uploaded by the one who submits."""

from __future__ import annotations

from collections.abc import Iterator

from tuneplane.contract.refusals import Refusal
from tuneplane.i18n import _
from tuneplane_server.features.jobs.admission.context import AdmissionContext


def check(context: AdmissionContext) -> Iterator[Refusal]:
    if not context.dry_run and not context.package_here:
        yield Refusal(
            "package-missing",
            _("the package {digest} is not here").format(digest=context.spec.provenance.package_digest[:12]),
            _("upload it first: PUT /api/v1/packages/<digest>"),
            field="provenance.package_digest",
        )
