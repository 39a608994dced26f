"""/api/v1/projects/{owner}/{project}/retention: how long the project keeps what its runs reported."""

from __future__ import annotations

from typing import Annotated

from fastapi import Request, Response
from pydantic import BaseModel, ConfigDict, Field

from tuneplane_server.features.accounts.deps import Reader, Writer, client_address, services_of
from tuneplane_server.features.retention.service import Setting
from tuneplane_server.features.retention.views import GB, RetentionValue, RetentionView
from tuneplane_server.web.routing import Router

router = Router(prefix="/api/v1/projects/{owner}/{project}/retention", tags=["projects"])


class RetentionBody(BaseModel):
    """`version`: the one that was read; a setting that is not at it any more is not changed."""

    model_config = ConfigDict(extra="forbid")
    value: RetentionValue
    version: Annotated[int, Field(strict=True, ge=0, le=999_999_999)]


@router.get("")
async def retention(request: Request, response: Response, principal: Reader, owner: str, project: str) -> RetentionView:
    return _view(response, await services_of(request).retention.setting(principal, owner, project))


@router.put("")
async def set_retention(
    request: Request, response: Response, principal: Writer, owner: str, project: str, body: RetentionBody
) -> RetentionView:
    """Replaces all fields; one that is left out keeps for ever. Of runs that are over, what is older goes within minutes."""
    service = services_of(request).retention
    address = client_address(request)
    return _view(response, await service.set(principal, owner, project, body.value, body.version, address))


def _view(response: Response, setting: Setting) -> RetentionView:
    response.headers["ETag"] = f'"{setting.version}"'
    return RetentionView(
        value=setting.value,
        used_gb=setting.used_bytes / GB,
        version=setting.version,
        updated_at=setting.updated_at,
        updated_by=setting.updated_by,
    )
