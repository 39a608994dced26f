"""A real HTTP server that takes webhooks: what came is kept, what it answers is scripted."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from standardwebhooks import Webhook


@dataclass(frozen=True)
class Received:
    path: str
    headers: dict[str, str]
    body: bytes

    def verified(self, secret: str) -> dict[str, Any]:
        """The message, checked by the library of the standard."""
        message: dict[str, Any] = Webhook(secret).verify(self.body, self.headers)
        return message


@dataclass
class Receiver:
    """`answers`: (status, headers, body) of the next calls; 204 when there are none left. `hold`: an answer waits for it."""

    port: int = 0
    received: list[Received] = field(default_factory=list)
    answers: list[tuple[int, dict[str, str], bytes]] = field(default_factory=list)
    hold: threading.Event | None = None

    def url(self, path: str = "/hook") -> str:
        return f"http://127.0.0.1:{self.port}{path}"


@contextmanager
def receiving() -> Iterator[Receiver]:
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            receiver.received.append(Received(self.path, {k.lower(): v for k, v in self.headers.items()}, body))
            if receiver.hold is not None:
                receiver.hold.wait(60)
            status, headers, answer = receiver.answers.pop(0) if receiver.answers else (204, {}, b"")
            try:
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)
            except ConnectionError:
                pass  # who called did not wait for the rest

        def log_message(self, *_args: object) -> None:  # ty: ignore[incompatible-method-override]
            """Quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    receiver.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        if receiver.hold is not None:
            receiver.hold.set()
        server.shutdown()
        server.server_close()
        thread.join()
