"""Evaluations: the list by project and model, and several side by side. The report of one job is a tab of it (`job.py`)."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from tuneplane_server.console.pages.reader import Reader, pages_of, services_of
from tuneplane_server.console.views import evaluations as view
from tuneplane_server.features.evaluation.api import parse_place, parse_project
from tuneplane_server.features.evaluation.service import MOST_COMPARED, check_model
from tuneplane_server.features.evaluation.views import comparison_view, evaluation_view
from tuneplane_server.web.cursors import encode_cursor
from tuneplane_server.web.routing import Router

router = Router(include_in_schema=False, prefix="/evaluations")

PAGE = 50
FEWEST = 2  # runs that make a comparison

Text = Annotated[str, Query(max_length=1024)]


@router.get("")
async def evaluations_page(
    request: Request,
    reader: Reader,
    project: Text = "",
    model: Text = "",
    cursor: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    owner, name = parse_project(project.strip())
    rows, more = await services_of(request).evaluations.list(
        reader,
        owner=owner,
        project=name,
        model=check_model(model.strip()) or None,
        before=parse_place(cursor),
        limit=PAGE,
    )
    return pages_of(request).page(
        request,
        "evaluations/list.html",
        reader=reader,
        evaluations=[view.listed(evaluation_view(row).model_dump()) for row in rows],
        project=project,
        model_wanted=model,
        cursor=cursor,
        next_cursor="" if more is None else encode_cursor(*more),
    )


@router.get("/compare")
async def compare(
    request: Request,
    reader: Reader,
    run: Annotated[list[str] | None, Query(max_length=MOST_COMPARED)] = None,
) -> Response:
    """Without two runs it says how to choose some."""
    services = services_of(request)
    rows = [await services.jobs.get(reader, job_id) for job_id in dict.fromkeys(run or [])]
    found = None
    if len(rows) >= FEWEST:
        found = view.compared(comparison_view(await services.evaluations.compare(rows)).model_dump())
    return pages_of(request).page(
        request, "evaluations/compare.html", reader=reader, comparison=found, most=MOST_COMPARED
    )
