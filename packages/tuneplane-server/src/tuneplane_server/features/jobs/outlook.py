"""What would happen to a job that was not submitted: who would have to approve it and by which figure, and what it would wait for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

from tuneplane.i18n import _
from tuneplane_server.domain.line import Waiting
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.jobs.admission.approval import Exceeded, exceeded
from tuneplane_server.features.jobs.admission.context import AdmissionContext
from tuneplane_server.features.jobs.admission.duration import longest_run
from tuneplane_server.features.jobs.admission.words import who_can_change
from tuneplane_server.features.jobs.planning import PREVIEW_RUN_ID
from tuneplane_server.features.queue.views import WaitingView, waiting_view

if TYPE_CHECKING:
    from tuneplane_server.features.queue.service import QueueService


def approval_view(context: AdmissionContext) -> dict[str, Any] | None:
    """None when nobody has to approve it. `rules`: the figures of the policy `approval` that it is above."""
    rules = tuple(exceeded(context))
    if not rules:
        return None
    text = _("{who} has to approve it before it starts: {why}").format(
        who=who_can_change(context), why=_("; ").join(_why(rule) for rule in rules)
    )
    return {"text": text, "rules": [asdict(rule) for rule in rules]}


async def waiting_as_if(
    queue: QueueService, context: AdmissionContext, principal: Principal, now: datetime
) -> WaitingView | None:
    """What it would wait for if it was submitted now, once it is approved; kind `next`: it would start at once."""
    job = _in_line(context, principal, now)
    made = await queue.with_one_more(job)
    wait = made.wait(job.job_id)
    return None if wait is None else waiting_view(made, wait)


def _in_line(context: AdmissionContext, principal: Principal, now: datetime) -> Waiting:
    return Waiting(
        job_id=PREVIEW_RUN_ID,
        attempt=1,
        owner_id=principal.user_id,
        project_id=_project(context),
        pools=tuple(context.pools),
        priority=context.spec.spec.priority,
        created_at=now,
        max_seconds=longest_run(context),
    )


def _project(context: AdmissionContext) -> str:
    """Empty for a project to come, of which the default's limits hold."""
    accounts: Sequence[str] = [item.account.id for item in context.standings.of if item.account.scope == "project"]
    return accounts[0] if accounts else ""


def _why(rule: Exceeded) -> str:
    if rule.rule == "gpus":
        return _("it asks for {wanted} GPUs, and more than {limit} need approval").format(
            wanted=rule.wanted, limit=rule.limit
        )
    if rule.wanted is None:
        return _("it has no longest run, and runs of more than {limit} s need approval").format(limit=rule.limit)
    return _("it may run for {wanted} s, and more than {limit} s need approval").format(
        wanted=rule.wanted, limit=rule.limit
    )
