"""/api/v1: set-up, device login, who am I, tokens."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import Depends, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from tuneplane.i18n import _
from tuneplane_server.features.accounts.deps import (
    Reader,
    client_address,
    current_principal,
    require_scope,
    services_of,
)
from tuneplane_server.features.accounts.principal import ADMIN, WRITE, Principal
from tuneplane_server.features.accounts.views import TokenView, token_view
from tuneplane_server.web.problems import refused
from tuneplane_server.web.routing import Router

router = Router(prefix="/api/v1", tags=["accounts"])

Text = Annotated[str, Field(pattern=r"^[^\x00-\x1f\x7f]*$")]


class Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SetupBody(Body):
    token: Text = Field(max_length=200)
    username: Text = Field(max_length=200)
    password: str = Field(max_length=4096)


class DeviceBody(Body):
    client: Text = Field(default="tp", max_length=100)


class DeviceTokenBody(Body):
    device_code: Text = Field(max_length=200)


class TokenBody(Body):
    name: Text = Field(min_length=1, max_length=100)
    scopes: list[Literal["read", "write", "admin"]] = Field(default=["read", "write"], min_length=1, max_length=3)
    expires_in_days: int | None = Field(default=90, ge=1, le=3660)


class MeView(BaseModel):
    username: str
    admin: bool
    token: TokenView | None


@router.post("/setup", status_code=201)
async def set_up(request: Request, body: SetupBody) -> dict[str, str]:
    accounts = services_of(request).accounts
    user = await accounts.set_up(body.token, body.username, body.password, client_address(request))
    return {"username": user.username}


@router.post("/auth/device")
async def start_device(request: Request, body: DeviceBody) -> dict[str, Any]:
    services = services_of(request)
    start = await services.accounts.start_device(body.client, client_address(request))
    address = f"{services.public_address}/device"
    return {
        "device_code": start.device_code,
        "user_code": start.user_code,
        "verification_uri": address,
        "verification_uri_complete": f"{address}?code={start.user_code}",
        "interval": start.interval,
        "expires_in": start.expires_in,
    }


@router.post("/auth/device/token")
async def collect_device(request: Request, body: DeviceTokenBody) -> dict[str, str]:
    issued = await services_of(request).accounts.collect_device(body.device_code, client_address(request))
    return {"token": issued.secret, "username": issued.username}


@router.get("/me")
async def me(request: Request, principal: Annotated[Principal, Depends(current_principal)]) -> MeView:
    row = await services_of(request).accounts.token(principal)
    return MeView(username=principal.username, admin=principal.admin, token=token_view(row) if row else None)


@router.delete("/me/token", status_code=204)
async def revoke_own(request: Request, principal: Annotated[Principal, Depends(current_principal)]) -> Response:
    """The token used for this very request stops working: `tp logout`."""
    if principal.token_id is None:
        raise refused("request-invalid", _("this request was not made with a token"))
    await services_of(request).accounts.revoke_token(principal, principal.token_id)
    return Response(status_code=204)


@router.get("/tokens")
async def list_tokens(request: Request, principal: Reader) -> dict[str, list[TokenView]]:
    return {"items": [token_view(row) for row in await services_of(request).accounts.tokens(principal)]}


@router.post("/tokens", status_code=201)
async def create_token(
    request: Request, body: TokenBody, principal: Annotated[Principal, Depends(require_scope(WRITE))]
) -> dict[str, str]:
    """A token can never do more than the credential that made it."""
    wanted = set(body.scopes)
    if not wanted <= principal.scopes or (ADMIN in wanted and not principal.admin):
        raise refused("forbidden", _("a token cannot have scopes that you do not have yourself"), field="scopes")
    issued = await services_of(request).accounts.create_token(
        principal, body.name, list(body.scopes), body.expires_in_days, actor=principal.username
    )
    return {"id": issued.id, "token": issued.secret}


@router.delete("/tokens/{token_id}", status_code=204)
async def revoke_token(
    request: Request, token_id: str, principal: Annotated[Principal, Depends(require_scope(WRITE))]
) -> Response:
    await services_of(request).accounts.revoke_token(principal, token_id)
    return Response(status_code=204)
