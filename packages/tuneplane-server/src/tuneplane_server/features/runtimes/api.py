"""/api/v1/runtimes: which runtimes there are, and what each is on this console."""

from __future__ import annotations

from fastapi import Request

from tuneplane_server.features.accounts.deps import Reader, services_of
from tuneplane_server.features.runtimes.views import RuntimeList, overview_view
from tuneplane_server.web.routing import Router

router = Router(prefix="/api/v1/runtimes", tags=["runtimes"])


@router.get("")
async def list_runtimes(request: Request, _principal: Reader) -> RuntimeList:
    """By id. The registry file is looked at first."""
    return overview_view(await services_of(request).runtimes.overview())
