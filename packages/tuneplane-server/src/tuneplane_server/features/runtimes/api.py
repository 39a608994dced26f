"""/api/v1/runtimes: which runtimes there are, and what each is on this console."""

from __future__ import annotations

from fastapi import APIRouter, Request

from tuneplane_server.features.accounts.deps import Reader, services_of
from tuneplane_server.features.runtimes.views import RuntimeList, overview_view

router = APIRouter(prefix="/api/v1/runtimes", tags=["runtimes"])


@router.get("")
async def list_runtimes(request: Request, _principal: Reader) -> RuntimeList:
    """By id. The registry file is looked at first."""
    return overview_view(await services_of(request).runtimes.overview())
