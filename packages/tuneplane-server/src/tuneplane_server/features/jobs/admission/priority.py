"""Nobody goes further to the front than their quota lets them."""

from __future__ import annotations

from collections.abc import Iterator

from tuneplane.contract.refusals import Refusal
from tuneplane.i18n import _
from tuneplane_server.features.governance.quotas import whose
from tuneplane_server.features.jobs.admission.context import AdmissionContext
from tuneplane_server.features.jobs.admission.words import who_can_change


def check(context: AdmissionContext) -> Iterator[Refusal]:
    wanted = context.spec.spec.priority
    for standing in context.standings.of:
        account, limit = standing.account, standing.account.limits.max_priority
        if limit is not None and wanted > limit:
            yield Refusal(
                "priority-over-limit",
                _("runs of {whose} may have a priority of {limit} at most, and this one asks for {wanted}").format(
                    whose=whose(account.scope, account.name), limit=limit, wanted=wanted
                ),
                _("submit with --priority {limit} or less; {who} can raise it").format(
                    limit=limit, who=who_can_change(context)
                ),
                field="spec.priority",
            )
