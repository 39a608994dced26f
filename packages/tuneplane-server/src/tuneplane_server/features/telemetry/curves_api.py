"""Curves over the API: of one run, and of several side by side. Numbers that JSON lacks travel as "NaN", "Infinity", "-Infinity"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import Query, Request, Response

from tuneplane.i18n import _
from tuneplane_server.domain import downsample
from tuneplane_server.features.accounts.deps import Reader, services_of
from tuneplane_server.features.telemetry import shapes
from tuneplane_server.features.telemetry.answers import described, json_answer
from tuneplane_server.features.telemetry.curves import NAMES_AT_ONCE, CurveQuery
from tuneplane_server.web.problems import refused
from tuneplane_server.web.routing import Router

if TYPE_CHECKING:
    from tuneplane_server.features.jobs.tables import JobRow

router = Router(prefix="/api/v1", tags=["telemetry"])

RUNS_AT_ONCE = 50
MAX_POINTS_AT_ONCE = 200_000

Names = Annotated[list[str], Query(min_length=1, max_length=NAMES_AT_ONCE)]
Points = Annotated[int, Query(ge=downsample.MIN_POINTS, le=downsample.MAX_POINTS)]
Axis = Literal["step", "time", "relative", "tokens", "epoch"]
Step = Annotated[int | None, Query(ge=-(2**63), lt=2**63)]
Attempt = Annotated[int | None, Query(ge=1, le=2**31 - 1)]
MainRank = Annotated[int, Query(ge=0, le=2**31 - 1)]


@router.get("/jobs/{job_id}/curves", responses=described(shapes.Curves))
async def curves(
    request: Request,
    job_id: str,
    principal: Reader,
    name: Names,
    max_points: Points = 500,
    attempt: Attempt = None,
    rank: MainRank = 0,
    x: Axis | None = None,
    step_min: Step = None,
    step_max: Step = None,
) -> Response:
    """`{series: {name: [{attempt, step, time, value, epoch?, x?, count, replaced_from}]}}`. `x`: every part has a column `x` to
    draw over, null where it is not known. `step_min`, `step_max`: only that stretch, as finely as `max_points` allows."""
    services = services_of(request)
    row = await services.jobs.get(principal, job_id)
    query = _query(name, max_points, attempt, rank, x, step_min, step_max, runs=1)
    found = await services.telemetry.curves.of_runs({row.id: _start(row)}, query)
    return json_answer({"series": found[row.id]})


@router.get("/curves", responses=described(shapes.RunCurves))
async def curves_of_runs(
    request: Request,
    principal: Reader,
    run: Annotated[list[str], Query(min_length=1, max_length=RUNS_AT_ONCE)],
    name: Names,
    max_points: Points = 500,
    rank: MainRank = 0,
    x: Axis | None = None,
    step_min: Step = None,
    step_max: Step = None,
) -> Response:
    """`{runs: {run: {series: as of one run}}}`; a run that is not the caller's to see is `not-found`, whatever the others are."""
    services = services_of(request)
    ids = list(dict.fromkeys(run))
    query = _query(name, max_points, None, rank, x, step_min, step_max, runs=len(ids))
    rows = [await services.jobs.get(principal, job_id) for job_id in ids]
    found = await services.telemetry.curves.of_runs({row.id: _start(row) for row in rows}, query)
    return json_answer({"runs": {job_id: {"series": series} for job_id, series in found.items()}})


@router.get("/metrics", responses=described(shapes.RunMetrics))
async def metrics_of_runs(
    request: Request,
    principal: Reader,
    run: Annotated[list[str], Query(min_length=1, max_length=RUNS_AT_ONCE)],
    rank: MainRank = 0,
) -> Response:
    """`{runs: {run: as of one run}}`: what the runs have, to choose curves from."""
    services = services_of(request)
    rows = [await services.jobs.get(principal, job_id) for job_id in dict.fromkeys(run)]
    found = {
        row.id: {
            "metrics": await services.telemetry.curves.metrics(row.id, rank),
            "refused_points": (await services.telemetry.usage(row.id)).refused_points,
        }
        for row in rows
    }
    return json_answer({"runs": found})


def _query(
    names: list[str],
    max_points: int,
    attempt: int | None,
    rank: int,
    axis: str | None,
    first: int | None,
    last: int | None,
    *,
    runs: int,
) -> CurveQuery:
    wanted = [one for one in dict.fromkeys(names) if "\0" not in one]
    if runs * len(wanted) * max_points > MAX_POINTS_AT_ONCE:
        raise refused(
            "request-invalid",
            _("that is too much for one answer"),
            _("at most {count} points: fewer names or runs, or a smaller max_points").format(count=MAX_POINTS_AT_ONCE),
            field="max_points",
        )
    everything = first is None and last is None
    steps = None if everything else (-(2**63) if first is None else first, 2**63 - 1 if last is None else last)
    return CurveQuery(names=wanted, max_points=max_points, attempt=attempt, rank=rank, axis=axis, steps=steps)


def _start(row: JobRow) -> float:
    """Zero of the axis `relative`: when the run began, or was submitted while it has not."""
    times: list[Any] = [row.started_at, row.created_at]
    return next(time.timestamp() for time in times if time is not None)
