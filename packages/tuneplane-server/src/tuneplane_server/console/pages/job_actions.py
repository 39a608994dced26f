"""The buttons of a job: cancel, pause, resume, retry, export, approve, reject. Each is a form that comes back to a job's page."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Form, Request
from starlette.responses import RedirectResponse, Response

from tuneplane_server.console.i18n import _
from tuneplane_server.console.pages.reader import Reader, services_of
from tuneplane_server.features.accounts.deps import client_address
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.jobs.exporting import ExportWanted
from tuneplane_server.features.jobs.steering import Asked
from tuneplane_server.web.problems import refused
from tuneplane_server.web.routing import Router

router = Router(include_in_schema=False, prefix="/jobs/{job_id}")

LONGEST_REASON = 500
# Made when the page was drawn: a button that is pressed twice makes one run.
Key = Annotated[str, Form(max_length=200)]
BackTo = Annotated[str, Form(max_length=40)]


@router.post("/cancel")
async def cancel(request: Request, reader: Reader, job_id: str) -> Response:
    await services_of(request).jobs.cancel(reader, job_id, address=client_address(request))
    return _to_job(job_id)


@router.post("/pause")
async def pause(request: Request, reader: Reader, job_id: str) -> Response:
    await services_of(request).steering.pause(reader, job_id, address=client_address(request))
    return _to_job(job_id)


@router.post("/resume")
async def resume(
    request: Request,
    reader: Reader,
    job_id: str,
    key: Key = "",
    from_step: Annotated[str, Form(max_length=20)] = "",
) -> Response:
    """To the page of the run that goes on: this one, or the new one."""
    step = _step(from_step, "from_step")
    row = await services_of(request).steering.resume(_asked(request, reader, key), job_id, step=step)
    return _to_job(row.id)


@router.post("/export")
async def export(
    request: Request,
    reader: Reader,
    job_id: str,
    key: Key = "",
    step: Annotated[str, Form(max_length=20)] = "",
    merge_lora: Annotated[str, Form(max_length=5)] = "",
    dtype: Annotated[Literal["", "float32", "bfloat16", "float16"], Form()] = "",
) -> Response:
    """To the page of the run that exports."""
    wanted = ExportWanted(step=_step(step, "step"), merge_lora=merge_lora == "yes", dtype=dtype or None)
    row = await services_of(request).exports.export(_asked(request, reader, key), job_id, wanted)
    return _to_job(row.id)


@router.post("/retry")
async def retry(request: Request, reader: Reader, job_id: str, key: Key = "") -> Response:
    row = await services_of(request).steering.retry(_asked(request, reader, key), job_id)
    return _to_job(row.id)


@router.post("/approve")
async def approve(request: Request, reader: Reader, job_id: str, back: BackTo = "") -> Response:
    _check_administrator(reader)
    await services_of(request).steering.approve(reader, job_id, address=client_address(request))
    return _after_decision(job_id, back)


@router.post("/reject")
async def reject(
    request: Request,
    reader: Reader,
    job_id: str,
    why: Annotated[str, Form(max_length=LONGEST_REASON)] = "",
    back: BackTo = "",
) -> Response:
    _check_administrator(reader)
    if not why.strip():
        raise refused("request-invalid", _("say why, so that its owner knows what to change"), field="why")
    await services_of(request).steering.reject(reader, job_id, why.strip(), address=client_address(request))
    return _after_decision(job_id, back)


def _step(text: str, field: str) -> int | None:
    if text and not (text.isascii() and text.isdecimal()):
        raise refused("request-invalid", _("a step is a whole number"), field=field)
    return int(text) if text else None


def _asked(request: Request, reader: Principal, key: str) -> Asked:
    return Asked(reader, key or None, services_of(request).ingest_address, client_address(request))


def _check_administrator(reader: Principal) -> None:
    if not reader.acts_as_admin:
        raise refused("forbidden", _("only an administrator may do that"))


def _to_job(job_id: str) -> Response:
    return RedirectResponse(f"/jobs/{job_id}", 303)


def _after_decision(job_id: str, back: str) -> Response:
    return RedirectResponse("/admin/approvals", 303) if back == "approvals" else _to_job(job_id)
