"""/api/v1/packages: is it here, and bring it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Path, Request, Response

from tuneplane.i18n import _
from tuneplane_server.features.accounts.deps import Writer, services_of
from tuneplane_server.web.problems import not_found
from tuneplane_server.web.routing import Router

router = Router(prefix="/api/v1/packages", tags=["packages"])

Digest = Annotated[str, Path(pattern="^[0-9a-f]{64}$")]


@router.head("/{digest}")
async def has_package(request: Request, digest: Digest, principal: Writer) -> Response:
    if not await services_of(request).packages.has(principal, digest):
        raise not_found(_("there is no such package"))
    return Response(status_code=200)


@router.put("/{digest}", status_code=201)
async def put_package(request: Request, digest: Digest, principal: Writer) -> dict[str, str | int]:
    size = await services_of(request).packages.put(principal, digest, request.stream())
    return {"digest": digest, "size": size}
