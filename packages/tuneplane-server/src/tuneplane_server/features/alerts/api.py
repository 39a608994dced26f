"""/api/v1/projects/{owner}/{project}/alerts: the rules of a project; /api/v1/notifications: what the caller was told."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from tuneplane_server.features.accounts.deps import Reader, Writer, services_of
from tuneplane_server.features.alerts.rules import RuleInput
from tuneplane_server.features.alerts.views import (
    AlertsView,
    NotificationPage,
    RuleView,
    alerts_view,
    notification_view,
    rule_view,
)
from tuneplane_server.web.cursors import decode_cursor, encode_cursor
from tuneplane_server.web.routing import Router

router = Router(prefix="/api/v1", tags=["alerts"])

IDS_AT_ONCE = 200


class ReadBody(BaseModel):
    """`ids` left out or null: everything."""

    model_config = ConfigDict(extra="forbid")
    ids: (
        Annotated[list[Annotated[str, Field(max_length=16, pattern=r"^[^\x00]*$")]], Field(max_length=IDS_AT_ONCE)]
        | None
    ) = None


@router.get("/projects/{owner}/{project}/alerts")
async def alerts(request: Request, principal: Reader, owner: str, project: str) -> AlertsView:
    """All rules of the project, the defaults included, and what fires now."""
    return alerts_view(await services_of(request).alerts.of_project(principal, owner, project))


@router.put("/projects/{owner}/{project}/alerts/{name}")
async def set_alert(
    request: Request, principal: Writer, owner: str, project: str, name: str, body: RuleInput
) -> RuleView:
    """Make a rule or change one; what the body leaves out stays as it is."""
    rule = await services_of(request).alerts.set_rule(principal, owner, project, name, body)
    return rule_view(rule, set_here=True)


@router.delete("/projects/{owner}/{project}/alerts/{name}", status_code=204)
async def remove_alert(request: Request, principal: Writer, owner: str, project: str, name: str) -> Response:
    """A rule of the project's own goes; a default that was changed is as it was."""
    await services_of(request).alerts.remove_rule(principal, owner, project, name)
    return Response(status_code=204)


@router.get("/notifications")
async def notifications(
    request: Request,
    principal: Reader,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    unread: bool = False,
) -> NotificationPage:
    """The newest first. `unread=true`: only those."""
    service = services_of(request).alerts
    before = decode_cursor(cursor, str)[0] if cursor else None
    rows, following = await service.notifications(principal, before=before, limit=limit, unread_only=unread)
    return NotificationPage(
        items=[notification_view(row) for row in rows],
        unread=await service.unread(principal),
        next_cursor=None if following is None else encode_cursor(following),
    )


@router.post("/notifications/read", status_code=204)
async def mark_read(request: Request, principal: Writer, body: ReadBody) -> Response:
    await services_of(request).alerts.mark_read(principal, body.ids)
    return Response(status_code=204)
