"""The page where the `type` of every problem of the API leads; open to anybody who got one."""

from __future__ import annotations

from fastapi import Request
from starlette.responses import Response

from tuneplane_server.console.pages.reader import AnyReader, pages_of
from tuneplane_server.web.problem_table import GROUPS, PAGE
from tuneplane_server.web.routing import Router

router = Router(include_in_schema=False)


@router.get(PAGE)
async def problems(request: Request, reader: AnyReader) -> Response:
    return pages_of(request).page(request, "problems.html", reader=reader, groups=GROUPS)
