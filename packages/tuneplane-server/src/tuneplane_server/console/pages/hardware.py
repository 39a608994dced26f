"""The machines: what they do now, and who holds their cards."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from tuneplane_server.console.pages.reader import Reader, pages_of, services_of
from tuneplane_server.console.views import hardware as view
from tuneplane_server.console.views import nodes as nodes_view
from tuneplane_server.console.views import queue as queue_view

router = APIRouter(include_in_schema=False)


@router.get("/hardware")
async def hardware_page(request: Request, reader: Reader) -> Response:
    """The page, or for htmx the part of it that refreshes itself."""
    services = services_of(request)
    overview = await services.hardware.overview(await services.figures.latest())
    machines = queue_view.machines(await services.queue.recent(), reader)
    joined = await services.nodes.list() if services.agent_token is not None else ()
    held = await services.hardware.held_now() if joined else ()
    told = {node["name"] for node in overview["nodes"]}
    shown = view.nodes(overview, machines, services.clock.now(), services.figures.fresh)
    shown += [nodes_view.bare(node) for node in joined if node.name not in told]
    part = "hx-request" in request.headers
    return pages_of(request).page(
        request,
        "hardware/_nodes.html" if part else "hardware/page.html",
        reader=reader,
        nodes=shown,
        care=nodes_view.care(joined, held, machines, reader),
        strangers=nodes_view.strangers(services.nodes.strangers() if joined else (), reader),
    )
