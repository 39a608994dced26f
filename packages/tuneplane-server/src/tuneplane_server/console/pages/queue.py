"""Who waits for what, in which order, and who holds which cards."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from tuneplane_server.console.pages.reader import Reader, pages_of, services_of
from tuneplane_server.console.views import machine_choice
from tuneplane_server.console.views import queue as view
from tuneplane_server.domain.executor_queue import queue_name
from tuneplane_server.web.cursors import decode_cursor, encode_cursor
from tuneplane_server.web.routing import Router

router = Router(include_in_schema=False)

PAGE = 50


@router.get("/queue")
async def queue_page(
    request: Request,
    reader: Reader,
    cursor: Annotated[str, Query(max_length=200)] = "",
    machine: Annotated[str, Query(max_length=machine_choice.LONGEST)] = "",
    machines: Annotated[int, Query(ge=1, le=machine_choice.MOST_PAGES)] = 1,
) -> Response:
    """The page, or for htmx the part of it that refreshes itself. `cursor`: where in the line; `machine`: part of the names of the
    machines to draw, `machines`: which page of them."""
    last, place = decode_cursor(cursor, str, int) if cursor else (None, 0)
    queue = services_of(request).queue
    line = await queue.line(reader, after=last, place=place, limit=PAGE)
    passed = await queue.passed_on()
    choice = machine_choice.choose(line.made, machine, machines)
    part = "hx-request" in request.headers
    return pages_of(request).page(
        request,
        "queue/_line.html" if part else "queue/page.html",
        reader=reader,
        rows=view.rows(line),
        total=line.total,
        own_queue=queue_name(line.made.own_queue),
        passed=view.passed_on(passed or (), reader),
        machines=view.machines(line.made, reader, choice.names),
        choice=choice,
        longest_name=machine_choice.LONGEST,
        cursor=cursor,
        next_cursor="" if line.more is None else encode_cursor(*line.more),
    )
