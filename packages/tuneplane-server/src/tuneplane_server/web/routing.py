"""Routers of the API and of the pages, whose routes are worked out when they are first asked for.

FastAPI works a route out where it is written: it reads the signatures of the endpoint and of all that it depends on, and builds a
validator for each parameter and answer. For the console's routes together that took a third of the time from start to first page, of
which one route answers.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from fastapi import APIRouter, params
from fastapi.routing import APIRoute
from starlette.routing import compile_path, get_name

# One at a time, of whichever thread; one that is being worked out may be asked for what it has by now.
_working_out = threading.RLock()


class LateRoute(APIRoute):
    """Knows at once what a request is told apart by, its path and methods, and everything else from the first request on.

    A route that FastAPI cannot work out raises at that request, not at start: the tests work all of them out.
    """

    def __init__(
        self,
        path: str,
        endpoint: Callable[..., Any],
        *,
        name: str | None = None,
        methods: set[str] | list[str] | None = None,
        include_in_schema: bool = True,
        **options: Any,
    ) -> None:
        self.path, self.endpoint, self.include_in_schema = path, endpoint, include_in_schema
        self.name = get_name(endpoint) if name is None else name
        self.methods = {method.upper() for method in methods or ("GET",)}
        self.path_regex, self.path_format, self.param_convertors = compile_path(path)
        self._options: dict[str, Any] | None = options

    def work_out(self) -> None:
        """Have FastAPI make this the complete route; does nothing the second time. Raises what FastAPI raises."""
        with _working_out:
            options, self._options = self._options, None
            if options is None:
                return
            try:
                super().__init__(
                    self.path,
                    self.endpoint,
                    name=self.name,
                    methods=self.methods,
                    include_in_schema=self.include_in_schema,
                    **options,
                )
            except BaseException:
                self._options = options  # the next request is told the same, not that something is missing
                raise

    def __getattr__(self, name: str) -> Any:
        """Of what FastAPI sets when it works a route out: whoever asks for it gets it, the description of the API, too."""
        with _working_out:
            if name not in self.__dict__:
                if self.__dict__.get("_options") is None:
                    raise AttributeError(f"{type(self).__name__} has no {name}")
                self.work_out()
            return object.__getattribute__(self, name)


class Router(APIRouter):
    """FastAPI's router with late routes."""

    def __init__(
        self,
        *,
        prefix: str = "",
        tags: list[str | Enum] | None = None,
        dependencies: Sequence[params.Depends] | None = None,
        include_in_schema: bool = True,
    ) -> None:
        super().__init__(
            prefix=prefix,
            tags=tags,
            dependencies=dependencies,
            include_in_schema=include_in_schema,
            route_class=LateRoute,
        )
