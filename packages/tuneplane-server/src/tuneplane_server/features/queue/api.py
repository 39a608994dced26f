"""/api/v1/queue: the line. Own jobs in detail; of others' what a colleague may see."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request

from tuneplane_server.features.accounts.deps import Reader, services_of
from tuneplane_server.features.queue.service import Entry, PlanOf
from tuneplane_server.features.queue.views import LineItem, LinePage, needs_view, waiting_view
from tuneplane_server.web.cursors import decode_cursor, encode_cursor

router = APIRouter(prefix="/api/v1/queue", tags=["queue"])


@router.get("")
async def line(
    request: Request,
    principal: Reader,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> LinePage:
    """Who stands in line, in its order; then own jobs that are queued and do not stand in it, with the reason."""
    last, count = decode_cursor(cursor, str, int) if cursor else (None, 0)
    page = await services_of(request).queue.line(principal, after=last, place=count, limit=limit)
    items = [_item(page.made, entry) for entry in page.entries]
    return LinePage(items=items, total=page.total, next_cursor=None if page.more is None else encode_cursor(*page.more))


def _item(made: PlanOf, entry: Entry) -> LineItem:
    needs = needs_view(made.waiting[entry.wait.job_id].pools)
    item = LineItem(position=entry.wait.position, owner=entry.names.owner, needs=needs, mine=entry.mine)
    if entry.mine:
        item.id, item.project, item.experiment = entry.names.job_id, entry.names.project, entry.names.experiment
        item.display_name, item.waiting = entry.names.display_name, waiting_view(made, entry.wait)
    return item
