"""/api/v1/catalog, and /api/v1/organisation/recipes: what an organisation adds to it."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any

from fastapi import Request
from pydantic import BaseModel, BeforeValidator, ConfigDict

from tuneplane.i18n import _
from tuneplane_server.features.accounts.deps import Admin, Reader, client_address, services_of
from tuneplane_server.web.problems import not_found
from tuneplane_server.web.routing import Router

router = Router(prefix="/api/v1", tags=["catalog"])


def _decoded(value: Any) -> bytes:
    """Strict, unlike pydantic's own: half of what was sent must not become a recipe."""
    try:
        return base64.b64decode(value.encode("ascii"), validate=True)
    except (AttributeError, UnicodeEncodeError, binascii.Error):
        raise ValueError(_("must be base64")) from None


class RecipeFiles(BaseModel):
    """`files`: path (`<framework>/<method>/recipe.yaml`, `…/template/…`) -> content in base64. Together they are all that is published."""

    model_config = ConfigDict(extra="forbid")
    files: dict[str, Annotated[bytes, BeforeValidator(_decoded, json_schema_input_type=str)]]


@router.get("/catalog")
async def overview(request: Request, _principal: Reader) -> dict[str, Any]:
    return services_of(request).catalog.overview()


@router.get("/catalog/{framework}/{method}")
async def manifest(request: Request, framework: str, method: str, _principal: Reader) -> dict[str, Any]:
    entry = services_of(request).catalog.entry(f"{framework}/{method}")
    if entry is None:
        raise not_found(_("this server has no recipe “{name}”").format(name=f"{framework}/{method}"[:130]))
    return entry


@router.get("/organisation/recipes")
async def organisation(request: Request, _principal: Reader) -> dict[str, Any]:
    """What was published through this API, so that a client can have the same."""
    files = await services_of(request).catalog.files()
    return {"files": {name: base64.b64encode(content).decode() for name, content in files.items()}}


@router.put("/organisation/recipes")
async def publish(request: Request, body: RecipeFiles, principal: Admin) -> dict[str, Any]:
    """Replace it; nothing changes when anything of it is not sound."""
    return await services_of(request).catalog.publish(principal, body.files, client_address(request))
