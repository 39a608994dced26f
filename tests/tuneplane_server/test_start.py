"""What a console does not do before its first page; the time it takes is `make bench`'s."""

from __future__ import annotations

from starlette.routing import Route

from tests.tuneplane_server.harness import Harness
from tuneplane_server.app import ROUTERS
from tuneplane_server.console.pages import accounts


def test_each_route_is_built_once_where_it_is_written(harness: Harness) -> None:
    served = harness.app.router.routes
    assert all(isinstance(route, Route) for route in served)
    written = [route for router in (*ROUTERS, accounts.router) for route in router.routes]
    assert written
    assert {id(route) for route in written} <= {id(route) for route in served}
