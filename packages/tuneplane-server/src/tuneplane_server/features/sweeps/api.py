"""/api/v1/sweeps: make one, list, look, cancel, resume."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import Header, Query, Request, Response
from pydantic import BaseModel

from tuneplane.contract.names import is_segment
from tuneplane.i18n import _
from tuneplane_server.domain.sweeps import SweepState
from tuneplane_server.features.accounts.deps import Reader, Writer, client_address, services_of
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.jobs.steering import Asked
from tuneplane_server.features.sweeps.presenting import present, present_list
from tuneplane_server.features.sweeps.views import DryRunView, SweepDetail, SweepView, dry_run_view
from tuneplane_server.web.cursors import decode_cursor, encode_cursor
from tuneplane_server.web.problems import refused
from tuneplane_server.web.routing import Router

router = Router(prefix="/api/v1/sweeps", tags=["sweeps"])


class SweepPage(BaseModel):
    items: list[SweepView]
    next_cursor: str | None


@router.post("", status_code=201, responses={200: {"model": DryRunView}}, response_model=SweepDetail | DryRunView)
async def create(
    request: Request,
    response: Response,
    principal: Writer,
    dry_run: bool = False,
    idempotency_key: Annotated[str | None, Header()] = None,
) -> SweepDetail | DryRunView:
    """The body is `{sweep, job}`: what varies, and the JobSpec that it varies in. All trials are admitted together, or none."""
    services = services_of(request)
    raw = await _json_body(request)
    if dry_run:
        found = await services.sweeps.consider(principal, raw, ingest_address=services.ingest_address, dry_run=True)
        response.status_code = 200
        return dry_run_view(found)
    row = await services.sweeps.create(_asked(request, principal, idempotency_key), raw)
    return await present(services, row)


@router.get("")
async def list_sweeps(
    request: Request,
    principal: Reader,
    project: Annotated[str | None, Query(max_length=130)] = None,
    state: Annotated[list[SweepState] | None, Query(max_length=6)] = None,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> SweepPage:
    """Newest first, without their trials. `project` is a name, or `<owner>/<name>`."""
    services = services_of(request)
    owner, name = _project(project)
    before = decode_cursor(cursor, str)[0] if cursor else None
    rows, after = await services.sweeps.list(
        principal, owner=owner, project=name, states=[str(item) for item in state or ()], before=before, limit=limit
    )
    return SweepPage(
        items=await present_list(services, rows), next_cursor=None if after is None else encode_cursor(after)
    )


@router.get("/{sweep_id}")
async def show(request: Request, sweep_id: str, principal: Reader) -> SweepDetail:
    """With all its trials."""
    services = services_of(request)
    return await present(services, await services.sweeps.get(principal, sweep_id))


@router.post("/{sweep_id}/cancel", status_code=202)
async def cancel(request: Request, sweep_id: str, principal: Writer) -> SweepDetail:
    """No more trials are begun, and those that live are cancelled."""
    services = services_of(request)
    return await present(services, await services.sweeps.cancel(principal, sweep_id, address=client_address(request)))


@router.post("/{sweep_id}/resume", status_code=202)
async def resume(request: Request, sweep_id: str, principal: Writer) -> SweepDetail:
    """What has not run is run, and what failed or was cancelled once more."""
    services = services_of(request)
    return await present(services, await services.sweeps.resume(_asked(request, principal, None), sweep_id))


def _asked(request: Request, principal: Principal, key: str | None) -> Asked:
    return Asked(principal, key, services_of(request).ingest_address, client_address(request))


def _project(text: str | None) -> tuple[str | None, str | None]:
    if not text:
        return None, None
    owner, slash, name = text.removeprefix("@").partition("/")
    found = (owner, name) if slash else (None, owner)
    for part in found:
        if part is not None and not is_segment(part):
            raise refused("request-invalid", _("“{value}” is no name").format(value=part[:80]), field="project")
    return found


async def _json_body(request: Request) -> Any:
    body = await request.body()
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise refused("request-invalid", _("the body is not JSON"), field="body", status=400) from None
