"""/api/v1/nodes: nodes announce themselves with the token that they share with the console; administrators look after them."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

import msgspec
from fastapi import Depends, Query, Request
from starlette.responses import JSONResponse, Response

from tuneplane.i18n import _
from tuneplane_node.wire import Announcement
from tuneplane_server.features.accounts.deps import Admin, client_address, services_of
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.audit.service import AuditEntry
from tuneplane_server.features.nodes.node import Node
from tuneplane_server.features.nodes.views import NodeList, NodeView, node_view, runs_by_node, stranger_view
from tuneplane_server.services import Services
from tuneplane_server.web.problems import not_found, refused
from tuneplane_server.web.routing import Router

AT_ONCE = 100  # nodes
router = Router(prefix="/api/v1/nodes", tags=["nodes"])


async def _agent(request: Request) -> None:
    """Raises 401 unless the request carries the agent token; a token of a user is none. Guesses are counted by address, and
    audited as long as their number is one that somebody could read."""
    services, address = services_of(request), client_address(request)
    limits = services.accounts.limits
    scheme, _space, given = request.headers.get("authorization", "").partition(" ")
    token = services.agent_token
    if (
        token is not None
        and scheme.lower() == "bearer"
        and hmac.compare_digest(given.strip().encode(), token().encode())
    ):
        return
    await limits.check("agent-token", address)
    if not await limits.exhausted("agent-audit", address) and not await limits.exhausted("agent-audit-all", ""):
        await limits.check("agent-audit", address)
        await limits.check("agent-audit-all", "")
        await services.audit.record_alone(AuditEntry("system:nodes", "node.wrong-token", address, address))
    if token is None:
        raise refused(
            "token-invalid",
            _("this console runs jobs on its own machine and uses no nodes"),
            _("set TUNEPLANE_EXECUTOR=agent and the agent token on the console"),
        )
    raise refused(
        "token-invalid",
        _("the agent token is not the console's"),
        _("give TUNEPLANE_AGENT_TOKEN or TUNEPLANE_AGENT_TOKEN_FILE the same value on the console and on the node"),
    )


@router.post("/announce", dependencies=[Depends(_agent)], response_model=dict[str, Any])
async def announce(request: Request) -> Response:
    """A node says that it is there (`tuneplane_node.wire.Announcement`), again and again; the answer says how it is taken."""
    try:
        announcement = msgspec.json.decode(await request.body(), type=Announcement)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise refused(
            "request-invalid", _("this is no announcement of a node: {why}").format(why=str(error)[:300])
        ) from None
    answer = await services_of(request).nodes.announce(announcement, client_address(request))
    return JSONResponse(answer.to_json(), headers={"Cache-Control": "no-store"})


@router.get("", response_model=NodeList)
async def list_nodes(request: Request, _principal: Admin) -> Response:
    """By name. `refused`: machines that use a name of another one."""
    services = services_of(request)
    runs = runs_by_node(await services.hardware.held_now())
    items = []
    for node in await services.nodes.list():
        items.append(node_view(node, runs.get(node.name, ())))
        if len(items) % AT_ONCE == 0:
            await asyncio.sleep(0)  # others have their turn: a thousand nodes take a tenth of a second
    found = NodeList(items=items, refused=[stranger_view(stranger) for stranger in services.nodes.strangers()])
    # Written here: handed over as it is, all of it would be checked once more.
    return Response(msgspec.json.encode(found), media_type="application/json")


@router.get("/{name}")
async def show_node(request: Request, name: str, _principal: Admin) -> NodeView:
    services = services_of(request)
    node = await services.nodes.get(name)
    if node is None:
        raise not_found(_("there is no node {name}").format(name=name[:80]), _("tp admin node ls lists them"))
    return await _view(services, node)


@router.post("/{name}/cordon")
async def cordon(request: Request, name: str, principal: Admin) -> NodeView:
    """Nothing new begins there; what runs goes on."""
    return await _change(request, name, principal, services_of(request).nodes.cordon)


@router.post("/{name}/uncordon")
async def uncordon(request: Request, name: str, principal: Admin) -> NodeView:
    """It is used again; a node that was removed joins again."""
    return await _change(request, name, principal, services_of(request).nodes.uncordon)


@router.post("/{name}/drain")
async def drain(request: Request, name: str, principal: Admin) -> NodeView:
    """As cordon; it is empty when `runs` is."""
    return await _change(request, name, principal, services_of(request).nodes.drain)


@router.post("/{name}/left-jobs/{job_id}/end")
async def end_left(
    request: Request, name: str, job_id: str, principal: Admin, attempt: Annotated[int, Query(ge=1, le=10**6)]
) -> NodeView:
    """End an attempt that runs there under a node id of before; 409 `conflict` while the ledger says that it holds something."""
    services = services_of(request)
    node = await services.nodes.end_left(name, job_id, attempt, principal.username, client_address(request))
    return await _view(services, node)


@router.delete("/{name}")
async def remove(request: Request, name: str, principal: Admin, force: bool = False) -> NodeView:
    """409 `conflict` with `runs` while some hold something there, unless `force`: those are given up there."""
    services = services_of(request)
    node = await services.nodes.remove(name, principal.username, client_address(request), force=force)
    return await _view(services, node)


async def _change(
    request: Request, name: str, principal: Principal, change: Callable[[str, str, str], Awaitable[Node]]
) -> NodeView:
    return await _view(services_of(request), await change(name, principal.username, client_address(request)))


async def _view(services: Services, node: Node) -> NodeView:
    return node_view(node, runs_by_node(await services.hardware.held_now()).get(node.name, ()))
