"""How long a run may take: what it asks for, at most what the quotas allow; who asks for nothing gets that."""

from __future__ import annotations

from collections.abc import Iterator

from tuneplane.contract.refusals import Refusal
from tuneplane.i18n import _
from tuneplane_server.features.governance.quotas import whose
from tuneplane_server.features.jobs.admission.context import AdmissionContext
from tuneplane_server.features.jobs.admission.words import who_can_change


def check(context: AdmissionContext) -> Iterator[Refusal]:
    wanted = context.spec.spec.limits.max_duration
    for standing in context.standings.of:
        account, limit = standing.account, standing.account.limits.max_seconds
        if wanted is not None and limit is not None and wanted > limit:
            yield Refusal(
                "duration-over-limit",
                _("runs of {whose} may take {limit} s, and this one asks for {wanted} s").format(
                    whose=whose(account.scope, account.name), limit=limit, wanted=wanted
                ),
                _("ask for at most {limit} s; {who} can raise it").format(limit=limit, who=who_can_change(context)),
                field="spec.limits.max_duration",
            )


def longest_run(context: AdmissionContext) -> int | None:
    """Seconds after which the run is stopped; None: never."""
    asked = context.spec.spec.limits.max_duration
    if asked is not None:
        return asked
    limits = [standing.account.limits.max_seconds for standing in context.standings.of]
    return min((limit for limit in limits if limit is not None), default=None)
