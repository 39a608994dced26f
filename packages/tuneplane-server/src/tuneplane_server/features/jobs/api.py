"""/api/v1/jobs: submit, list, one job, its events, cancel. Telemetry and artifacts of a job are their own features'."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from pydantic import BaseModel

from tuneplane.i18n import _
from tuneplane_server.features.accounts.deps import Reader, Writer, client_address, services_of
from tuneplane_server.features.jobs.presenting import present, present_list
from tuneplane_server.features.jobs.query import JobQuery, check_query
from tuneplane_server.features.jobs.views import EventView, JobView, event_view
from tuneplane_server.web.cursors import decode_cursor, encode_cursor
from tuneplane_server.web.problems import refused

router = APIRouter(prefix="/api/v1/jobs", tags=["jobs"])

Limit = Annotated[int, Query(ge=1, le=200)]
Name = Annotated[str | None, Query(max_length=130)]


class JobPage(BaseModel):
    items: list[JobView]
    next_cursor: str | None


class EventPage(BaseModel):
    items: list[EventView]
    next_cursor: str | None


@router.post("", status_code=201, response_model=JobView | dict[str, Any])
async def submit(
    request: Request,
    response: Response,
    principal: Writer,
    dry_run: bool = False,
    idempotency_key: Annotated[str | None, Header()] = None,
) -> JobView | dict[str, Any]:
    services = services_of(request)
    raw = await _json_body(request)
    if dry_run:
        answer = await services.jobs.dry_run(principal, raw, ingest_address=services.ingest_address)
        response.status_code = 200
        refusals = [refusal.to_json() for refusal in answer.refusals]
        return {"admitted": not refusals, "refusals": refusals, "plan": answer.plan}
    row = await services.jobs.submit(
        principal,
        raw,
        key=idempotency_key,
        ingest_address=services.ingest_address,
        address=client_address(request),
    )
    return await present(services_of(request), row)


@router.get("")
async def list_jobs(
    request: Request,
    principal: Reader,
    project: Name = None,
    phase: Annotated[list[str] | None, Query(max_length=8)] = None,
    experiment: Name = None,
    text: Annotated[str | None, Query(max_length=200)] = None,
    cursor: str | None = None,
    limit: Limit = 50,
) -> JobPage:
    """`project` is a name, or `<owner>/<name>` with or without `@`; `phase` may be given several times or with commas."""
    services = services_of(request)
    owner, name = _project(project)
    phases = [item for part in phase or [] for item in part.split(",") if item]
    query = JobQuery(owner=owner, project=name, phases=phases, experiment=experiment, text=text)
    check_query(query)
    before = decode_cursor(cursor, str)[0] if cursor else None
    rows, after = await services.jobs.list(principal, query, before=before, limit=limit)
    return JobPage(
        items=await present_list(services, rows), next_cursor=None if after is None else encode_cursor(after)
    )


@router.get("/{job_id}")
async def show(request: Request, job_id: str, principal: Reader) -> JobView:
    services = services_of(request)
    return await present(services, await services.jobs.get(principal, job_id))


@router.post("/{job_id}/cancel", status_code=202)
async def cancel(request: Request, job_id: str, principal: Writer) -> JobView:
    row = await services_of(request).jobs.cancel(principal, job_id, address=client_address(request))
    return await present(services_of(request), row)


@router.get("/{job_id}/events")
async def events(
    request: Request, job_id: str, principal: Reader, cursor: str | None = None, limit: Limit = 100
) -> EventPage:
    after = decode_cursor(cursor, int)[0] if cursor else 0
    rows, more = await services_of(request).jobs.events(principal, job_id, after=after, limit=limit)
    items = [event_view(row) for row in rows]
    return EventPage(items=items, next_cursor=None if more is None else encode_cursor(more))


async def _json_body(request: Request) -> Any:
    body = await request.body()
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        raise refused("request-invalid", _("the body is not JSON"), field="body", status=400) from None


def _project(text: str | None) -> tuple[str | None, str | None]:
    if not text:
        return None, None
    owner, slash, name = text.removeprefix("@").partition("/")
    return (owner, name) if slash else (None, text)
