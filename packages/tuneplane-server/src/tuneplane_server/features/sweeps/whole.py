"""Admission of a whole sweep: what quotas say to all its trials together, before the first one is submitted.

What each trial's job asks for is admitted as any job; here is what only the sum breaks: cards and jobs at once, room in the queue,
GPU-hours of the month.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tuneplane.contract.refusals import Refusal
from tuneplane.i18n import _
from tuneplane.sweeps.words import DEFAULT_PARALLEL
from tuneplane_server.domain.quotas import HOUR_SECONDS, Limits
from tuneplane_server.features.governance.limits import figure, noun
from tuneplane_server.features.governance.quotas import whose
from tuneplane_server.features.governance.usage import Standing
from tuneplane_server.features.jobs.admission.context import AdmissionContext
from tuneplane_server.features.jobs.admission.duration import longest_run
from tuneplane_server.features.jobs.admission.words import who_can_change


@dataclass(frozen=True)
class Whole:
    """`trials`: still to run; `max_parallel`: at once, at most."""

    trials: int
    max_parallel: int


def most_at_once(context: AdmissionContext, trials: int) -> int:
    """How many trials run at once when nobody says: a few, at most what the quotas let run beside each other."""
    most = min(DEFAULT_PARALLEL, trials)
    for standing in context.standings.of:
        limits = standing.account.limits
        most = min(most, *(most_by(limits, context.gpus)), _room(standing, limits))
    return max(1, most)


def most_by(limits: Limits, gpus: int) -> tuple[int, ...]:
    found = [limit for limit in (limits.jobs,) if limit is not None]
    if limits.gpus is not None and gpus:
        found.append(limits.gpus // gpus)
    return tuple(found) or (DEFAULT_PARALLEL,)


def check_whole(context: AdmissionContext, whole: Whole) -> Iterator[Refusal]:
    for standing in context.standings.of:
        limits, gpus = standing.account.limits, context.gpus * whole.max_parallel
        if limits.jobs is not None and whole.max_parallel > limits.jobs >= 1:
            yield _at_once(context, standing, "jobs", limits.jobs, whole.max_parallel, whole)
        if limits.gpus is not None and gpus > limits.gpus >= context.gpus:
            yield _at_once(context, standing, "gpus", limits.gpus, gpus, whole)
        if (
            limits.queued_jobs is not None
            and standing.queued + 1 <= limits.queued_jobs < standing.queued + whole.max_parallel
        ):
            yield _queue(context, standing, limits.queued_jobs, whole)
        yield from _month(context, standing, whole)


def _room(standing: Standing, limits: Limits) -> int:
    return DEFAULT_PARALLEL if limits.queued_jobs is None else limits.queued_jobs - standing.queued


def _at_once(
    context: AdmissionContext, standing: Standing, rule: str, limit: int, wanted: int, whole: Whole
) -> Refusal:
    account = standing.account
    return Refusal(
        "quota-never-fits",
        _("{whose} may have {limit} {noun}, and {trials} trials at once want {wanted}").format(
            whose=whose(account.scope, account.name),
            limit=figure(limit),
            noun=noun(rule),
            trials=whole.max_parallel,
            wanted=wanted,
        ),
        _("lower max_parallel, or ask {who} to raise the quota").format(who=who_can_change(context)),
        field="sweep.max_parallel",
    )


def _queue(context: AdmissionContext, standing: Standing, limit: int, whole: Whole) -> Refusal:
    account = standing.account
    return Refusal(
        "quota-exceeded",
        _("{whose} may have {limit} {noun}; {used} wait now, and {trials} trials at once may all have to").format(
            whose=whose(account.scope, account.name),
            limit=limit,
            noun=noun("queued_jobs"),
            used=standing.queued,
            trials=whole.max_parallel,
        ),
        _("lower max_parallel, or wait until some of your jobs have started"),
        field="sweep.max_parallel",
    )


def _month(context: AdmissionContext, standing: Standing, whole: Whole) -> Iterator[Refusal]:
    account, seconds = standing.account, longest_run(context)
    limit = account.limits.gpu_hours_month
    if limit is None or seconds is None or not context.gpus:
        return  # of unknown length: admission of each trial has refused it
    wanted = whole.trials * context.gpus * seconds / HOUR_SECONDS
    used = account.gpu_seconds_month / HOUR_SECONDS
    if context.gpus * seconds / HOUR_SECONDS <= limit < used + wanted:
        yield Refusal(
            "quota-exceeded",
            _(
                "{whose} may have {limit} {noun}; {used} are used or reserved, and {trials} trials of {gpus} GPUs for up to {hours} h want {wanted}"
            ).format(
                whose=whose(account.scope, account.name),
                limit=figure(limit),
                noun=noun("gpu_hours_month"),
                used=figure(used),
                trials=whole.trials,
                gpus=context.gpus,
                hours=figure(seconds / HOUR_SECONDS),
                wanted=figure(wanted),
            ),
            _("run fewer trials or shorter ones (--max-duration), wait for the next month, or ask {who}").format(
                who=who_can_change(context)
            ),
            field="sweep.trials",
        )
