"""/api/v1/catalog."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from tuneplane.i18n import _
from tuneplane_server.features.accounts.deps import Reader, services_of
from tuneplane_server.web.problems import not_found

router = APIRouter(prefix="/api/v1/catalog", tags=["catalog"])


@router.get("")
async def overview(request: Request, _principal: Reader) -> dict[str, Any]:
    return services_of(request).catalog.overview()


@router.get("/{framework}/{method}")
async def manifest(request: Request, framework: str, method: str, _principal: Reader) -> dict[str, Any]:
    entry = services_of(request).catalog.entry(f"{framework}/{method}")
    if entry is None:
        raise not_found(_("this server has no recipe “{name}”").format(name=f"{framework}/{method}"[:130]))
    return entry
