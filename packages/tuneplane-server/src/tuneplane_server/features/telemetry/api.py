"""`/api/v1/jobs/{id}`: metrics, logs and the live stream; curves are `curves_api`, samples `samples_api`. Times are Unix seconds; numbers that JSON lacks
travel as "NaN", "Infinity" and "-Infinity"."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Header, Query, Request, Response
from starlette.responses import StreamingResponse

from tuneplane.contract.words import TERMINAL_PHASES
from tuneplane.i18n import _
from tuneplane_server.domain.cursors import (
    FDS,
    MAX_CONTEXT,
    CursorError,
    LineId,
    LogCursor,
    decode_line_id,
    decode_log_cursor,
    encode_log_cursor,
)
from tuneplane_server.domain.log_levels import Level
from tuneplane_server.domain.retention import Kind
from tuneplane_server.features.accounts.deps import Reader, services_of
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.jobs.presenting import present_list
from tuneplane_server.features.telemetry import shapes
from tuneplane_server.features.telemetry.answers import described, json_answer
from tuneplane_server.features.telemetry.log_reader import LogPage, LogQuery
from tuneplane_server.features.telemetry.service import topic
from tuneplane_server.features.telemetry.streaming import RunStream
from tuneplane_server.features.telemetry.watching import Look
from tuneplane_server.web.problems import refused
from tuneplane_server.web.routing import Router

if TYPE_CHECKING:
    from tuneplane_server.features.jobs.tables import JobRow
    from tuneplane_server.services import Services

router = Router(prefix="/api/v1/jobs/{job_id}", tags=["telemetry"])

Attempt = Annotated[int | None, Query(ge=1, le=2**31 - 1)]
Rank = Annotated[int | None, Query(ge=0, le=2**31 - 1)]
Descriptor = Annotated[str | None, Query(pattern="^(stdout|stderr|runner)$")]
MainRank = Annotated[int, Query(ge=0, le=2**31 - 1)]
MAX_CURSOR = 32 * 1024
MAX_TAIL = 20_000


@router.get("/metrics", responses=described(shapes.Metrics))
async def metrics(request: Request, job_id: str, principal: Reader, rank: MainRank = 0) -> Response:
    """`{metrics: {name: {latest: {step, value, time}, min, max, count, attempts}}, refused_points}`; `refused_points`: of
    series that the limits did not let in."""
    services, row = await _job(request, principal, job_id)
    found = await services.telemetry.curves.metrics(row.id, rank)
    usage = await services.telemetry.usage(row.id)
    removed_at = await _removed_at(services, row, Kind.METRICS)
    return json_answer({"metrics": found, "refused_points": usage.refused_points, "removed_at": removed_at})


@router.get("/logs", responses=described(shapes.LogPage))
async def logs(
    request: Request,
    job_id: str,
    principal: Reader,
    cursor: Annotated[str | None, Query(max_length=MAX_CURSOR)] = None,
    before: Annotated[str | None, Query(max_length=MAX_CURSOR)] = None,
    limit: Annotated[int, Query(ge=1, le=5000)] = 500,
    attempt: Attempt = None,
    rank: Rank = None,
    tail: Annotated[int | None, Query(ge=0, le=MAX_TAIL)] = None,
    grep: Annotated[str, Query(max_length=1000)] = "",
    since: Annotated[str | None, Query(max_length=40)] = None,
    fold: bool = True,
    level: Level | None = None,
    fd: Descriptor = None,
    context: Annotated[int, Query(ge=0, le=MAX_CONTEXT)] = 0,
    at: Annotated[str | None, Query(max_length=80)] = None,
) -> Response:
    """`{items: [{attempt, rank, fd, time, text, id, level, match}], next_cursor, prev_cursor, more, end, dropped_bytes}`. `tail`
    counts without a cursor. `before`: a `prev_cursor`, for the page in front of it; null when nothing is. `at`: begin at the
    line of this `id`, or a few in front of it. `level`: so grave or graver. `context`: lines around each found one (`match` false).
    `more`: the next page is there already; `end`: nothing follows. `dropped_bytes`: output beyond the run's quota."""
    services, row = await _job(request, principal, job_id)
    query = LogQuery(
        _cursor(cursor),
        _cursor(before),
        limit,
        attempt,
        rank,
        tail,
        grep,
        _time(since),
        fold,
        level,
        fd,
        context,
        _line(at),
    )
    live = None if row.phase in TERMINAL_PHASES else row.attempt
    page = await services.telemetry.logs.page(row.id, query, live_attempt=live)
    removed_at = await _removed_at(services, row, Kind.LOGS)
    answer = await _log_page(services, row.id, page)
    if removed_at is not None:  # what is still there goes too, and holes in it would only look like lost output
        answer |= {"items": [], "prev_cursor": None, "more": False, "end": True}
    return json_answer(answer | {"removed_at": removed_at})


@router.get("/logs/raw", responses={200: {"content": {"application/octet-stream": {}}}})
async def raw_logs(
    request: Request,
    job_id: str,
    principal: Reader,
    attempt: Attempt = None,
    rank: MainRank = 0,
    fd: Descriptor = None,
) -> Response:
    """The bytes as they came, of one machine of one attempt (default the newest)."""
    services, row = await _job(request, principal, job_id)
    wanted = attempt or row.attempt
    parts = services.telemetry.logs.raw(row.id, wanted, rank, None if fd is None else FDS.index(fd))
    name = f"{row.id}-attempt{wanted}-rank{rank}.log"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return StreamingResponse(parts, media_type="application/octet-stream", headers=headers)


@router.get("/stream", responses={200: {"content": {"text/event-stream": {}}}})
async def stream(
    request: Request,
    job_id: str,
    principal: Reader,
    rank: MainRank = 0,
    last_event_id: Annotated[str | None, Header()] = None,
) -> StreamingResponse:
    """Server-sent events, see `streaming`. Polling the other calls gives the same; this only says when."""
    services, row = await _job(request, principal, job_id)

    async def look() -> Look:
        current = await services.jobs.get(principal, row.id)
        return Look(await services.telemetry.usage(row.id), current.version)

    async def job() -> Any:
        (view,) = await present_list(services, [await services.jobs.get(principal, row.id)])
        return view.model_dump(mode="json", by_alias=True)

    known = int(last_event_id) if last_event_id and last_event_id.isdecimal() and len(last_event_id) < 19 else None
    events = RunStream(services.telemetry.curves, services.telemetry.watches, row.id, rank)
    topics = (topic(row.id), f"job:{row.id}")
    headers = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}
    return StreamingResponse(events.events(look, job, topics, known), media_type="text/event-stream", headers=headers)


async def _job(request: Request, principal: Principal, job_id: str) -> tuple[Services, JobRow]:
    services = services_of(request)
    return services, await services.jobs.get(principal, job_id)


def _cursor(text: str | None) -> LogCursor | None:
    if not text:
        return None
    try:
        return decode_log_cursor(text)
    except CursorError:
        raise refused(
            "request-invalid",
            _("the cursor is not one this console gave"),
            _("start again without a cursor"),
            field="cursor",
        ) from None


def _line(text: str | None) -> LineId | None:
    if not text:
        return None
    try:
        return decode_line_id(text)
    except CursorError:
        raise refused("request-invalid", _("this is not the id of a line"), field="at") from None


def _time(text: str | None) -> float | None:
    """Unix seconds, or a time as ISO 8601 with its zone."""
    if not text:
        return None
    try:
        return float(text) if text.replace(".", "", 1).isdecimal() else _aware(datetime.fromisoformat(text))
    except ValueError:
        raise refused(
            "request-invalid",
            _("since is neither Unix seconds nor a time with its zone, such as 2026-01-31T12:00:00Z"),
            field="since",
        ) from None


def _aware(time: datetime) -> float:
    if time.tzinfo is None:
        raise ValueError("no zone")
    return time.timestamp()


async def _removed_at(services: Services, row: JobRow, kind: Kind) -> str | None:
    """When the project's retention removed it, ISO 8601; nothing is ever removed of a run that is not over."""
    if row.phase not in TERMINAL_PHASES:
        return None
    found = (await services.retention.removed(row.id)).get(kind)
    return None if found is None else found.isoformat()


async def _log_page(services: Services, job_id: str, page: LogPage) -> dict[str, Any]:
    usage = await services.telemetry.usage(job_id)
    return {
        "items": [line._asdict() for line in page.lines],
        "next_cursor": encode_log_cursor(page.cursor),
        "prev_cursor": encode_log_cursor(page.start) if any(place.seq > 0 for place in page.start.values()) else None,
        "more": page.more,
        "end": page.end,
        "dropped_bytes": usage.log_dropped_bytes,
    }
