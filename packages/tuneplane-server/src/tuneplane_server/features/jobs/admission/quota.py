"""What no waiting mends: more than a quota ever allows, GPU-hours of unknown length, a full queue, full storage."""

from __future__ import annotations

from collections.abc import Iterator

from tuneplane.contract.refusals import Refusal
from tuneplane.i18n import _
from tuneplane_server.domain.quotas import Block, Want, never
from tuneplane_server.features.governance.limits import figure, noun
from tuneplane_server.features.governance.quotas import whose
from tuneplane_server.features.governance.usage import Standing
from tuneplane_server.features.jobs.admission.context import AdmissionContext
from tuneplane_server.features.jobs.admission.duration import longest_run
from tuneplane_server.features.jobs.admission.words import who_can_change

GB = 10**9


def check(context: AdmissionContext) -> Iterator[Refusal]:
    want = Want(context.gpus, longest_run(context))
    for standing in context.standings.of:
        block = never(standing.account, want)
        if block is not None:
            yield _too_much(context, standing, block, want)
        elif want.gpus and want.seconds is None and _counts_hours(standing):
            yield _length_unknown(context, standing)
        yield from queue_full(context, standing)
        yield from _storage(context, standing)


def _too_much(context: AdmissionContext, standing: Standing, block: Block, want: Want) -> Refusal:
    account = standing.account
    used = {
        "gpus": account.gpus,
        "jobs": account.jobs,
        "gpu_hours_day": account.gpu_seconds_day / 3600,
        "gpu_hours_month": account.gpu_seconds_month / 3600,
    }[block.rule]
    hours = block.rule in ("gpu_hours_day", "gpu_hours_month")
    smaller = _("ask for fewer GPUs or a shorter --max-duration") if hours and want.seconds else _("ask for fewer GPUs")
    return Refusal(
        "quota-never-fits",
        _("{whose} may have {limit} {noun}, and the job wants {wanted}; it could not start even with nothing else running ({used} in use now)").format(
            whose=whose(account.scope, account.name),
            limit=figure(block.limit),
            noun=noun(block.rule),
            wanted=figure(block.wanted),
            used=figure(used),
        ),
        _("{smaller}, or ask {who} to raise the quota").format(smaller=smaller, who=who_can_change(context)),
        field="spec.limits.max_duration" if hours else "spec.resources.pools",
    )  # fmt: skip


def _counts_hours(standing: Standing) -> bool:
    limits = standing.account.limits
    return limits.gpu_hours_day is not None or limits.gpu_hours_month is not None


def _length_unknown(context: AdmissionContext, standing: Standing) -> Refusal:
    account = standing.account
    rule = "gpu_hours_day" if account.limits.gpu_hours_day is not None else "gpu_hours_month"
    return Refusal(
        "duration-needed",
        _("{whose} may have {limit} {noun}, so a job must say how long it may run").format(
            whose=whose(account.scope, account.name), limit=figure(getattr(account.limits, rule)), noun=noun(rule)
        ),
        _("add --max-duration, for example 2h; {who} can set a longest run for everybody").format(
            who=who_can_change(context)
        ),
        field="spec.limits.max_duration",
    )


def queue_full(context: AdmissionContext, standing: Standing) -> Iterator[Refusal]:
    """Also asked again where the job is inserted, with what is queued then."""
    account, limit = standing.account, standing.account.limits.queued_jobs
    if limit is not None and standing.queued + 1 > limit:
        yield Refusal(
            "quota-exceeded",
            _("{whose} may have {limit} {noun}; {used} wait now, and this is one more").format(
                whose=whose(account.scope, account.name), limit=limit, noun=noun("queued_jobs"), used=standing.queued
            ),
            _("wait until some have started, cancel one, or ask {who} to raise the quota").format(
                who=who_can_change(context)
            ),
        )


def _storage(context: AdmissionContext, standing: Standing) -> Iterator[Refusal]:
    account, limit = standing.account, standing.account.limits.storage_gb
    if limit is not None and standing.stored_bytes >= limit * GB:
        yield Refusal(
            "quota-exceeded",
            _("{whose} may have {limit} {noun}, and {used} GB are stored: files, output and samples of runs").format(
                whose=whose(account.scope, account.name),
                limit=figure(limit),
                noun=noun("storage_gb"),
                used=figure(standing.stored_bytes / GB),
            ),
            _("ask {who} to raise the quota or to make room").format(who=who_can_change(context)),
        )
