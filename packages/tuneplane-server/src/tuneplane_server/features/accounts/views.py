"""How accounts look to the API."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from tuneplane_server.features.accounts.tables import ApiTokenRow


class TokenView(BaseModel):
    id: str
    name: str
    scopes: list[str]
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None


def token_view(row: ApiTokenRow) -> TokenView:
    return TokenView(
        id=row.id,
        name=row.name,
        scopes=row.scopes,
        created_at=row.created_at,
        expires_at=row.expires_at,
        last_used_at=row.last_used_at,
    )
