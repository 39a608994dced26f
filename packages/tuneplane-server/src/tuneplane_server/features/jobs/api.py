"""/api/v1/jobs: submit, list, one job, its events, cancel, pause, resume, retry, export, approval. Telemetry and artifacts of a job are their own features'."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from fastapi import Header, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from tuneplane.contract.base import Segment
from tuneplane.i18n import _
from tuneplane_server.features.accounts.deps import Admin, Reader, Writer, client_address, services_of
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.jobs.exporting import ExportWanted
from tuneplane_server.features.jobs.presenting import present, present_page
from tuneplane_server.features.jobs.query import JobQuery, check_query
from tuneplane_server.features.jobs.steering import Asked
from tuneplane_server.features.jobs.submission import DryRun
from tuneplane_server.features.jobs.views import EventView, JobView, event_view
from tuneplane_server.web.cursors import decode_cursor, encode_cursor
from tuneplane_server.web.problems import refused
from tuneplane_server.web.routing import Router

router = Router(prefix="/api/v1/jobs", tags=["jobs"])

Limit = Annotated[int, Query(ge=1, le=200)]
Name = Annotated[str | None, Query(max_length=130)]
MAX_STEP = 2**53


class JobPage(BaseModel):
    items: list[JobView]
    next_cursor: str | None


class ResumeRequest(BaseModel):
    """`from_step`: the checkpoint to start from; absent: the newest complete one."""

    model_config = ConfigDict(extra="forbid")
    from_step: Annotated[int | None, Field(strict=True, ge=0, le=MAX_STEP)] = None


class ExportRequest(BaseModel):
    """`step`: the checkpoint; absent: the newest complete one, or the model that the run ended with when it saved none. `profile`
    (`--profile`'s grammar), `cpus`, `memory_gb`: absent: CPUs of one machine, after the recipe and the size of the weights."""

    model_config = ConfigDict(extra="forbid")
    step: Annotated[int | None, Field(strict=True, ge=0, le=MAX_STEP)] = None
    merge_lora: Annotated[bool, Field(strict=True)] = False
    dtype: Literal["float32", "bfloat16", "float16"] | None = None
    name: Segment | None = None
    profile: Annotated[str | None, Field(min_length=1, max_length=100)] = None
    cpus: Annotated[int | None, Field(strict=True, ge=1, le=4096)] = None
    memory_gb: Annotated[float | None, Field(gt=0, le=65536)] = None


class RejectRequest(BaseModel):
    model_config = ConfigDict(extra="forbid")
    why: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=500)]


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
        return _considered(answer)
    row = await services.jobs.submit(
        principal,
        raw,
        key=idempotency_key,
        ingest_address=services.ingest_address,
        address=client_address(request),
    )
    return await present(services_of(request), row, principal)


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
    items, after = await present_page(services, principal, query, before=before, limit=limit)
    return JobPage(items=items, next_cursor=None if after is None else encode_cursor(after))


@router.get("/{job_id}")
async def show(request: Request, job_id: str, principal: Reader) -> JobView:
    services = services_of(request)
    return await present(services, await services.jobs.get(principal, job_id), principal)


@router.post("/{job_id}/cancel", status_code=202)
async def cancel(request: Request, job_id: str, principal: Writer) -> JobView:
    row = await services_of(request).jobs.cancel(principal, job_id, address=client_address(request))
    return await present(services_of(request), row, principal)


@router.post("/{job_id}/pause", status_code=202)
async def pause(request: Request, job_id: str, principal: Writer) -> JobView:
    """A live job is stopped with its grace time and waits in the queue; a queued one is held back."""
    row = await services_of(request).steering.pause(principal, job_id, address=client_address(request))
    return await present(services_of(request), row, principal)


@router.post("/{job_id}/resume", status_code=202, responses={201: {"model": JobView}})
async def resume(
    request: Request,
    response: Response,
    job_id: str,
    principal: Writer,
    wanted: ResumeRequest | None = None,
    idempotency_key: Annotated[str | None, Header()] = None,
) -> JobView:
    """202: the paused job itself goes on. 201: of a job that is over a new run was made, whose `origin` it is."""
    services = services_of(request)
    step = wanted.from_step if wanted else None
    row = await services.steering.resume(_asked(request, principal, idempotency_key), job_id, step=step)
    if row.id != job_id:
        response.status_code = 201
    return await present(services, row, principal)


@router.post("/{job_id}/retry", status_code=201)
async def retry(
    request: Request, job_id: str, principal: Writer, idempotency_key: Annotated[str | None, Header()] = None
) -> JobView:
    """A new run of the same JobSpec from scratch; its `origin` is this one."""
    services = services_of(request)
    row = await services.steering.retry(_asked(request, principal, idempotency_key), job_id)
    return await present(services, row, principal)


@router.post("/{job_id}/export", status_code=201, response_model=JobView | dict[str, Any])
async def export(
    request: Request,
    response: Response,
    job_id: str,
    principal: Writer,
    wanted: ExportRequest | None = None,
    dry_run: bool = False,
    idempotency_key: Annotated[str | None, Header()] = None,
) -> JobView | dict[str, Any]:
    """A new run that turns a checkpoint of this one into a Hugging Face directory; its `origin` is this one."""
    services, asked = services_of(request), _asked(request, principal, idempotency_key)
    options = ExportWanted(**(wanted or ExportRequest()).model_dump())
    if dry_run:
        spec, answer = await services.exports.consider(asked, job_id, options)
        response.status_code = 200
        return {"jobspec": spec, **_considered(answer)}
    return await present(services, await services.exports.export(asked, job_id, options), principal)


@router.post("/{job_id}/approve", status_code=202)
async def approve(request: Request, job_id: str, principal: Admin) -> JobView:
    row = await services_of(request).steering.approve(principal, job_id, address=client_address(request))
    return await present(services_of(request), row, principal)


@router.post("/{job_id}/reject", status_code=202)
async def reject(request: Request, job_id: str, principal: Admin, wanted: RejectRequest) -> JobView:
    """The job is cancelled; its owner reads `why`."""
    row = await services_of(request).steering.reject(principal, job_id, wanted.why, address=client_address(request))
    return await present(services_of(request), row, principal)


@router.get("/{job_id}/events")
async def events(
    request: Request, job_id: str, principal: Reader, cursor: str | None = None, limit: Limit = 100
) -> EventPage:
    after = decode_cursor(cursor, int)[0] if cursor else 0
    rows, more = await services_of(request).jobs.events(principal, job_id, after=after, limit=limit)
    items = [event_view(row) for row in rows]
    return EventPage(items=items, next_cursor=None if more is None else encode_cursor(more))


def _considered(answer: DryRun) -> dict[str, Any]:
    refusals = [refusal.to_json() for refusal in answer.refusals]
    told = {"approval": answer.approval, "waiting": answer.waiting}
    return {"admitted": not refusals, "refusals": refusals, "plan": answer.plan, **told}


def _asked(request: Request, principal: Principal, key: str | None) -> Asked:
    return Asked(principal, key, services_of(request).ingest_address, client_address(request))


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
