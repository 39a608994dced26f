"""The machines: what they do now, and who holds their cards."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from tuneplane_server.console.pages.reader import Reader, pages_of, services_of
from tuneplane_server.console.views import hardware as view
from tuneplane_server.console.views import nodes as nodes_view
from tuneplane_server.console.views import queue as queue_view
from tuneplane_server.web.routing import Router

router = Router(include_in_schema=False)


@router.get("/hardware")
async def hardware_page(
    request: Request, reader: Reader, first: Annotated[str, Query(alias="from", max_length=253)] = ""
) -> Response:
    """The page, or for htmx the part of it that refreshes itself. Of many machines those from that name on, by name."""
    services = services_of(request)
    nodes = {node.name: node for node in await services.hardware.nodes()}
    joined = {node.name: node for node in await services.nodes.list()} if services.agent_token is not None else {}
    names, others = view.page(nodes.keys() | joined.keys(), first)
    overview = await services.hardware.overview(
        [nodes[name] for name in names if name in nodes], await services.figures.latest(names)
    )
    machines = queue_view.machines(await services.queue.recent(), reader, names)
    here = [joined[name] for name in names if name in joined]
    held = await services.hardware.held_now() if here else ()
    shown = view.nodes(overview, machines, services.clock.now(), services.figures.fresh)
    shown += [nodes_view.bare(node) for node in here if node.name not in nodes]
    part = "hx-request" in request.headers
    return pages_of(request).page(
        request,
        "hardware/_nodes.html" if part else "hardware/page.html",
        reader=reader,
        nodes=sorted(shown, key=lambda node: node["name"]),
        care=nodes_view.care(here, held, machines, reader),
        strangers=nodes_view.strangers(services.nodes.strangers() if joined else (), reader),
        place=view.place(first),
        others=others,
    )
