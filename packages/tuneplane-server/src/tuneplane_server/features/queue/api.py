"""/api/v1/queue: the line. Own jobs in detail; of others' what a colleague may see."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from fastapi import Query, Request

from tuneplane_server.domain.executor_queue import queue_name
from tuneplane_server.features.accounts.deps import Reader, services_of
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.jobs.in_queue import QueuedNames
from tuneplane_server.features.jobs.passed_on import PassedOn
from tuneplane_server.features.queue.service import Entry, PlanOf, may_see
from tuneplane_server.features.queue.views import (
    ExecutorQueue,
    LineItem,
    LinePage,
    WaitingView,
    executor_view,
    needs_view,
    waiting_view,
)
from tuneplane_server.web.cursors import decode_cursor, encode_cursor
from tuneplane_server.web.routing import Router

router = Router(prefix="/api/v1/queue", tags=["queue"])


@router.get("")
async def line(
    request: Request,
    principal: Reader,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> LinePage:
    """Who stands in line, in its order; then own jobs that are queued and do not stand in it, with the reason."""
    last, count = decode_cursor(cursor, str, int) if cursor else (None, 0)
    queue = services_of(request).queue
    page = await queue.line(principal, after=last, place=count, limit=limit)
    passed = None if cursor else await queue.passed_on()
    return LinePage(
        items=[_item(page.made, entry) for entry in page.entries],
        total=page.total,
        next_cursor=None if page.more is None else encode_cursor(*page.more),
        executor_queue=None if passed is None else _executor_queue(page.made.own_queue, passed, principal),
    )


def _executor_queue(executor: str, passed: Sequence[PassedOn], principal: Principal) -> ExecutorQueue:
    items = [_passed(item, mine=may_see(principal, item)) for item in passed]
    return ExecutorQueue(name=queue_name(executor), items=items)


def _passed(passed: PassedOn, *, mine: bool) -> LineItem:
    view, names = executor_view(passed.seen, passed.demand), passed.names
    item = LineItem(position=view.position, owner=names.owner, needs=view.needs, mine=mine)
    return _told(item, names, view) if mine else item


def _told(item: LineItem, names: QueuedNames, waiting: WaitingView) -> LineItem:
    """With what only those may know who may see the run."""
    item.id, item.project, item.experiment = names.job_id, names.project, names.experiment
    item.display_name, item.waiting = names.display_name, waiting
    return item


def _item(made: PlanOf, entry: Entry) -> LineItem:
    needs = needs_view(made.waiting[entry.wait.job_id].pools)
    item = LineItem(position=entry.wait.position, owner=entry.names.owner, needs=needs, mine=entry.mine)
    return _told(item, entry.names, waiting_view(made, entry.wait)) if entry.mine else item
