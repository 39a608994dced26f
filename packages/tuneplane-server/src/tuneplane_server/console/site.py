"""Hangs the pages, their static files and their error page on the console's app."""

from __future__ import annotations

from fastapi import FastAPI
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from tuneplane_server.console.assets import PREFIX
from tuneplane_server.console.pages import (
    accounts,
    admin,
    alerts,
    compare,
    evaluations,
    hardware,
    job,
    job_actions,
    job_samples,
    jobs,
    nodes,
    notices,
    problems,
    queue,
    runtimes,
    sweeps,
)
from tuneplane_server.console.pages.errors import error_page
from tuneplane_server.console.pages.reader import SignInNeededError, to_sign_in
from tuneplane_server.console.templating import Pages


def install_site(app: FastAPI) -> None:
    """Needs `app.state.services`. Sets `app.state.pages` and `app.state.error_page`."""
    pages = Pages()
    app.state.pages = pages
    app.state.error_page = error_page
    app.add_exception_handler(SignInNeededError, to_sign_in)
    app.router.routes.append(
        Route(PREFIX + "/{digest}/{name:path}", pages.assets.serve, methods=["GET"], include_in_schema=False)
    )
    app.add_api_route("/", _home, include_in_schema=False)
    for module in (
        accounts,
        jobs,
        compare,
        job,
        job_samples,
        job_actions,
        queue,
        sweeps,
        evaluations,
        hardware,
        nodes,
        runtimes,
        alerts,
        admin,
        notices,
        problems,
    ):
        app.router.routes.extend(module.router.routes)  # not included, as `create_app` says


async def _home() -> Response:
    return RedirectResponse("/jobs", 303)
