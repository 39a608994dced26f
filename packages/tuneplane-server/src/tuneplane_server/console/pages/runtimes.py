"""The runtimes: what each is on this console, and the line to add where it cannot run."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from tuneplane_server.console.pages.reader import Reader, pages_of, services_of
from tuneplane_server.features.runtimes.views import overview_view
from tuneplane_server.web.routing import Router

router = Router(include_in_schema=False)


@router.get("/runtimes")
async def runtimes_page(request: Request, reader: Reader) -> Response:
    overview = overview_view(await services_of(request).runtimes.overview())
    return pages_of(request).page(request, "hardware/runtimes.html", reader=reader, runtimes=overview)
