"""`GET …/metrics/export` and `…/samples/export`: everything as one file, streamed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Annotated, Any, Literal

from fastapi import Query, Request
from starlette.responses import StreamingResponse

from tuneplane.i18n import _
from tuneplane_server.features.accounts.deps import Reader, services_of
from tuneplane_server.features.telemetry.curves import NAMES_AT_ONCE
from tuneplane_server.features.telemetry.exports.columns import METRICS, SAMPLES, Column, Part
from tuneplane_server.features.telemetry.exports.lines import csv_head, csv_lines, json_lines
from tuneplane_server.features.telemetry.exports.parquet import is_busy, parquet_file
from tuneplane_server.features.telemetry.exports.rows import metric_rows, sample_rows
from tuneplane_server.features.telemetry.samples_api import Filter
from tuneplane_server.web.problems import ProblemError
from tuneplane_server.web.routing import Router

router = Router(prefix="/api/v1/jobs/{job_id}", tags=["telemetry"])

type Format = Literal["csv", "json", "parquet"]
MEDIA = {
    "csv": "text/csv; charset=utf-8",
    "json": "application/x-ndjson",
    "parquet": "application/vnd.apache.parquet",
}
RETRY_SECONDS = 10
ENDING = {"csv": "csv", "json": "jsonl", "parquet": "parquet"}
_ANSWERS: dict[int | str, dict[str, Any]] = {200: {"content": {kind: {} for kind in MEDIA.values()}}}


@router.get("/metrics/export", responses=_ANSWERS)
async def export_metrics(
    request: Request,
    job_id: str,
    principal: Reader,
    format: Annotated[Format, Query()],  # noqa: A002 - the name of the parameter
    name: Annotated[list[str] | None, Query(max_length=NAMES_AT_ONCE)] = None,
    attempt: Annotated[int | None, Query(ge=1, le=2**31 - 1)] = None,
    rank: Annotated[int | None, Query(ge=0, le=2**31 - 1)] = None,
) -> StreamingResponse:
    """Every point, one row each: attempt, rank, name, step, time (Unix seconds), epoch, value. Without `rank` of all of them."""
    services = services_of(request)
    row = await services.jobs.get(principal, job_id)
    names = None if name is None else [one for one in name if "\0" not in one]
    rows = metric_rows(services.database, row.id, names=names, attempt=attempt, rank=rank)
    return _file(f"{row.id}-metrics", format, METRICS, rows)


@router.get("/samples/export", responses=_ANSWERS)
async def export_samples(
    request: Request,
    job_id: str,
    principal: Reader,
    wanted: Filter,
    format: Annotated[Format, Query()],  # noqa: A002 - the name of the parameter
    grep: Annotated[str, Query(max_length=1000)] = "",
) -> StreamingResponse:
    """The samples that fit, oldest first, one row each; `data` is the whole sample as JSON."""
    services = services_of(request)
    row = await services.jobs.get(principal, job_id)
    return _file(f"{row.id}-samples", format, SAMPLES, sample_rows(services.telemetry.samples, row.id, wanted, grep))


def _file(name: str, kind: Format, columns: Sequence[Column], parts: AsyncIterator[Part]) -> StreamingResponse:
    if kind == "parquet":
        if is_busy():
            raise ProblemError(
                429,
                "too-many-requests",
                _("the console writes as many Parquet files as it does at once"),
                _("try again in a moment"),
                headers={"Retry-After": str(RETRY_SECONDS)},
            )
        body = parquet_file(columns, parts)
    elif kind == "csv":
        body = _lines(csv_head(columns), csv_lines, columns, parts)
    else:
        body = _lines(b"", json_lines, columns, parts)
    headers = {
        "Content-Disposition": f'attachment; filename="{name}.{ENDING[kind]}"',
        "Cache-Control": "no-store",
    }
    return StreamingResponse(body, media_type=MEDIA[kind], headers=headers)


async def _lines(
    head: bytes,
    lines: Callable[[Sequence[Column], Part], bytes],
    columns: Sequence[Column],
    parts: AsyncIterator[Part],
) -> AsyncIterator[bytes]:
    if head:
        yield head
    async for part in parts:
        yield await asyncio.to_thread(lines, columns, part)
