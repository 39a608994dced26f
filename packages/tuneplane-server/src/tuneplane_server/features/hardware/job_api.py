"""/api/v1/jobs/{id}/hardware: what a run's machines and cards did, in the shape of curves."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any

from fastapi import Query, Request, Response

from tuneplane_server.domain import downsample
from tuneplane_server.features.accounts.deps import Reader, services_of
from tuneplane_server.features.hardware import shapes
from tuneplane_server.features.hardware.figures import GPU, JOB, Latest
from tuneplane_server.features.telemetry.answers import described, json_answer
from tuneplane_server.web.routing import Router

router = Router(prefix="/api/v1/jobs/{job_id}/hardware", tags=["hardware"])

UNITS = {
    "use": "percent",
    "memory_used": "bytes",
    "disk_used": "bytes",
    "disk_read": "bytes/s",
    "disk_write": "bytes/s",
    "net_in": "bytes/s",
    "net_out": "bytes/s",
    "temperature": "celsius",
    "power": "watt",
    "ecc_errors": "count",
    "ecc_corrected": "count",
    "slowed": "count",  # 1 while heat or lack of power slows the card down
}


@router.get("", responses=described(shapes.JobHardware))
async def job_hardware(
    request: Request,
    job_id: str,
    principal: Reader,
    name: Annotated[list[str] | None, Query(max_length=100)] = None,
    max_points: Annotated[int, Query(ge=downsample.MIN_POINTS, le=downsample.MAX_POINTS)] = 300,
    attempt: Annotated[int | None, Query(ge=1, le=2**31 - 1)] = None,
) -> Response:
    """`{series: {"<node>/<part>/<figure>": [as in curves]}, about: {name: {node, part, gpu, figure, unit}}, latest, interval, simulated}`.

    Parts: `machine`, `job` (what the run itself used), `gpu0`, … (cards it held). Without `name` all of them."""
    services = services_of(request)
    row = await services.jobs.get(principal, job_id)
    series = await services.figures.of_run(row.id, max_points=max_points, attempt=attempt, names=name)
    latest = await services.figures.latest_of_run(row.id, attempt or row.attempt)
    return json_answer(
        {
            "series": series,
            "about": {name: about(name) for name in series},
            "latest": latest_list(latest),
            "interval": services.settings.hardware_seconds,
            "simulated": row.simulated,
        }
    )


def about(name: str) -> dict[str, Any]:
    node, part, figure = name.rsplit("/", 2)
    # A run's own processor time is told in cores, a machine's in percent of all of them.
    unit = ("cores" if part == JOB else "percent") if figure == "cpu" else UNITS.get(figure, "count")
    return {"node": node, **_part(part), "figure": figure, "unit": unit}


def latest_list(latest: Mapping[tuple[str, str], Latest]) -> list[dict[str, Any]]:
    """Machines, cards and the run itself, by node and index."""
    found = [
        {"node": node, **_part(part), "figures": dict(item.figures), "seen_at": _text(item.seen_at)}
        for (node, part), item in latest.items()
    ]
    return sorted(found, key=lambda item: (item["node"], item["part"], item["gpu"] or 0))


def _part(part: str) -> dict[str, Any]:
    index = part.removeprefix(GPU)
    return (
        {"part": GPU, "gpu": int(index)} if part.startswith(GPU) and index.isdecimal() else {"part": part, "gpu": None}
    )


def _text(time: datetime) -> str:
    return time.isoformat()
