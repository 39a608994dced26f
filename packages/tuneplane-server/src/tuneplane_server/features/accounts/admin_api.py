"""/api/v1/admin/users: who may sign in."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from fastapi import Request
from pydantic import BaseModel, ConfigDict, Field

from tuneplane_server.features.accounts.deps import Admin, client_address, services_of
from tuneplane_server.features.accounts.tables import UserRow
from tuneplane_server.web.routing import Router

router = Router(prefix="/api/v1/admin/users", tags=["accounts"])


class UserBody(BaseModel):
    """Without a password only tokens sign the user in."""

    model_config = ConfigDict(extra="forbid")
    username: Annotated[str, Field(max_length=200, pattern=r"^[^\x00-\x1f\x7f]*$")]
    password: Annotated[str | None, Field(max_length=4096)] = None
    admin: Annotated[bool, Field(strict=True)] = False


class UserView(BaseModel):
    """`disabled_at`: since when they cannot sign in; null while they can."""

    username: str
    admin: bool
    created_at: datetime
    disabled_at: datetime | None


class UserList(BaseModel):
    items: list[UserView]


@router.get("")
async def list_users(request: Request, _principal: Admin) -> UserList:
    return UserList(items=[_view(row) for row in await services_of(request).accounts.users()])


@router.post("", status_code=201)
async def add_user(request: Request, body: UserBody, principal: Admin) -> UserView:
    row = await services_of(request).accounts.add_user(
        body.username, body.password, admin=body.admin, actor=principal.username
    )
    return _view(row)


@router.post("/{username}/disable")
async def disable_user(request: Request, username: str, principal: Admin) -> UserView:
    """Their tokens and sessions stop at once; what they run goes on."""
    return await _set_disabled(request, username, principal, disabled=True)


@router.post("/{username}/enable")
async def enable_user(request: Request, username: str, principal: Admin) -> UserView:
    return await _set_disabled(request, username, principal, disabled=False)


async def _set_disabled(request: Request, username: str, principal: Admin, *, disabled: bool) -> UserView:
    row = await services_of(request).accounts.set_disabled(
        username, disabled=disabled, principal=principal, address=client_address(request)
    )
    return _view(row)


def _view(row: UserRow) -> UserView:
    return UserView.model_validate(row, from_attributes=True)
