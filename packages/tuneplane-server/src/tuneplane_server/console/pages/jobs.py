"""The list of jobs: filters, pages, and the part of it that refreshes itself."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import Query, Request
from starlette.responses import JSONResponse, Response

from tuneplane.contract.words import PHASES
from tuneplane_server.console.i18n import _
from tuneplane_server.console.pages.reader import Reader, pages_of, services_of
from tuneplane_server.console.views import jobs as view
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.jobs.presenting import present_page
from tuneplane_server.features.jobs.service import JobQuery
from tuneplane_server.features.jobs.views import JobView
from tuneplane_server.services import Services
from tuneplane_server.web.cursors import decode_cursor, encode_cursor
from tuneplane_server.web.problems import ProblemError
from tuneplane_server.web.routing import Router

router = Router(include_in_schema=False)

PAGE = 50
SPARK_POINTS = 48
SPARKS_AT_ONCE = 60

Text = Annotated[str, Query(max_length=200)]


@router.get("/jobs")
async def jobs_page(
    request: Request,
    reader: Reader,
    phase: Annotated[str, Query(max_length=20)] = "",
    project: Annotated[str, Query(max_length=130)] = "",
    q: Text = "",
    cursor: Text = "",
) -> Response:
    """The page, or for htmx the table alone. A filter that can match nothing gives an empty list, not an error."""
    services = services_of(request)
    known_phase = phase if phase in PHASES else ""
    owner, slash, name = project.removeprefix("@").partition("/")
    query = JobQuery(
        owner=owner if slash else None,
        project=(name if slash else owner) or None,
        phases=[known_phase] if known_phase else (),
        text=q.strip() or None,
    )
    before = decode_cursor(cursor, str)[0] if cursor else None
    jobs, after = await present_page(services, reader, query, before=before, limit=PAGE)
    part = "hx-request" in request.headers
    return pages_of(request).page(
        request,
        "jobs/_table.html" if part else "jobs/list.html",
        reader=reader,
        jobs=_shown(services, jobs),
        filters={"phase": known_phase, "project": project, "q": q},
        cursor=cursor,
        next_cursor="" if after is None else encode_cursor(after),
        phase_tabs=view.phase_tabs(await services.jobs.counts(reader, query)),
        address=services.public_address,
        **({} if part else await _frame(services, reader)),
    )


@router.get("/jobs/sparklines")
async def sparklines(
    request: Request, reader: Reader, job: Annotated[list[str], Query(alias="id", max_length=SPARKS_AT_ONCE)]
) -> JSONResponse:
    """Job -> the last attempt's main metric, thinned; for the small curves of the list."""
    services = services_of(request)
    return JSONResponse({"values": dict(await asyncio.gather(*(_spark(services, reader, item) for item in job)))})


async def _frame(services: Services, reader: Principal) -> dict[str, Any]:
    """What stands around the table: the projects to choose from and the free cards."""
    projects = await services.projects.list(reader)
    names = [f"{project.owner}/{project.name}" if reader.acts_as_admin else project.name for project in projects]
    cards = [profile for profile in await services.hardware.profiles() if profile.total_gpus]
    free = [
        _("{free} of {total} {profile} free").format(
            free=profile.free_gpus, total=profile.total_gpus, profile=profile.name
        )
        for profile in cards
    ]
    return {"projects": sorted(names), "machine": " · ".join(free)}


def _shown(services: Services, jobs: list[JobView]) -> list[dict[str, Any]]:
    return [view.present(job.model_dump(by_alias=True), primary_metric(services, job.recipe.name)) for job in jobs]


def primary_metric(services: Services, method: str) -> str | None:
    """The metric a recipe names as its main one; None for a recipe this server does not know any more."""
    entry = services.catalog.entry(method)
    primary: str | None = entry["manifest"].get("metrics", {}).get("primary") if entry else None
    return primary


async def _spark(services: Services, reader: Principal, job_id: str) -> tuple[str, list[Any]]:
    """The values of the main metric of a job's newest attempt; none for a job that is not the reader's to see."""
    try:
        row = await services.jobs.get(reader, job_id)
    except ProblemError:
        return job_id, []
    curves = services.telemetry.curves
    main = view.main_metric(await curves.latest(row.id), primary_metric(services, row.recipe))
    if main is None:
        return job_id, []
    name: str = main["name"]
    found = await curves.curves(row.id, [name], max_points=SPARK_POINTS, attempt=None, rank=0)
    attempts = found.get(name) or [{"value": []}]
    return job_id, attempts[-1]["value"]
