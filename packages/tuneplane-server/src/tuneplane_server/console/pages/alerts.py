"""What the reader was told, and the alerts and webhooks of a project."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Form, Query, Request
from pydantic import ValidationError
from starlette.responses import RedirectResponse, Response

from tuneplane.contract.refusals import RefusedError
from tuneplane_server.console.i18n import _
from tuneplane_server.console.pages.reader import Reader, pages_of, services_of
from tuneplane_server.domain.alerts import ENDINGS, Kind
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.alerts.firing import EVENTS
from tuneplane_server.features.alerts.rules import RuleInput
from tuneplane_server.features.alerts.texts import kind_text
from tuneplane_server.features.alerts.views import alerts_view, delivery_view, notification_view, webhook_view
from tuneplane_server.web.cursors import decode_cursor, encode_cursor
from tuneplane_server.web.problems import ProblemError, from_refusals, refused
from tuneplane_server.web.routing import Router

router = Router(include_in_schema=False)

PAGE = 50
DELIVERIES_SHOWN = 20
NO_STORE = {"Cache-Control": "no-store"}
# What a project may have several of; the other kinds are the defaults, once each.
FREE_KINDS = (Kind.METRIC_ABOVE, Kind.METRIC_BELOW)

Cursor = Annotated[str, Query(max_length=200)]
Name = Annotated[str, Form(max_length=200)]
Word = Annotated[str, Form(max_length=40)]


# --- notifications ----------------------------------------------------------------------------------------------------


@router.get("/notifications")
async def notifications_page(request: Request, reader: Reader, cursor: Cursor = "") -> Response:
    services = services_of(request)
    before = decode_cursor(cursor, str)[0] if cursor else None
    rows, following = await services.alerts.notifications(reader, before=before, limit=PAGE)
    return pages_of(request).page(
        request,
        "alerts/notifications.html",
        reader=reader,
        notifications=[notification_view(row) for row in rows],
        projects=await services.projects.list(reader),
        cursor=cursor,
        next_cursor="" if following is None else encode_cursor(following),
    )


@router.get("/notifications/bell")
async def bell_part(request: Request, reader: Reader) -> Response:
    return pages_of(request).page(request, "_bell.html", reader=reader)


@router.post("/notifications/read")
async def read_notifications(
    request: Request, reader: Reader, note: Annotated[str, Form(max_length=16)] = ""
) -> Response:
    """One of them, or without an id all."""
    await services_of(request).alerts.mark_read(reader, [note] if note else None)
    return RedirectResponse("/notifications", 303)


# --- rules of a project -----------------------------------------------------------------------------------------------


@router.get("/projects/{owner}/{project}/alerts")
async def alerts_page(request: Request, reader: Reader, owner: str, project: str) -> Response:
    return await _alerts_page(request, reader, owner, project)


@router.post("/projects/{owner}/{project}/alerts")
async def set_rule(
    request: Request,
    reader: Reader,
    owner: str,
    project: str,
    name: Name = "",
    kind: Word = "",
    enabled: Word = "",
    metric: Name = "",
    threshold: Word = "",
    minutes: Word = "",
    reports: Word = "",
) -> Response:
    """A new rule or a change; an empty field stays as it is."""
    given = {
        "kind": kind or None,
        "enabled": None if not enabled else enabled == "yes",
        "metric": metric.strip() or None,
        "threshold": threshold.strip() or None,
        "minutes": minutes.strip() or None,
        "reports": reports.strip() or None,
    }
    try:
        rule = RuleInput.model_validate(given)
        await services_of(request).alerts.set_rule(reader, owner, project, name.strip(), rule)
    except ValidationError as error:
        fields = ", ".join(sorted({str(item["loc"][0]) for item in error.errors()}))
        problem = refused("request-invalid", _("{fields}: that is no number a rule can have").format(fields=fields))
        return await _alerts_page(request, reader, owner, project, problem=problem)
    except RefusedError as error:
        return await _alerts_page(request, reader, owner, project, problem=from_refusals(error))
    except ProblemError as problem:
        return await _alerts_page(request, reader, owner, project, problem=problem)
    return _back(owner, project)


@router.post("/projects/{owner}/{project}/alerts/{name}/remove")
async def remove_rule(request: Request, reader: Reader, owner: str, project: str, name: str) -> Response:
    await services_of(request).alerts.remove_rule(reader, owner, project, name)
    return _back(owner, project)


# --- webhooks of a project --------------------------------------------------------------------------------------------


@router.post("/projects/{owner}/{project}/webhooks")
async def add_webhook(
    request: Request,
    reader: Reader,
    owner: str,
    project: str,
    url: Annotated[str, Form(max_length=2000)] = "",
    description: Name = "",
    events: Annotated[list[str] | None, Form()] = None,
) -> Response:
    """The secret is part of this one answer and of no other."""
    wanted = [event for event in events or [] if event in EVENTS]
    try:
        made = await services_of(request).webhooks.add(
            reader,
            owner,
            project,
            url.strip(),
            description.replace("\0", "").strip(),
            [] if len(wanted) == len(EVENTS) else wanted,
        )
    except ProblemError as problem:
        return await _alerts_page(request, reader, owner, project, problem=problem)
    return await _alerts_page(request, reader, owner, project, secret=made.secret, secret_of=made.row.url)


@router.post("/projects/{owner}/{project}/webhooks/{webhook_id}/{act}")
async def act_on_webhook(
    request: Request, reader: Reader, owner: str, project: str, webhook_id: str, act: str
) -> Response:
    webhooks = services_of(request).webhooks
    acts = {"remove": webhooks.remove, "test": webhooks.test, "enable": webhooks.enable}
    if act not in acts:
        raise refused("not-found", _("there is no such page"))
    await acts[act](reader, owner, project, webhook_id)
    return _back(owner, project)


@router.post("/projects/{owner}/{project}/webhooks/{webhook_id}/deliveries/{delivery_id}/redeliver")
async def redeliver(
    request: Request, reader: Reader, owner: str, project: str, webhook_id: str, delivery_id: str
) -> Response:
    await services_of(request).webhooks.redeliver(reader, owner, project, webhook_id, delivery_id)
    return _back(owner, project)


def _back(owner: str, project: str) -> Response:
    return RedirectResponse(f"/projects/{owner}/{project}/alerts", 303)


async def _alerts_page(request: Request, reader: Principal, owner: str, project: str, **shown: Any) -> Response:
    services = services_of(request)
    problem: ProblemError | None = shown.get("problem")
    found = await services.alerts.of_project(reader, owner, project)
    hooks = []
    for row in await services.webhooks.list(reader, owner, project):
        log, _more = await services.webhooks.deliveries(
            reader, owner, project, row.id, before=None, limit=DELIVERIES_SHOWN
        )
        hooks.append({"hook": webhook_view(row), "deliveries": [delivery_view(item) for item in log]})
    return pages_of(request).page(
        request,
        "alerts/project.html",
        reader=reader,
        status=200 if problem is None else problem.status,
        headers=NO_STORE,
        owner=owner,
        project=project,
        alerts=alerts_view(found),
        endings={str(kind) for kind in ENDINGS},
        kinds=[(str(kind), kind_text(kind)) for kind in FREE_KINDS],
        hooks=hooks,
        events=EVENTS,
        **({"problem": None, "secret": "", "secret_of": ""} | shown),
    )
