"""The composition root: settings in, FastAPI out."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from importlib.util import find_spec

from fastapi import FastAPI

from tuneplane.contract import words
from tuneplane_server import __version__
from tuneplane_server.clock import SYSTEM_CLOCK, Clock
from tuneplane_server.console.pages import install_site
from tuneplane_server.db import migrations
from tuneplane_server.features.accounts.api import router as accounts_router
from tuneplane_server.services import Services
from tuneplane_server.settings import Settings
from tuneplane_server.web import problems
from tuneplane_server.web.middleware import LanguageMiddleware, RequestGuardMiddleware, SecurityHeadersMiddleware

MIB = 1024 * 1024
BODY_LIMIT = 1 * MIB

_LATER = ("tuneplane_server.features.ingest.api", "tuneplane_server.features.telemetry.api",
          "tuneplane_server.features.artifacts.api")  # fmt: skip


def create_app(settings: Settings, clock: Clock = SYSTEM_CLOCK) -> FastAPI:
    """The console. Nothing is opened before the app's lifespan begins."""
    services = Services(settings, clock)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        await migrations.upgrade(services.database)
        try:
            yield
        finally:
            await services.database.close()

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
    app.include_router(accounts_router)
    for name in _LATER:
        with suppress(ModuleNotFoundError):
            if find_spec(name) is not None and hasattr(module := importlib.import_module(name), "router"):
                app.include_router(module.router)
    install_site(app)
    _add_layers(app, settings)
    return app


def _add_layers(app: FastAPI, settings: Settings) -> None:
    """The last one added is the outermost."""
    app.add_middleware(problems.CrashMiddleware)
    app.add_middleware(
        RequestGuardMiddleware,
        default_bytes=BODY_LIMIT,
        by_prefix={
            "/ingest/": words.MAX_BATCH_BYTES,
            "/api/v1/packages/": settings.package_max_mb * MIB,
            "/api/v1/jobs": 4 * MIB,
        },
    )
    app.add_middleware(LanguageMiddleware)
    app.add_middleware(SecurityHeadersMiddleware, https=settings.secure_cookies)
