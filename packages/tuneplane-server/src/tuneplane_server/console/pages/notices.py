"""The banner above every page, alone, for pages that stay open."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from tuneplane_server.console.pages.reader import Reader, pages_of
from tuneplane_server.web.routing import Router

router = Router(include_in_schema=False)


@router.get("/notices")
async def notices_part(request: Request, reader: Reader) -> Response:
    return pages_of(request).page(request, "_notices.html", reader=reader)
