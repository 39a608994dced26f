"""/healthz (does this process do its work), /readyz (may requests come), /metrics (Prometheus), /api/v1/server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from starlette.responses import JSONResponse, Response

from tuneplane_server import __version__
from tuneplane_server.features.accounts.deps import services_of

if TYPE_CHECKING:
    from prometheus_client import Metric

    from tuneplane_server.background.roles import RoleHealth
    from tuneplane_server.services import Services

router = APIRouter(tags=["operations"])


@router.get("/healthz")
async def healthz(request: Request) -> Response:
    """503 when a background role has stopped ticking."""
    roles = _role_health(services_of(request))
    healthy = all(role.healthy for role in roles)
    body = {
        "status": "ok" if healthy else "failing",
        "roles": {
            role.name: {
                "status": "ok" if role.healthy else "stopped",
                "last_tick": role.last_tick.isoformat() if role.last_tick else None,
            }
            for role in roles
        },
    }
    return JSONResponse(body, 200 if healthy else 503, {"Cache-Control": "no-store"})


@router.get("/readyz")
async def readyz(request: Request) -> Response:
    """503 while the database does not answer."""
    try:
        async with services_of(request).database.session() as session:
            await session.execute(text("select 1"))
    except (SQLAlchemyError, OSError) as error:
        body = {"status": "failing", "database": type(error).__name__}
        return JSONResponse(body, 503, {"Cache-Control": "no-store"})
    return JSONResponse({"status": "ok"}, headers={"Cache-Control": "no-store"})


@router.get("/api/v1/server")
async def server(request: Request) -> dict[str, Any]:
    """Who answers here; needs no sign-in."""
    services = services_of(request)
    return {
        "name": "tuneplane",
        "version": __version__,
        "api": "v1",
        "catalog_digest": services.catalog.digest(),
        "executor": services.executor.name,
        "setup_needed": await services.accounts.setup_needed(),
    }


@router.get("/metrics")
async def metrics(request: Request) -> Response:
    """Counts and gauges of the console itself; no names of people, projects or runs."""
    from prometheus_client import CollectorRegistry, generate_latest

    services = services_of(request)
    phases = await services.jobs.phase_counts()
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Snapshot(_role_health(services), phases))  # type: ignore[arg-type]
    return Response(generate_latest(registry), media_type="text/plain; version=0.0.4; charset=utf-8")


def _role_health(services: Services) -> list[RoleHealth]:
    return [] if services.running_roles is None else services.running_roles.health()


class _Snapshot:
    """A collector over values that were read a moment ago."""

    def __init__(self, roles: list[RoleHealth], phases: dict[str, int]) -> None:
        self._roles, self._phases = roles, phases

    def collect(self) -> Iterator[Metric]:
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        yield GaugeMetricFamily("tuneplane_up", "1 while the console answers", value=1)
        jobs = GaugeMetricFamily("tuneplane_jobs", "Jobs by phase", labels=["phase"])
        for phase, count in sorted(self._phases.items()):
            jobs.add_metric([phase], count)
        yield jobs
        tick = GaugeMetricFamily("tuneplane_role_last_tick_seconds", "Unix time of a role's last tick", labels=["role"])
        ticks = CounterMetricFamily("tuneplane_role_ticks", "Ticks of a role", labels=["role"])
        failures = CounterMetricFamily("tuneplane_role_failures", "Failures of a role", labels=["role"])
        for role in self._roles:
            if role.last_tick is not None:
                tick.add_metric([role.name], role.last_tick.timestamp())
            ticks.add_metric([role.name], role.ticks)
            failures.add_metric([role.name], role.failures)
        yield from (tick, ticks, failures)
