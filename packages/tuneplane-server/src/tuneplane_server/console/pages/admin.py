"""What administrators do in the browser: quotas, policies, and jobs that wait for their word."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Form, Query, Request
from starlette.responses import RedirectResponse, Response

from tuneplane.contract.refusals import RefusedError
from tuneplane_server.console.i18n import _
from tuneplane_server.console.pages.reader import Reader, pages_of, services_of, signed_in
from tuneplane_server.console.views import policies as policy_view
from tuneplane_server.console.views import quotas as view
from tuneplane_server.features.accounts.deps import client_address
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.governance.policies import policy_model
from tuneplane_server.features.governance.quotas import Subject
from tuneplane_server.features.governance.views import report_view
from tuneplane_server.features.jobs.presenting import present_list
from tuneplane_server.web.cursors import decode_cursor, encode_cursor
from tuneplane_server.web.problems import ProblemError, from_refusals, refused
from tuneplane_server.web.routing import Router


async def administrator(reader: Annotated[Principal, Depends(signed_in)]) -> None:
    if not reader.acts_as_admin:
        raise refused("forbidden", _("only an administrator may do that"))


router = Router(include_in_schema=False, prefix="/admin", dependencies=[Depends(administrator)])

APPROVALS_AT_ONCE = 50
NO_STORE = {"Cache-Control": "no-store"}

Scope = Annotated[str, Query(max_length=10)]
Name = Annotated[str, Query(max_length=140)]


# --- quotas -----------------------------------------------------------------------------------------------------------


@router.get("/quotas")
async def quotas_page(request: Request, reader: Reader) -> Response:
    quotas = await services_of(request).governance.quotas()
    return pages_of(request).page(
        request, "admin/quotas.html", reader=reader, quotas=[view.row(item) for item in quotas]
    )


@router.get("/quotas/edit")
async def quota_page(request: Request, reader: Reader, scope: Scope = "user", name: Name = "") -> Response:
    """The form for one user, one project (`owner/name`), or with an empty name the default of the scope."""
    subject = await _subject(request, scope, name.strip())
    return await _quota_page(request, reader, subject)


@router.post("/quotas/edit")
async def edit_quota(
    request: Request,
    reader: Reader,
    scope: Annotated[str, Form(max_length=10)] = "",
    name: Annotated[str, Form(max_length=140)] = "",
    version: Annotated[str, Form(max_length=10)] = "",
) -> Response:
    """A form that was made from another version than the quota's own is shown again, with what it is now."""
    subject = await _subject(request, scope, name)
    number = _version(version)
    form = await request.form()
    entered = {key: value for key, value in form.multi_items() if isinstance(value, str)}
    try:
        await services_of(request).governance.set_quota(
            reader, subject, view.limits_of(entered), number, client_address(request)
        )
    except RefusedError as error:
        return await _quota_page(request, reader, subject, from_refusals(error), entered)
    except ProblemError as problem:
        return await _quota_page(request, reader, subject, problem, entered)
    return RedirectResponse("/admin/quotas", 303)


async def _subject(request: Request, scope: str, name: str) -> Subject:
    governance = services_of(request).governance
    if scope not in ("user", "project"):
        raise refused("request-invalid", _("a quota is of a user or of a project"), field="scope")
    if not name:
        return Subject(scope, "", "")
    if scope == "user":
        return await governance.user(name)
    owner, slash, project = name.removeprefix("@").partition("/")
    if not slash:
        raise refused("request-invalid", _("write a project as owner/name"), field="name")
    return await governance.project(owner, project)


async def _quota_page(
    request: Request,
    reader: Principal,
    subject: Subject,
    problem: ProblemError | None = None,
    entered: dict[str, str] | None = None,
) -> Response:
    report = await services_of(request).usage.report(subject)
    return pages_of(request).page(
        request,
        "admin/quota.html",
        reader=reader,
        status=200 if problem is None else problem.status,
        headers=NO_STORE,
        subject=subject,
        quota=report.quota,
        use=None if subject.default else report_view(report).use,
        fields=view.fields(report.quota, entered, problem),
        problem=problem,
    )


# --- policies ---------------------------------------------------------------------------------------------------------


@router.get("/policies")
async def policies_page(request: Request, reader: Reader) -> Response:
    policies = await services_of(request).governance.policies()
    return pages_of(request).page(
        request, "admin/policies.html", reader=reader, policies=[policy_view.row(item) for item in policies]
    )


@router.get("/policies/{name}")
async def policy_page(request: Request, reader: Reader, name: str) -> Response:
    return await _policy_page(request, reader, name)


@router.post("/policies/{name}")
async def edit_policy(
    request: Request, reader: Reader, name: str, version: Annotated[str, Form(max_length=10)] = ""
) -> Response:
    """As of a quota: of two who edit it the later one is told."""
    policy_model(name)
    form = await request.form()
    entered = {key: value for key, value in form.multi_items() if isinstance(value, str)}
    try:
        await services_of(request).governance.set_policy(
            reader, name, policy_view.value_of(name, entered), _version(version), client_address(request)
        )
    except RefusedError as error:
        return await _policy_page(request, reader, name, from_refusals(error), entered)
    except ProblemError as problem:
        return await _policy_page(request, reader, name, problem, entered)
    return RedirectResponse("/admin/policies", 303)


async def _policy_page(
    request: Request,
    reader: Principal,
    name: str,
    problem: ProblemError | None = None,
    entered: dict[str, str] | None = None,
) -> Response:
    policy = await services_of(request).governance.policy(name)
    return pages_of(request).page(
        request,
        "admin/policy.html",
        reader=reader,
        status=200 if problem is None else problem.status,
        headers=NO_STORE,
        policy=policy,
        title=policy_view.title(name),
        about=policy_view.about(name),
        fields=policy_view.fields(policy, entered, problem),
        problem=problem,
    )


def _version(text: str) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise refused("request-invalid", _("the form is too old"), _("reload the page and try again"))
    return int(text)


# --- approvals --------------------------------------------------------------------------------------------------------


@router.get("/approvals")
async def approvals_page(
    request: Request, reader: Reader, cursor: Annotated[str, Query(max_length=200)] = ""
) -> Response:
    """The oldest first."""
    services = services_of(request)
    after = decode_cursor(cursor, str)[0] if cursor else None
    rows = list(await services.jobs.waiting_for_approval(reader, after=after, limit=APPROVALS_AT_ONCE + 1))
    shown = rows[:APPROVALS_AT_ONCE]
    limits: dict[str, Any] = {row.id: row.max_seconds for row in shown}
    return pages_of(request).page(
        request,
        "admin/approvals.html",
        reader=reader,
        jobs=[item.model_dump(by_alias=True) for item in await present_list(services, shown)],
        limits=limits,
        next_cursor=encode_cursor(shown[-1].id) if len(rows) > len(shown) else "",
    )
