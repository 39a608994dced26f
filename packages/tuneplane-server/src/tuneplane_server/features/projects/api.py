"""/api/v1/projects: the caller's projects."""

from __future__ import annotations

from datetime import datetime

from fastapi import Request
from pydantic import BaseModel

from tuneplane_server.features.accounts.deps import Reader, services_of
from tuneplane_server.web.routing import Router

router = Router(prefix="/api/v1/projects", tags=["projects"])


class ProjectView(BaseModel):
    owner: str
    name: str
    created_at: datetime


@router.get("")
async def list_projects(request: Request, principal: Reader) -> dict[str, list[ProjectView]]:
    rows = await services_of(request).projects.list(principal)
    return {"items": [ProjectView(owner=row.owner, name=row.name, created_at=row.created_at) for row in rows]}
