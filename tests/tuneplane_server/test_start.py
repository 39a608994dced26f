"""What a console does not do before its first page; the time it takes is `make bench`'s."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.exceptions import FastAPIError
from starlette.routing import Route
from starlette.testclient import TestClient

from tests.tuneplane_server.harness import Harness
from tuneplane_server.app import ROUTERS
from tuneplane_server.console.pages import accounts
from tuneplane_server.web.routing import LateRoute, Router

WORKED_OUT = """
import json
import tuneplane_server.serving
from tuneplane_server.app import ROUTERS
from tuneplane_server.console.pages import accounts, jobs
routes = [route for router in (*ROUTERS, accounts.router, jobs.router) for route in router.routes]
print(json.dumps([len(routes), [route.path for route in routes if "dependant" in vars(route)]]))
"""

MIGRATED = """
import asyncio, json, sys
from tuneplane_server.db.engine import Database
from tuneplane_server.db.migrations import head, upgrade

async def run():
    database = Database("sqlite+aiosqlite:///" + sys.argv[1])
    assert await upgrade(database) == (None, head())
    await database.close()

asyncio.run(run())
print(json.dumps(sorted(sys.modules)))
"""
IMPORTED = "import json, sys, tuneplane_server.serving; print(json.dumps(sorted(sys.modules)))"
HELP = """
import contextlib, io, json, sys
from tuneplane_server.cli import main
sys.argv = ["tuneplane-server", "--help"]
with contextlib.redirect_stdout(io.StringIO()) as said:
    try:
        main()
    except SystemExit as ended:
        assert not ended.code
assert "setup-link" in said.getvalue()
print(json.dumps(sorted(sys.modules)))
"""
# What only some consoles need, or one only at some moment; each is imported where it is needed.
NOT_AT_START = {
    "alembic",
    "cryptography",
    "httpx2",
    "numpy",
    "obstore",
    "opentelemetry.sdk",
    "optuna",
    "redis",
    "tuneplane_server.background.wiring",
    "tuneplane_server.doctor",
    "tuneplane_server.executors.agent",
    "tuneplane_server.executors.slurm",
    "tuneplane_server.otel",
    "tuneplane_server.redis_wakeups",
}


def printed(code: str, *arguments: str) -> Any:
    """What Python prints as JSON that runs the code in a process of its own."""
    told = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert told.returncode == 0, told.stderr
    return json.loads(told.stdout)


def test_a_console_imports_nothing_before_it_is_needed() -> None:
    assert [name for name in NOT_AT_START if find_spec(name) is None] == []
    assert sorted(NOT_AT_START.intersection(printed(IMPORTED))) == []


def test_the_help_needs_nothing_of_the_console() -> None:
    imported = {name.partition(".")[0] for name in printed(HELP)}
    assert imported.isdisjoint({"fastapi", "pydantic", "sqlalchemy", "tuneplane_node", "uvicorn"})


def test_migrating_looks_at_no_table_of_the_code(tmp_path: Path) -> None:
    imported = printed(MIGRATED, str(tmp_path / "fresh.db"))
    assert "alembic" in imported
    assert [name for name in imported if name.startswith("tuneplane_server.features")] == []
    assert "httpx2" not in imported


def test_each_route_is_served_as_it_was_written(harness: Harness) -> None:
    served = harness.app.router.routes
    assert all(isinstance(route, Route) for route in served)
    written = [route for router in (*ROUTERS, accounts.router) for route in router.routes]
    assert written
    assert {id(route) for route in written} <= {id(route) for route in served}


def test_every_route_can_be_worked_out(harness: Harness) -> None:
    late = [route for route in harness.app.router.routes if isinstance(route, LateRoute)]
    assert len(late) > 100
    for route in late:
        route.work_out()
        assert route.dependant.call is route.endpoint
        assert not hasattr(route, "nothing_of_the_kind")


def test_importing_the_console_works_no_route_out() -> None:
    count, worked_out = printed(WORKED_OUT)
    assert count > 100
    assert worked_out == []


def test_a_late_route_answers_and_is_described_as_any_other() -> None:
    answers = []
    for router in (Router(prefix="/things", tags=["things"]), None):
        app = FastAPI()
        _write(app.router if router is None else router, "" if router is not None else "/things", router is None)
        if router is not None:
            app.router.routes.extend(router.routes)
        client = TestClient(app)
        replies = [
            client.get("/things/7"),
            client.get("/things/seven"),
            client.post("/things/7"),
            client.head("/things/7"),
        ]
        answers.append(([(one.status_code, one.text, one.headers.get("allow")) for one in replies], app.openapi()))
    assert answers[0] == answers[1]
    assert [status for status, _text, _allow in answers[0][0]] == [200, 422, 405, 405]


def _write(router: Any, prefix: str, tagged: bool) -> None:
    @router.get(f"{prefix}/{{number}}", tags=["things"] if tagged else None)
    def thing(number: int, much: bool = False) -> dict[str, int]:
        """One of them."""
        return {"number": number + much}


class Thing:
    """Nothing that FastAPI could read out of a request."""


def test_a_route_that_cannot_be_worked_out_says_why_each_time() -> None:
    router = Router()

    @router.get("/wrong")
    def wrong(thing: Thing) -> None:
        """Has an impossible parameter."""

    (route,) = router.routes
    assert isinstance(route, LateRoute)
    for _time in range(2):
        with pytest.raises(FastAPIError, match="Thing"):
            route.work_out()
