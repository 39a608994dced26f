"""/api/v1/admin: quotas, policies, approvals; /api/v1/quota: everyone's own."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from fastapi import Header, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, SkipValidation

from tuneplane.i18n import _
from tuneplane_server.features.accounts.deps import Admin, Reader, client_address, services_of
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.governance.limits import LimitsInput
from tuneplane_server.features.governance.policies import Approval, Drain, Watchdog
from tuneplane_server.features.governance.quotas import Subject
from tuneplane_server.features.governance.views import (
    OwnQuotaView,
    PolicyView,
    QuotaView,
    ReportView,
    policy_view,
    quota_view,
    report_view,
)
from tuneplane_server.features.jobs.presenting import present_list
from tuneplane_server.features.jobs.views import JobView
from tuneplane_server.web.cursors import decode_cursor, encode_cursor
from tuneplane_server.web.problems import refused
from tuneplane_server.web.routing import Router

router = Router(prefix="/api/v1", tags=["governance"])

_ETAG = re.compile(r'(?:W/)?"(\d{1,9})"|(\d{1,9})')
IfMatch = Annotated[
    str | None, Header(description="The version that was read, as ETag; or `version` in the body says it.")
]
Version = Annotated[int | None, Field(strict=True, ge=0, le=999_999_999)]
PolicyName = Literal["drain", "approval", "watchdog"]


class QuotaBody(BaseModel):
    """`limits` replaces all fields that the subject has of its own; {} gives it back to the default.

    `version`: the one that was read (0: there was none); a quota that is not at it any more is not changed.
    """

    model_config = ConfigDict(extra="forbid")
    limits: SkipValidation[LimitsInput]  # checked by the service, which says everything that is wrong with it
    version: Version = None


class PolicyBody(BaseModel):
    """As of a quota. A field of the policy that is left out takes its default."""

    model_config = ConfigDict(extra="forbid")
    value: SkipValidation[Drain | Approval | Watchdog]
    version: Version = None


class QuotaList(BaseModel):
    items: list[QuotaView]


class PolicyList(BaseModel):
    items: list[PolicyView]


class ApprovalPage(BaseModel):
    items: list[JobView]
    next_cursor: str | None


# --- everyone ---------------------------------------------------------------------------------------------------------


@router.get("/quota")
async def own_quota(
    request: Request, principal: Reader, project: Annotated[str | None, Query(max_length=63)] = None
) -> OwnQuotaView:
    """The caller's limits and use, and when daily and monthly figures begin anew; also of one of their projects."""
    services = services_of(request)
    reports = await services.usage.own(principal, project)
    return OwnQuotaView(
        items=[report_view(report) for report in reports], drain=await services.governance.drain()
    )  # fmt: skip


# --- quotas -----------------------------------------------------------------------------------------------------------


@router.get("/admin/quotas")
async def list_quotas(request: Request, _principal: Admin) -> QuotaList:
    """Both defaults, then everyone with a value of their own."""
    return QuotaList(items=[quota_view(quota) for quota in await services_of(request).governance.quotas()])


@router.get("/admin/quotas/defaults/{scope}")
async def show_default(
    request: Request, response: Response, scope: Literal["user", "project"], _principal: Admin
) -> ReportView:
    return await _show(request, response, Subject(scope, "", ""))


@router.put("/admin/quotas/defaults/{scope}")
async def set_default(
    request: Request,
    response: Response,
    scope: Literal["user", "project"],
    body: QuotaBody,
    principal: Admin,
    if_match: IfMatch = None,
) -> QuotaView:
    """What everyone of the scope has who has no value of their own."""
    return await _set(request, response, principal, Subject(scope, "", ""), body, if_match)


@router.get("/admin/quotas/users/{username}")
async def show_user(request: Request, response: Response, username: str, _principal: Admin) -> ReportView:
    return await _show(request, response, await services_of(request).governance.user(username))


@router.put("/admin/quotas/users/{username}")
async def set_user(
    request: Request,
    response: Response,
    username: str,
    body: QuotaBody,
    principal: Admin,
    if_match: IfMatch = None,
) -> QuotaView:
    subject = await services_of(request).governance.user(username)
    return await _set(request, response, principal, subject, body, if_match)


@router.get("/admin/quotas/projects/{owner}/{name}")
async def show_project(request: Request, response: Response, owner: str, name: str, _principal: Admin) -> ReportView:
    return await _show(request, response, await services_of(request).governance.project(owner, name))


@router.put("/admin/quotas/projects/{owner}/{name}")
async def set_project(
    request: Request,
    response: Response,
    owner: str,
    name: str,
    body: QuotaBody,
    principal: Admin,
    if_match: IfMatch = None,
) -> QuotaView:
    subject = await services_of(request).governance.project(owner, name)
    return await _set(request, response, principal, subject, body, if_match)


async def _show(request: Request, response: Response, subject: Subject) -> ReportView:
    report = await services_of(request).usage.report(subject)
    response.headers["ETag"] = f'"{report.quota.version}"'
    return report_view(report)


async def _set(
    request: Request, response: Response, principal: Principal, subject: Subject, body: QuotaBody, if_match: str | None
) -> QuotaView:
    version = _version(body.version, if_match)
    quota = await services_of(request).governance.set_quota(
        principal, subject, body.limits, version, client_address(request)
    )
    response.headers["ETag"] = f'"{quota.version}"'
    return quota_view(quota)


# --- policies ---------------------------------------------------------------------------------------------------------


@router.get("/admin/policies")
async def list_policies(request: Request, _principal: Admin) -> PolicyList:
    return PolicyList(items=[policy_view(policy) for policy in await services_of(request).governance.policies()])


@router.get("/admin/policies/{name}")
async def show_policy(request: Request, response: Response, name: PolicyName, _principal: Admin) -> PolicyView:
    policy = await services_of(request).governance.policy(name)
    response.headers["ETag"] = f'"{policy.version}"'
    return policy_view(policy)


@router.put("/admin/policies/{name}")
async def set_policy(
    request: Request,
    response: Response,
    name: PolicyName,
    body: PolicyBody,
    principal: Admin,
    if_match: IfMatch = None,
) -> PolicyView:
    version = _version(body.version, if_match)
    policy = await services_of(request).governance.set_policy(
        principal, name, body.value, version, client_address(request)
    )
    response.headers["ETag"] = f'"{policy.version}"'
    return policy_view(policy)


# --- approvals --------------------------------------------------------------------------------------------------------


@router.get("/admin/approvals")
async def list_approvals(
    request: Request,
    principal: Admin,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> ApprovalPage:
    """Jobs that wait for an administrator, the oldest first."""
    services = services_of(request)
    after = decode_cursor(cursor, str)[0] if cursor else None
    rows = list(await services.jobs.waiting_for_approval(principal, after=after, limit=limit + 1))
    return ApprovalPage(
        items=await present_list(services, rows[:limit]),
        next_cursor=encode_cursor(rows[limit - 1].id) if len(rows) > limit else None,
    )


def _version(in_body: int | None, if_match: str | None) -> int:
    """The version that the editor has seen. Raises `version-missing` (428) when neither says it, `request-invalid` for nonsense."""
    found: Any = None if if_match is None else _ETAG.fullmatch(if_match.strip())
    if if_match is not None and found is None:
        raise refused("request-invalid", _("If-Match must hold the version that was read"), field="If-Match")
    in_header = None if found is None else int(found[1] or found[2])
    if in_header is not None and in_body is not None and in_header != in_body:
        raise refused("request-invalid", _("If-Match and version in the body differ"), field="version")
    version = in_body if in_header is None else in_header
    if version is None:
        raise refused(
            "version-missing",
            _("the change does not say which version it is of"),
            _("read first, and send the version that was read as version or If-Match"),
            field="version",
        )
    return version
