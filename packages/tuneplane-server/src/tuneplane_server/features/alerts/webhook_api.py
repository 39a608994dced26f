"""/api/v1/projects/{owner}/{project}/webhooks: where a project's alerts are sent, and how that went."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from tuneplane_server.features.accounts.deps import Reader, Writer, services_of
from tuneplane_server.features.alerts.views import (
    DeliveryPage,
    DeliveryView,
    NewWebhookView,
    WebhookView,
    delivery_view,
    webhook_view,
)
from tuneplane_server.web.cursors import decode_cursor, encode_cursor
from tuneplane_server.web.routing import Router

router = Router(prefix="/api/v1/projects/{owner}/{project}/webhooks", tags=["alerts"])

EventName = Literal["alert.fired", "alert.resolved", "job.failed", "job.succeeded"]


class WebhookBody(BaseModel):
    """`events`: empty for all."""

    model_config = ConfigDict(extra="forbid")
    url: Annotated[str, Field(min_length=1, max_length=2000)]
    description: Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f]*$")] = ""
    events: Annotated[list[EventName], Field(max_length=8)] = []


class WebhookList(BaseModel):
    items: list[WebhookView]


@router.get("")
async def list_webhooks(request: Request, principal: Reader, owner: str, project: str) -> WebhookList:
    rows = await services_of(request).webhooks.list(principal, owner, project)
    return WebhookList(items=[webhook_view(row) for row in rows])


@router.post("", status_code=201)
async def add_webhook(
    request: Request, principal: Writer, owner: str, project: str, body: WebhookBody
) -> NewWebhookView:
    """The secret that signs is in this answer and in no other."""
    webhooks = services_of(request).webhooks
    made = await webhooks.add(principal, owner, project, body.url, body.description, body.events)
    return NewWebhookView(webhook=webhook_view(made.row), secret=made.secret)


@router.delete("/{webhook_id}", status_code=204)
async def remove_webhook(request: Request, principal: Writer, owner: str, project: str, webhook_id: str) -> Response:
    await services_of(request).webhooks.remove(principal, owner, project, webhook_id)
    return Response(status_code=204)


@router.post("/{webhook_id}/enable")
async def enable_webhook(request: Request, principal: Writer, owner: str, project: str, webhook_id: str) -> WebhookView:
    """One that had answered 410 Gone is called again."""
    return webhook_view(await services_of(request).webhooks.enable(principal, owner, project, webhook_id))


@router.post("/{webhook_id}/test", status_code=202)
async def test_webhook(request: Request, principal: Writer, owner: str, project: str, webhook_id: str) -> DeliveryView:
    """Sends `test.ping`; how it went is in the list of deliveries."""
    return delivery_view(await services_of(request).webhooks.test(principal, owner, project, webhook_id))


@router.get("/{webhook_id}/deliveries")
async def deliveries(
    request: Request,
    principal: Reader,
    owner: str,
    project: str,
    webhook_id: str,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> DeliveryPage:
    """The newest first, each with its tries. Kept for 30 days."""
    before = decode_cursor(cursor, str)[0] if cursor else None
    rows, following = await services_of(request).webhooks.deliveries(
        principal, owner, project, webhook_id, before=before, limit=limit
    )
    items = [delivery_view(row) for row in rows]
    return DeliveryPage(items=items, next_cursor=None if following is None else encode_cursor(following))


@router.post("/{webhook_id}/deliveries/{delivery_id}/redeliver", status_code=202)
async def redeliver(
    request: Request, principal: Writer, owner: str, project: str, webhook_id: str, delivery_id: str
) -> DeliveryView:
    """The same message under the same id, once more."""
    webhooks = services_of(request).webhooks
    return delivery_view(await webhooks.redeliver(principal, owner, project, webhook_id, delivery_id))
