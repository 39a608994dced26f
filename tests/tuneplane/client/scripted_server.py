"""A web server on loopback that answers as a test tells it to: well, oddly, slowly or not at all. Real sockets, no console."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


@dataclass
class Request:
    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: bytes


@dataclass
class Reply:
    """`hang`: never answer. `cut`: close the connection after the body, whatever Content-Length promised."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)
    hang: bool = False
    length: int | None = None


def as_json(value: Any, status: int = 200, **headers: str) -> Reply:
    return Reply(status, json.dumps(value).encode(), {"Content-Type": "application/json", **headers})


def problem(status: int, code: str, detail: str = "what happened", **more: Any) -> Reply:
    value = {"type": "x", "title": "t", "status": status, "detail": detail, "code": code, "hint": "do this", **more}
    reply = as_json(value, status)
    reply.headers["Content-Type"] = "application/problem+json"
    return reply


Answer = Callable[[Request], Reply]


class _QuietServer(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke is what many of the tests are about."""


class ScriptedServer:
    """`answers`: path (without query) -> reply, list of replies one after the other, or function of the request."""

    def __init__(self) -> None:
        self.answers: dict[str, Reply | list[Reply] | Answer] = {}
        self.seen: list[Request] = []
        self.released = threading.Event()
        self._lock = threading.Lock()
        self._server = _QuietServer(("127.0.0.1", 0), self._handler())
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def stop(self) -> None:
        self.released.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(60)

    def requests(self, path: str) -> list[Request]:
        return [request for request in self.seen if request.path == path]

    def reply(self, request: Request) -> Reply:
        with self._lock:
            self.seen.append(request)
            answer = self.answers.get(request.path)
            if isinstance(answer, list):
                answer = answer.pop(0) if len(answer) > 1 else answer[0]
        if answer is None:
            return problem(404, "not-found", f"nothing at {request.path}")
        return answer if isinstance(answer, Reply) else answer(request)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name of http.server
                """Nothing: the tests look at `seen`."""

            def handle_any(self) -> None:
                parts = urlsplit(self.path)
                headers = {name.lower(): text for name, text in self.headers.items()}
                body = self._body(headers)
                request = Request(self.command, parts.path, parse_qs(parts.query), headers, body)
                reply = outer.reply(request)
                if reply.hang:
                    outer.released.wait(60)
                    self.close_connection = True
                    return
                self.send_response(reply.status)
                for name, text in reply.headers.items():
                    self.send_header(name, text)
                self.send_header("Content-Length", str(len(reply.body) if reply.length is None else reply.length))
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(reply.body)
                if reply.length is not None:
                    self.close_connection = True

            def _body(self, headers: dict[str, str]) -> bytes:
                if headers.get("transfer-encoding") == "chunked":
                    parts = []
                    while size := int(self.rfile.readline(), 16):
                        parts.append(self.rfile.read(size))
                        self.rfile.readline()
                    self.rfile.readline()
                    return b"".join(parts)
                return self.rfile.read(int(headers.get("content-length", 0)))

            do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = handle_any  # noqa: N815 - names of http.server

        return Handler


@contextmanager
def scripted_server() -> Iterator[ScriptedServer]:
    server = ScriptedServer()
    try:
        yield server
    finally:
        server.stop()
