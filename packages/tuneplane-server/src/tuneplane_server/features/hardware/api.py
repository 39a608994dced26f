"""/api/v1/hardware: profiles, nodes with their newest figures, what the executor can do."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import msgspec
from fastapi import Query, Request
from starlette.responses import Response

from tuneplane_server.features.accounts.deps import Reader, services_of
from tuneplane_server.web.cursors import decode_cursor, encode_cursor
from tuneplane_server.web.routing import Router

router = Router(prefix="/api/v1/hardware", tags=["hardware"])


@router.get("", response_model=dict[str, Any])
async def hardware(
    request: Request,
    _principal: Reader,
    cursor: Annotated[str, Query(max_length=500)] = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> Response:
    """Nodes by name, a page of them; `next_cursor` is null on the last one."""
    services = services_of(request)
    after = decode_cursor(cursor, str)[0] if cursor else ""
    nodes = sorted((node for node in await services.hardware.nodes() if node.name > after), key=lambda node: node.name)
    shown = nodes[:limit]
    overview = await services.hardware.overview(shown, await services.figures.latest([node.name for node in shown]))
    more = {
        "next_cursor": encode_cursor(shown[-1].name) if len(nodes) > limit else None,
        "capabilities": {"executor": services.executor.name, **asdict(services.executor.capabilities())},
    }
    # Encoded here: eight cards a node are too much for being looked through value by value first.
    return Response(msgspec.json.encode(overview | more), media_type="application/json")
