"""Apps for the consoles of tests. An app reads its templates and its layers are put together anew, some hundredths of a second for each
test; so an app whose console is closed serves the next console of the same settings.
"""

from __future__ import annotations

from collections import defaultdict

from fastapi import FastAPI

from tuneplane_server.app import create_app
from tuneplane_server.logs import configure_logs
from tuneplane_server.services import Services
from tuneplane_server.settings import Settings

# What a console keeps where; everything else may decide how an app is built.
PLACES = {"storage_root", "data_dir", "database_url", "runtimes_dir"}
_idle: defaultdict[str, list[FastAPI]] = defaultdict(list)


def borrow(services: Services) -> FastAPI:
    """An app on these services, nobody else's until it is given back. Whoever changes an app makes one of their own."""
    settings = services.settings
    configure_logs(settings.log_level, settings.log_format)  # as for a new one: standard error is another for each test
    idle = _idle[_kind(settings)]
    app = idle.pop() if idle else create_app(settings, services.clock, executor=services.executor, roles=False)
    app.state.services = services
    return app


def give_back(app: FastAPI) -> None:
    settings: Settings = app.state.services.settings
    app.state.services = None
    _idle[_kind(settings)].append(app)


def _kind(settings: Settings) -> str:
    return repr(sorted((name, value) for name, value in settings if name not in PLACES))
