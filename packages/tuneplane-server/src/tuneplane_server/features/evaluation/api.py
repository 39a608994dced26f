"""The evaluation of one run, evaluations of many, and several side by side."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request
from pydantic import BaseModel

from tuneplane.contract.names import is_segment
from tuneplane.i18n import _
from tuneplane_server.features.accounts.deps import Reader, services_of
from tuneplane_server.features.evaluation.place import Place
from tuneplane_server.features.evaluation.service import CONFIDENCE, MOST_COMPARED, check_model
from tuneplane_server.features.evaluation.views import (
    ComparisonView,
    EvaluationDetail,
    EvaluationView,
    comparison_view,
    evaluation_detail,
    evaluation_view,
)
from tuneplane_server.web.cursors import decode_cursor, encode_cursor
from tuneplane_server.web.problems import refused
from tuneplane_server.web.routing import Router

router = Router(prefix="/api/v1", tags=["evaluations"])

Attempt = Annotated[int | None, Query(ge=1, le=2**31 - 1)]


class EvaluationPage(BaseModel):
    items: list[EvaluationView]
    next_cursor: str | None


@router.get("/jobs/{job_id}/evaluation")
async def of_run(request: Request, job_id: str, principal: Reader, attempt: Attempt = None) -> EvaluationDetail:
    """The report of an evaluation run. `attempt`: default the newest that wrote one."""
    services = services_of(request)
    row = await services.jobs.get(principal, job_id)
    return evaluation_detail(await services.evaluations.of_run(row, attempt))


@router.get("/evaluations")
async def list_evaluations(
    request: Request,
    principal: Reader,
    project: Annotated[str | None, Query(max_length=130)] = None,
    model: Annotated[str | None, Query(max_length=1024)] = None,
    cursor: str | None = None,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> EvaluationPage:
    """Newest first. `project` is a name, or `<owner>/<name>`; `model` a reference, the run evaluated, or the name in the report."""
    owner, name = parse_project(project)
    rows, more = await services_of(request).evaluations.list(
        principal,
        owner=owner,
        project=name,
        model=None if not model else check_model(model),
        before=parse_place(cursor),
        limit=limit,
    )
    return EvaluationPage(
        items=[evaluation_view(row) for row in rows], next_cursor=None if more is None else encode_cursor(*more)
    )


@router.get("/evaluations/compare")
async def compare(
    request: Request,
    principal: Reader,
    run: Annotated[list[str], Query(min_length=1, max_length=MOST_COMPARED)],
    confidence: Annotated[float, Query(ge=0.5, le=0.9999)] = CONFIDENCE,
) -> ComparisonView:
    """Each figure of each task for all runs; the first run is what the others are compared with. What was not measured alike is not
    compared, and says in what it differs.
    """
    services = services_of(request)
    rows = [await services.jobs.get(principal, job_id) for job_id in dict.fromkeys(run)]
    return comparison_view(await services.evaluations.compare(rows, confidence))


def parse_place(cursor: str | None) -> Place | None:
    if not cursor:
        return None
    job_id, attempt = decode_cursor(cursor, str, int)
    return Place(job_id, max(0, min(attempt, 2**31 - 1)))


def parse_project(text: str | None) -> tuple[str | None, str | None]:
    """(owner or None, name or None) of `<name>`, `<owner>/<name>`, with or without `@`. Raises `request-invalid`."""
    if not text:
        return None, None
    owner, slash, name = text.removeprefix("@").partition("/")
    found = (owner, name) if slash else (None, owner)
    for part in found:
        if part is not None and not is_segment(part):
            raise refused("request-invalid", _("“{value}” is no name").format(value=part[:80]), field="project")
    return found
