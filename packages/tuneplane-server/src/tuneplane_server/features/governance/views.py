"""How quotas, policies and use look to the API."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import BaseModel

from tuneplane_server.domain.quotas import Period, day_of, month_of
from tuneplane_server.features.governance.limits import FIELDS, source_of
from tuneplane_server.features.governance.policies import DrainNow
from tuneplane_server.features.governance.quotas import Quota
from tuneplane_server.features.governance.service import Policy
from tuneplane_server.features.governance.usage import Report

GB, HOUR_SECONDS = 10**9, 3600


class PeriodView(BaseModel):
    """UTC; at `end` the figure begins anew."""

    start: datetime
    end: datetime


class LimitsView(BaseModel):
    """null: no limit. Hours are GPU-hours, storage is in GB (10^9 bytes), `max_seconds` is a run's longest time."""

    gpus: int | None
    jobs: int | None
    queued_jobs: int | None
    gpu_hours_day: float | None
    gpu_hours_month: float | None
    storage_gb: float | None
    profiles: list[str] | None
    images: list[str] | None
    max_seconds: int | None
    max_priority: int | None


class UseView(BaseModel):
    """GPU-hours hold what live runs have reserved. Storage: files, output and samples of runs, once they are registered."""

    gpus: int
    jobs: int
    queued_jobs: int
    gpu_hours_day: float
    gpu_hours_month: float
    storage_gb: float


class QuotaView(BaseModel):
    """`own`: the fields that this user or project has of its own; `limits`: what is in force; `sources`: where each comes from."""

    scope: Literal["user", "project"]
    name: str | None  # null: the default of everyone without a value of their own
    own: dict[str, Any]
    limits: LimitsView
    sources: dict[str, Literal["own", "default"]]
    version: int
    updated_at: datetime | None
    updated_by: str | None


class ReportView(QuotaView):
    """A quota with its use."""

    use: UseView
    day: PeriodView
    month: PeriodView


class PolicyView(BaseModel):
    name: str
    value: dict[str, Any]
    version: int
    updated_at: datetime | None
    updated_by: str | None


class OwnQuotaView(BaseModel):
    """The caller's own quota, then that of the project asked for; and whether nothing is started for now."""

    items: list[ReportView]
    drain: DrainNow


def quota_view(quota: Quota) -> QuotaView:
    return QuotaView(**_quota(quota))


def report_view(report: Report) -> ReportView:
    account, standing = report.standing.account, report.standing
    return ReportView(
        **_quota(report.quota),
        use=UseView(
            gpus=account.gpus,
            jobs=account.jobs,
            queued_jobs=standing.queued,
            gpu_hours_day=round(account.gpu_seconds_day / HOUR_SECONDS, 4),
            gpu_hours_month=round(account.gpu_seconds_month / HOUR_SECONDS, 4),
            storage_gb=round(standing.stored_bytes / GB, 6),
        ),
        day=_period(day_of(report.now)),
        month=_period(month_of(report.now)),
    )


def policy_view(policy: Policy) -> PolicyView:
    return PolicyView(
        name=policy.name,
        value=policy.value.model_dump(mode="json"),
        version=policy.version,
        updated_at=policy.updated_at,
        updated_by=policy.updated_by,
    )


def _quota(quota: Quota) -> dict[str, Any]:
    found = {field: source_of(field, quota.own, quota.default) for field in FIELDS}
    return {
        "scope": quota.subject.scope,
        "name": quota.subject.name or None,
        "own": dict(quota.own),
        "limits": LimitsView.model_validate(quota.limits, from_attributes=True),
        "sources": {field: source for field, source in found.items() if source is not None},
        "version": quota.version,
        "updated_at": quota.updated_at,
        "updated_by": quota.updated_by,
    }


def _period(period: Period) -> PeriodView:
    return PeriodView(start=period.start, end=period.end)
