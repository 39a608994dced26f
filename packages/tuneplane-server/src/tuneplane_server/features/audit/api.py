"""/api/v1/audit: the record, for administrators."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

from fastapi import Query, Request
from pydantic import BaseModel

from tuneplane_server.features.accounts.deps import Admin, services_of
from tuneplane_server.web.cursors import decode_cursor, encode_cursor
from tuneplane_server.web.routing import Router

router = Router(prefix="/api/v1/audit", tags=["audit"])


class AuditView(BaseModel):
    id: int
    time: datetime
    actor: str
    action: str
    target: str
    address: str
    data: dict[str, Any]


class AuditPage(BaseModel):
    items: list[AuditView]
    next_cursor: str | None


@router.get("")
async def newest(
    request: Request,
    _principal: Admin,
    target: Annotated[str | None, Query(max_length=200)] = None,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> AuditPage:
    """Newest first."""
    before = decode_cursor(cursor, int)[0] if cursor else None
    rows = await services_of(request).audit.newest(before=before, limit=limit + 1, target=target)
    items = [AuditView.model_validate(row, from_attributes=True) for row in rows[:limit]]
    return AuditPage(items=items, next_cursor=encode_cursor(rows[limit - 1].id) if len(rows) > limit else None)
