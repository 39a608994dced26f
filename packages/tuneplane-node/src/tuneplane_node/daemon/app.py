"""The daemon's HTTP API: the engine's calls one to one, JSON both ways. Starlette, because FastAPI costs a third of a daemon's memory."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from tuneplane.i18n import using_language
from tuneplane_node.daemon.answers import Answers
from tuneplane_node.daemon.auth import TokenGate, WrongTokens
from tuneplane_node.daemon.node import Node
from tuneplane_node.engine import NodeError, RuntimeHandle
from tuneplane_node.wire import (
    ID_HEADER,
    NODE_PATH,
    AttemptCleanupCall,
    CleanupAnswer,
    CleanupCall,
    LaunchAnswer,
    LaunchCall,
    PortAnswer,
    PortCall,
    PreflightRequest,
    StopAnswer,
    StopCall,
    StorageChallenge,
    WireError,
    from_json,
)

MAX_BODY = 8 * 1024 * 1024
MAX_TAIL = 8 * 1024 * 1024
_LOG = logging.getLogger("tuneplane_node")

type Call = Callable[[Request], Awaitable[Response]]


def create_app(node: Node, token: Callable[[], str], wrong: WrongTokens | None = None) -> ASGIApp:
    """`token` gives the one that is valid now."""
    calls = _Calls(node)
    app = Starlette(
        routes=calls.routes(),
        middleware=[Middleware(_MeantForIt, node.node_id, calls.answers), Middleware(_InLanguage)],
        exception_handlers={NodeError: calls.refused, HTTPException: calls.odd, Exception: calls.broken},
    )
    return TokenGate(app, token, calls.answers, wrong)


class _MeantForIt:
    """A call that is for another node, which had this address before, is not done: "gone" would be said of that one's jobs."""

    def __init__(self, app: ASGIApp, node_id: str, answers: Answers) -> None:
        self._app, self._node_id, self._answers = app, node_id, answers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        meant = Headers(scope=scope).get(ID_HEADER, self._node_id) if scope["type"] == "http" else self._node_id
        if meant == self._node_id:
            await self._app(scope, receive, send)
            return
        status = HTTPStatus.MISDIRECTED_REQUEST
        await self._answers.json({"status": status}, status)(scope, receive, send)


class _InLanguage:
    """Details and findings in the language of whoever asks."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        wanted = next((value for name, value in scope["headers"] if name == b"accept-language"), b"en")
        with using_language(wanted[:40].decode("latin-1")):
            await self._app(scope, receive, send)


class _Calls:
    def __init__(self, node: Node) -> None:
        self._node = node
        self.answers = Answers(node.version)

    def routes(self) -> list[Route]:
        one = NODE_PATH + "/containers/{runtime}/{name}"
        return [
            self._get("/hello", self._hello),
            self._get("/inventory", self._inventory),
            self._get("/check", self._check),
            self._get("/sample", self._sample),
            self._get("/containers", self._containers),
            self._post("/launch", self._launch),
            self._post("/attempts/cleanup", self._cleanup_attempt),
            self._post("/storage", self._storage),
            self._post("/preflight", self._preflight),
            self._post("/ports/reserve", self._reserve_port),
            self._post("/ports/open", self._open_port),
            self._post("/ports/close", self._close_port),
            self._post("/ports/release", self._release_port),
            Route(one, self._observe, methods=["GET"]),
            Route(f"{one}/logs", self._logs, methods=["GET"]),
            Route(f"{one}/stop", self._stop, methods=["POST"]),
            Route(f"{one}/kill", self._kill, methods=["POST"]),
            Route(f"{one}/cleanup", self._cleanup, methods=["POST"]),
        ]

    def _get(self, path: str, call: Call) -> Route:
        return Route(NODE_PATH + path, call, methods=["GET"])

    def _post(self, path: str, call: Call) -> Route:
        return Route(NODE_PATH + path, call, methods=["POST"])

    # --- looking ----------------------------------------------------------------------------------------------------

    async def _hello(self, _request: Request) -> Response:
        return self.answers.json(await self._node.hello())

    async def _inventory(self, _request: Request) -> Response:
        return self.answers.json(await self._node.engine.inventory())

    async def _check(self, _request: Request) -> Response:
        return self.answers.json(await self._node.check())

    async def _sample(self, _request: Request) -> Response:
        return self.answers.json(await self._node.engine.sample())

    async def _containers(self, _request: Request) -> Response:
        return self.answers.json(await self._node.containers())

    async def _observe(self, request: Request) -> Response:
        return self.answers.json(await self._node.engine.observe(_handle(request)))

    async def _logs(self, request: Request) -> Response:
        text = request.query_params.get("tail_bytes", "65536")
        if not (text.isascii() and text.isdecimal() and 0 < int(text[:12]) <= MAX_TAIL):
            raise NodeError("request-invalid", field="tail_bytes", value=text[:40])
        return self.answers.octets(await self._node.engine.logs(_handle(request), int(text)))

    # --- acting -----------------------------------------------------------------------------------------------------

    async def _launch(self, request: Request) -> Response:
        handle = await self._node.operations.launch(await _body(request, LaunchCall))
        return self.answers.json(LaunchAnswer(handle is not None, "" if handle is None else str(handle)))

    async def _stop(self, request: Request) -> Response:
        call = await _body(request, StopCall)
        if not 0 <= call.grace_seconds <= 30 * 86400:
            raise NodeError("request-invalid", field="grace_seconds", value=call.grace_seconds)
        done = await self._node.operations.stop(_handle(request), call.grace_seconds, call.operation)
        return self.answers.json(StopAnswer(done))

    async def _kill(self, request: Request) -> Response:
        await self._node.engine.kill(_handle(request))
        return self.answers.json({})

    async def _cleanup(self, request: Request) -> Response:
        await _body(request, CleanupCall)
        return self.answers.json(CleanupAnswer(await self._node.operations.cleanup(_handle(request))))

    async def _cleanup_attempt(self, request: Request) -> Response:
        call = await _body(request, AttemptCleanupCall)
        gone = await self._node.cleanup_attempt(call.job, call.attempt, call.instance)
        return self.answers.json(CleanupAnswer(gone))

    # --- before a launch --------------------------------------------------------------------------------------------

    async def _storage(self, request: Request) -> Response:
        return self.answers.json(await self._node.storage.prove(await _body(request, StorageChallenge)))

    async def _preflight(self, request: Request) -> Response:
        return self.answers.json(await self._node.preflight(await _body(request, PreflightRequest)))

    async def _reserve_port(self, request: Request) -> Response:
        call = await _body(request, PortCall)
        return self.answers.json(PortAnswer(await self._node.ports.reserve(call.job, call.attempt)))

    async def _open_port(self, request: Request) -> Response:
        call = await _body(request, PortCall)
        await self._node.ports.open(call.job, call.attempt)
        return self.answers.json(PortAnswer())

    async def _close_port(self, request: Request) -> Response:
        call = await _body(request, PortCall)
        await self._node.ports.close(call.job, call.attempt)
        return self.answers.json(PortAnswer())

    async def _release_port(self, request: Request) -> Response:
        call = await _body(request, PortCall)
        await self._node.ports.release(call.job, call.attempt)
        return self.answers.json(PortAnswer())

    # --- what goes wrong --------------------------------------------------------------------------------------------

    async def refused(self, _request: Request, problem: Exception) -> Response:
        assert isinstance(problem, NodeError)
        return self.answers.refusal(problem)

    async def odd(self, _request: Request, problem: Exception) -> Response:
        assert isinstance(problem, HTTPException)
        return self.answers.json({"status": problem.status_code}, problem.status_code)

    async def broken(self, request: Request, problem: Exception) -> Response:
        """A fault of ours: its place is for the log, not for the caller."""
        _LOG.error("%s %s failed", request.method, request.url.path, exc_info=problem)
        return self.answers.json({"status": 500}, 500)


def _handle(request: Request) -> RuntimeHandle:
    return RuntimeHandle.parse(f"{request.path_params['runtime']}/{request.path_params['name']}")


async def _body[T](request: Request, shape: type[T]) -> T:
    """Raises NodeError `request-invalid`."""
    content = bytearray()
    async for piece in request.stream():
        content += piece
        if len(content) > MAX_BODY:
            raise NodeError("request-invalid", field="body", value=f"> {MAX_BODY}")
    try:
        value: Any = json.loads(bytes(content))
        return from_json(shape, value)
    except WireError as problem:
        raise NodeError("request-invalid", field="body", value=str(problem)[:500]) from problem
    except (ValueError, RecursionError) as problem:
        raise NodeError("request-invalid", field="body", value=f"JSON: {problem}"[:500]) from problem
