"""The pages of one job: overview, logs, hardware, artifacts, events, environment, evaluation. Samples are `job_samples.py`, its buttons `job_actions.py`."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Any

from fastapi import Query, Request
from starlette.responses import Response

from tuneplane.contract.words import TERMINAL_PHASES
from tuneplane_server.console.i18n import N_
from tuneplane_server.console.pages.jobs import primary_metric
from tuneplane_server.console.pages.reader import Reader, pages_of, services_of
from tuneplane_server.console.views import artifacts as artifacts_of
from tuneplane_server.console.views import attempts as attempts_of
from tuneplane_server.console.views import environment as environment_of
from tuneplane_server.console.views import evaluations as evaluations_of
from tuneplane_server.console.views import events as events_of
from tuneplane_server.console.views import jobs as jobs_of
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.evaluation.problems import ProblemView, problem_view
from tuneplane_server.features.evaluation.views import evaluation_detail
from tuneplane_server.features.jobs.presenting import present
from tuneplane_server.features.jobs.tables import JobRow
from tuneplane_server.features.jobs.views import event_view, job_view
from tuneplane_server.services import Services
from tuneplane_server.web.cursors import decode_cursor, encode_cursor
from tuneplane_server.web.routing import Router

router = Router(include_in_schema=False, prefix="/jobs/{job_id}")

# name, icon, word, path below the job's own
TABS = (
    ("overview", "chart-line", N_("Overview"), ""),
    ("logs", "scroll-text", N_("Logs"), "/logs"),
    ("samples", "message-square", N_("Samples"), "/samples"),
    ("hardware", "cpu", N_("Hardware"), "/hardware"),
    ("artifacts", "package", N_("Artifacts"), "/artifacts"),
    ("events", "history", N_("Events"), "/events"),
    ("environment", "box", N_("Environment"), "/environment"),
    ("evaluation", "gauge", N_("Evaluation"), "/evaluation"),
)
EVENTS_AT_ONCE = 200

Cursor = Annotated[str, Query(max_length=500)]


@router.get("")
async def overview(request: Request, reader: Reader, job_id: str) -> Response:
    return await _tab(request, reader, job_id, "overview")


@router.get("/logs")
async def logs(request: Request, reader: Reader, job_id: str) -> Response:
    return await _tab(request, reader, job_id, "logs")


@router.get("/hardware")
async def hardware(request: Request, reader: Reader, job_id: str) -> Response:
    return await _tab(request, reader, job_id, "hardware")


@router.get("/artifacts")
async def artifacts(request: Request, reader: Reader, job_id: str) -> Response:
    services = services_of(request)
    row = await services.jobs.get(reader, job_id)
    listing = await services.artifacts.listing(row.id)
    return await job_page(request, reader, row, "artifacts", artifacts=artifacts_of.present(listing))


@router.get("/evaluation")
async def evaluation(request: Request, reader: Reader, job_id: str) -> Response:
    services = services_of(request)
    row = await services.jobs.get(reader, job_id)
    found = await services.evaluations.newest(row.id)
    report = None if found is None else evaluations_of.shown(evaluation_detail(found).model_dump())
    return await job_page(request, reader, row, "evaluation", evaluation=report)


@router.get("/events")
async def events(request: Request, reader: Reader, job_id: str, cursor: Cursor = "") -> Response:
    services = services_of(request)
    row = await services.jobs.get(reader, job_id)
    after = decode_cursor(cursor, int)[0] if cursor else 0
    found, more = await services.jobs.events(reader, row.id, after=after, limit=EVENTS_AT_ONCE)
    return await job_page(
        request,
        reader,
        row,
        "events",
        events=[events_of.present(event_view(event).model_dump(by_alias=True)) for event in found],
        events_cursor="" if more is None else encode_cursor(more),
        first_events=not cursor,
    )


@router.get("/environment")
async def environment(request: Request, reader: Reader, job_id: str) -> Response:
    services = services_of(request)
    row = await services.jobs.get(reader, job_id)
    started = await services.telemetry.event(row.id, "trainer-started")
    facts = {
        "command": started.data.get("command") if started else None,
        "environment": await services.telemetry.environment(row.id),
    }
    job = job_view(row, [], None).model_dump(by_alias=True)
    return await job_page(
        request,
        reader,
        row,
        "environment",
        blocks=environment_of.blocks(job, await services.telemetry.hyperparams(row.id), facts),
        spec_text=environment_of.spec_text(job),
    )


@router.get("/head")
async def head(request: Request, reader: Reader, job_id: str) -> Response:
    """The top of the page alone, for when the job changes under the reader's eyes."""
    row = await services_of(request).jobs.get(reader, job_id)
    return pages_of(request).page(request, "job/_head.html", reader=reader, **await _frame(request, row, reader))


async def _tab(request: Request, reader: Principal, job_id: str, tab: str) -> Response:
    row = await services_of(request).jobs.get(reader, job_id)
    return await job_page(request, reader, row, tab)


async def job_page(request: Request, reader: Principal, row: JobRow, tab: str, **values: Any) -> Response:
    """The whole page, or for htmx the open tab alone."""
    part = "hx-request" in request.headers
    template = f"job/{tab}.html" if part else "job/page.html"
    frame = await _frame(request, row, reader)
    return pages_of(request).page(request, template, reader=reader, tab=tab, **frame, **values)


async def _resumed(services: Services, row: JobRow) -> Sequence[datetime]:
    return await services.jobs.resumed_at(row.id) if row.attempt > 1 else ()


async def _report_problem(services: Services, row: JobRow) -> ProblemView | None:
    """Why the newest evaluation report cannot be used."""
    left = await services.evaluations.attempts(row.id)
    return problem_view(left[-1].problem) if left else None


async def _frame(request: Request, row: JobRow, reader: Principal) -> dict[str, Any]:
    services = services_of(request)
    view = (await present(services, row, reader)).model_dump(by_alias=True)
    return {
        "job": jobs_of.present(view, primary_metric(services, row.recipe)),
        "attempts": attempts_of.rows(view, services.clock.now(), await _resumed(services, row)),
        "action_key": secrets.token_urlsafe(16),
        "exportable": view["phase"] in TERMINAL_PHASES and services.exports.offers(row),
        "reason_class": jobs_of.reason_class,
        "report_problem": await _report_problem(services, row) if view["finished_at"] else None,
        "removed": await services.retention.removed(row.id) if view["finished_at"] else {},
        "tabs": [{"name": name, "icon": icon, "word": word, "path": path} for name, icon, word, path in TABS],
    }
