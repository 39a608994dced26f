"""Several runs side by side: their curves in the same charts, and the settings in which they differ."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query, Request
from starlette.responses import Response

from tuneplane_server.console.pages.jobs import primary_metric
from tuneplane_server.console.pages.reader import Reader, pages_of, services_of
from tuneplane_server.console.views import compare as view
from tuneplane_server.console.views import jobs as jobs_of
from tuneplane_server.features.jobs.presenting import present_list
from tuneplane_server.features.telemetry.curves_api import RUNS_AT_ONCE
from tuneplane_server.web.routing import Router

router = Router(include_in_schema=False)


@router.get("/compare")
async def compare(
    request: Request,
    reader: Reader,
    run: Annotated[list[str] | None, Query(max_length=RUNS_AT_ONCE)] = None,
) -> Response:
    """Without a run it says how to choose some. A run that is not the reader's is not found, whatever the others are."""
    services = services_of(request)
    rows = [await services.jobs.get(reader, job_id) for job_id in dict.fromkeys(run or [])]
    shown = view.runs(
        [
            jobs_of.present(job.model_dump(by_alias=True), primary_metric(services, job.recipe.name))
            for job in await present_list(services, rows)
        ]
    )
    mains = [job["main"]["name"] for job in shown if job["main"]]
    return pages_of(request).page(
        request,
        "compare/page.html",
        reader=reader,
        runs=shown,
        primary=mains[0] if mains else "",
        differences=view.differences([row.spec for row in rows]) if len(rows) > 1 else [],
    )
