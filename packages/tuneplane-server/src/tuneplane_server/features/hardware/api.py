"""/api/v1/hardware: profiles, nodes with their newest figures, what the executor can do."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request

from tuneplane_server.features.accounts.deps import Reader, services_of

router = APIRouter(prefix="/api/v1/hardware", tags=["hardware"])


@router.get("")
async def hardware(request: Request, _principal: Reader) -> dict[str, Any]:
    services = services_of(request)
    overview = await services.hardware.overview(await services.figures.latest())
    return overview | {"capabilities": {"executor": services.executor.name, **asdict(services.executor.capabilities())}}
