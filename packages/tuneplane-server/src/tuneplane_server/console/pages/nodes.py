"""The buttons of a node on the hardware page: cordon, drain, use again, remove. Each is a form that comes back to the page."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Form, Request
from starlette.responses import RedirectResponse, Response

from tuneplane_server.console.pages.admin import administrator
from tuneplane_server.console.pages.reader import Reader, services_of
from tuneplane_server.console.views.hardware import place_of
from tuneplane_server.features.accounts.deps import client_address
from tuneplane_server.web.routing import Router

router = Router(include_in_schema=False, prefix="/admin/nodes/{name}", dependencies=[Depends(administrator)])


@router.post("/cordon")
async def cordon(request: Request, reader: Reader, name: str) -> Response:
    await services_of(request).nodes.cordon(name, reader.username, client_address(request))
    return await _to_node(request, name)


@router.post("/drain")
async def drain(request: Request, reader: Reader, name: str) -> Response:
    await services_of(request).nodes.drain(name, reader.username, client_address(request))
    return await _to_node(request, name)


@router.post("/uncordon")
async def uncordon(request: Request, reader: Reader, name: str) -> Response:
    await services_of(request).nodes.uncordon(name, reader.username, client_address(request))
    return await _to_node(request, name)


@router.post("/remove")
async def remove(
    request: Request, reader: Reader, name: str, force: Annotated[str, Form(max_length=3)] = ""
) -> Response:
    """A run that began there after the page was drawn is not given up: the answer names it."""
    await services_of(request).nodes.remove(name, reader.username, client_address(request), force=force == "yes")
    return RedirectResponse("/hardware", 303)


async def _to_node(request: Request, name: str) -> Response:
    names = {node.name for node in await services_of(request).nodes.list()}
    return RedirectResponse(place_of(name, names), 303)
