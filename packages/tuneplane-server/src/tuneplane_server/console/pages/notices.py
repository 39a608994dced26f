"""The banner above every page, alone, for pages that stay open."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from tuneplane_server.console.pages.reader import Reader, pages_of

router = APIRouter(include_in_schema=False)


@router.get("/notices")
async def notices_part(request: Request, reader: Reader) -> Response:
    return pages_of(request).page(request, "_notices.html", reader=reader)
