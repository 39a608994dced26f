"""/healthz (does this process do its work), /readyz (may requests come), /metrics (Prometheus), /api/v1/server."""

from __future__ import annotations

from typing import Any

from fastapi import Request
from sqlalchemy import text
from sqlalchemy.exc import SQLAlchemyError
from starlette.responses import JSONResponse, Response

from tuneplane_server import __version__
from tuneplane_server.background.roles import RoleHealth
from tuneplane_server.features.accounts.deps import services_of
from tuneplane_server.services import Services
from tuneplane_server.web.gauges import read_gauges
from tuneplane_server.web.routing import Router

router = Router(tags=["operations"])
NO_STORE = {"Cache-Control": "no-store"}


@router.get("/healthz")
async def healthz(request: Request) -> Response:
    """503 only when a background role has stopped ticking: a restart may mend that. What no restart mends is `degraded`."""
    services = services_of(request)
    roles = role_health(services)
    healthy = all(role.healthy for role in roles)
    body = {
        "status": _status(services, healthy=healthy),
        "roles": {role.name: _role_view(role) for role in roles},
        "findings": _findings(services),
        "consoles": _consoles(services),
        "redis": _redis(services),
    }
    return JSONResponse(body, 200 if healthy else 503, NO_STORE)


@router.get("/readyz")
async def readyz(request: Request) -> Response:
    """503 while the database does not answer."""
    services = services_of(request)
    try:
        async with services.database.session() as session:
            await session.execute(text("select 1"))
    except (SQLAlchemyError, OSError) as error:
        body = {"status": "failing", "database": type(error).__name__, "findings": _findings(services)}
        return JSONResponse(body, 503, NO_STORE)
    body = {"status": _status(services, healthy=True), "database": "ok", "findings": _findings(services)}
    return JSONResponse(body, headers=NO_STORE)


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
    registry = CollectorRegistry(auto_describe=False)
    registry.register(await read_gauges(services, role_health(services)))  # type: ignore[arg-type]
    return Response(generate_latest(registry), media_type="text/plain; version=0.0.4; charset=utf-8")


def role_health(services: Services) -> list[RoleHealth]:
    return [] if services.running_roles is None else services.running_roles.health()


def _status(services: Services, *, healthy: bool) -> str:
    if not healthy:
        return "failing"
    return "degraded" if services.findings.all() else "ok"


def _role_view(role: RoleHealth) -> dict[str, Any]:
    return {
        "status": "off" if role.off else "ok" if role.healthy else "stopped",
        "last_tick": role.last_tick.isoformat() if role.last_tick else None,
        "failures": role.failures,
    }


def _findings(services: Services) -> list[dict[str, Any]]:
    """Without paths and figures, since nobody needs to sign in to read this: the banner and the log have them."""
    return [{"code": finding.code, "since": finding.since.isoformat()} for finding in services.findings.all()]


def _consoles(services: Services) -> int:
    return 1 if services.running_roles is None else len(services.duty.consoles.live)


def _redis(services: Services) -> str:
    if services.settings.redis_url is None:
        return "none"
    return "ok" if services.wakeups.connected.is_set() else "away"
