"""The composition root: settings in, FastAPI out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from tuneplane.contract import words
from tuneplane_server import __version__
from tuneplane_server.clock import SYSTEM_CLOCK, Clock
from tuneplane_server.console.site import install_site
from tuneplane_server.db import migrations
from tuneplane_server.executors.port import Executor
from tuneplane_server.features.accounts.admin_api import router as users_router
from tuneplane_server.features.accounts.api import router as accounts_router
from tuneplane_server.features.alerts.api import router as alerts_router
from tuneplane_server.features.alerts.webhook_api import router as webhooks_router
from tuneplane_server.features.artifacts.api import router as artifacts_router
from tuneplane_server.features.audit.api import router as audit_router
from tuneplane_server.features.catalog.api import router as catalog_router
from tuneplane_server.features.evaluation.api import router as evaluations_router
from tuneplane_server.features.governance.api import router as governance_router
from tuneplane_server.features.hardware.api import router as hardware_router
from tuneplane_server.features.hardware.job_api import router as job_hardware_router
from tuneplane_server.features.ingest.api import router as ingest_router
from tuneplane_server.features.ingest.outside_api import router as outside_router
from tuneplane_server.features.jobs.api import router as jobs_router
from tuneplane_server.features.nodes.api import router as nodes_router
from tuneplane_server.features.packages.api import router as packages_router
from tuneplane_server.features.projects.api import router as projects_router
from tuneplane_server.features.queue.api import router as queue_router
from tuneplane_server.features.retention.api import router as retention_router
from tuneplane_server.features.runtimes.api import router as runtimes_router
from tuneplane_server.features.sweeps.api import router as sweeps_router
from tuneplane_server.features.telemetry.api import router as telemetry_router
from tuneplane_server.features.telemetry.curves_api import router as curves_router
from tuneplane_server.features.telemetry.exports.api import router as exports_router
from tuneplane_server.features.telemetry.samples_api import router as samples_router
from tuneplane_server.logs import configure_logs
from tuneplane_server.services import Services
from tuneplane_server.settings import Settings, wants_opentelemetry
from tuneplane_server.web import problems
from tuneplane_server.web.health import router as health_router
from tuneplane_server.web.middleware import (
    CallersMiddleware,
    LanguageMiddleware,
    RequestGuardMiddleware,
    SecurityHeadersMiddleware,
)

MIB = 1024 * 1024
BODY_LIMIT = 1 * MIB
ROUTERS = (
    ingest_router,  # first: routes are tried in this order, and nothing is asked for as often as these two
    nodes_router,
    health_router,
    accounts_router,
    users_router,
    governance_router,
    projects_router,
    retention_router,
    catalog_router,
    hardware_router,
    job_hardware_router,
    runtimes_router,
    packages_router,
    jobs_router,
    queue_router,
    sweeps_router,
    telemetry_router,
    curves_router,
    samples_router,
    exports_router,
    artifacts_router,
    evaluations_router,
    outside_router,
    audit_router,
    alerts_router,
    webhooks_router,
)


def create_app(
    settings: Settings, clock: Clock = SYSTEM_CLOCK, *, executor: Executor | None = None, roles: bool = True
) -> FastAPI:
    """The console. Nothing is opened before the app's lifespan begins; `roles=False` serves without background work."""
    configure_logs(settings.log_level, settings.log_format)
    services = Services(settings, clock, executor)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        async with running(services, roles=roles):
            yield

    app = FastAPI(
        title="TunePlane",
        version=__version__,
        lifespan=lifespan,
        openapi_url="/api/v1/openapi.json",
        docs_url=None,
        redoc_url=None,
    )
    app.state.services = services
    problems.install(app)
    for router in ROUTERS:
        # As they are: `include_router` would build each route, with its validators, a second time at the first request that passes
        # it, for prefixes and dependencies of the whole app, which there are none of.
        app.router.routes.extend(router.routes)
    install_site(app)
    _add_layers(app, services)
    _add_opentelemetry(app, services)
    return app


@asynccontextmanager
async def running(services: Services, *, roles: bool) -> AsyncIterator[None]:
    """Everything that lives as long as the console serves. At the end runs go on; the next start adopts them."""
    await migrations.upgrade(services.database)
    await asyncio.to_thread(services.storage.prepare)
    # Raises `RefusedError` when the organisation's recipes are not sound: without them it would refuse what it admitted before.
    await asyncio.to_thread(services.catalog.load)
    await services.registry.load()  # nor without the images that jobs run in
    await services.wakeups.open()
    services.loop_lag.start()
    services.registry.start()
    try:
        await services.executor.open()
        if roles:
            services.running_roles = services.roles
            await services.duty.start()
        yield
    finally:
        if services.running_roles is not None:
            await services.duty.stop()
        await services.loop_lag.stop()
        await services.registry.stop()
        await services.wakeups.close()
        await services.accounts.limits.close()
        await services.telemetry.close()
        await services.executor.close()
        await services.database.close()
        if services.opentelemetry is not None:
            await asyncio.to_thread(services.opentelemetry.close)


def _add_opentelemetry(app: FastAPI, services: Services) -> None:
    """Traces and metrics over OTLP where OTEL_* names a collector; nothing of it is imported elsewhere."""
    if not wants_opentelemetry():
        return
    from tuneplane_server import otel

    services.opentelemetry = otel.install(services)
    if services.opentelemetry is not None:
        app.add_middleware(otel.TraceMiddleware, telemetry=services.opentelemetry)


def _add_layers(app: FastAPI, services: Services) -> None:
    """The last one added is the outermost."""
    settings = services.settings
    app.add_middleware(problems.CrashMiddleware)
    app.add_middleware(
        RequestGuardMiddleware,
        default_bytes=BODY_LIMIT,
        by_prefix={
            "/ingest/": words.MAX_BATCH_BYTES,
            "/api/v1/packages/": settings.package_max_mb * MIB,
            "/api/v1/jobs": 4 * MIB,
            "/api/v1/organisation/": 48 * MIB,  # base64 of the most that recipes may be
            "/api/v1/sweeps": 4 * MIB,
        },
    )
    app.add_middleware(LanguageMiddleware)
    app.add_middleware(SecurityHeadersMiddleware, https=settings.secure_cookies)
    app.add_middleware(CallersMiddleware, callers=services.callers)
