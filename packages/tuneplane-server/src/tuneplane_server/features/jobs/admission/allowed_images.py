"""A job runs only in images that the quotas allow, wherever the image was found.

What the console made itself for a recipe (no image, or an environment among its runtimes) is always allowed.
"""

from __future__ import annotations

from collections.abc import Iterator

from tuneplane.contract.refusals import Refusal
from tuneplane.i18n import _
from tuneplane_server.domain.images import allowed
from tuneplane_server.features.governance.quotas import whose
from tuneplane_server.features.jobs.admission.context import AdmissionContext
from tuneplane_server.features.jobs.admission.words import who_can_change
from tuneplane_server.features.runtimes.resolving import ResolvedRuntime


def check(context: AdmissionContext) -> Iterator[Refusal]:
    runtime = context.runtime
    if not isinstance(runtime, ResolvedRuntime) or runtime.image is None or runtime.source == "catalog":
        return
    for standing in context.standings.of:
        account, patterns = standing.account, standing.account.limits.images
        if patterns is not None and not allowed(runtime.image, patterns):
            yield Refusal(
                "image-not-allowed",
                _("{whose} may use the images {allowed}, and the job would run in {image}").format(
                    whose=whose(account.scope, account.name), allowed=", ".join(patterns), image=runtime.image
                ),
                _("name one of them with --image; {who} can allow more").format(who=who_can_change(context)),
                field="spec.framework.image",
            )
