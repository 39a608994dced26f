"""A pool runs only on profiles that the quotas allow."""

from __future__ import annotations

from collections.abc import Iterator

from tuneplane.contract.refusals import Refusal
from tuneplane.i18n import _
from tuneplane_server.features.governance.quotas import whose
from tuneplane_server.features.jobs.admission.context import AdmissionContext
from tuneplane_server.features.jobs.admission.words import who_can_change


def check(context: AdmissionContext) -> Iterator[Refusal]:
    for standing in context.standings.of:
        account, profiles = standing.account, standing.account.limits.profiles
        if profiles is None:
            continue
        for index, pool in enumerate(context.spec.spec.resources.pools):
            if pool.series not in profiles:
                yield Refusal(
                    "profile-not-allowed",
                    _("{whose} may use the profiles {allowed}, not {profile}").format(
                        whose=whose(account.scope, account.name), allowed=", ".join(profiles), profile=pool.series
                    ),
                    _("use one of them; {who} can allow more").format(who=who_can_change(context)),
                    field=f"spec.resources.pools.{index}.series",
                )
