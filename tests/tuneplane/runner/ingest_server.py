"""A real ingest on loopback: the wire of docs/en/reference/ingest, exact accounting, and the faults that consoles have."""

from __future__ import annotations

import gzip
import json
import socket
import threading
from collections import deque
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from tests.services.ports import free_port

TOKEN = "token-of-this-attempt"
Key = tuple[int, int, str]


class IngestServer:
    """Survives `stop` and `start` on the same port with what it stored, as a console with its database does.

    `faults` are taken one per batch: `503` (with Retry-After 1), `500`, `html` (200 from something else), `drop` (stores, then
    breaks the connection without an answer), `reset` (breaks it before storing), `forget` (answers 200 and stores nothing).
    `refuse` decides about single records: a batch that holds one is answered with 400.
    """

    def __init__(self) -> None:
        self.stored: dict[Key, dict[int, dict[str, Any]]] = {}
        self.duplicates = 0
        self.batches = 0
        self.refused = 0
        self.heartbeats: list[dict[str, Any]] = []
        self.faults: deque[str] = deque()
        self.denied = False
        self.desired = "run"
        self.renewed_token: str | None = None
        self.token = TOKEN
        self.max_body = 4 * 1024 * 1024
        self.refuse: Callable[[dict[str, Any]], bool] = lambda record: False
        self.tried_at: list[float] = []
        self.changed = threading.Condition()
        self._http: ThreadingHTTPServer | None = None
        self.port = free_port()

    def url(self, job: str) -> str:
        return f"http://127.0.0.1:{self.port}/ingest/v1/jobs/{job}"

    def start(self) -> IngestServer:
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                server._handle(self, body)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class' name
                return

        class Server(ThreadingHTTPServer):
            allow_reuse_address = True
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                return  # a client that was killed breaks its connection; that is the test

        self._http = Server(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return self

    def stop(self) -> None:
        if self._http is not None:
            self._http.shutdown()
            self._http.server_close()
            self._http = None

    def wait_for(self, predicate: Callable[[], bool], seconds: float = 60.0) -> None:
        with self.changed:
            assert self.changed.wait_for(predicate, seconds), "the server did not see it in time"

    def seqs(self, stream: str, rank: int = 0, attempt: int = 1) -> list[int]:
        return sorted(self.stored.get((attempt, rank, stream), {}))

    def records(self, stream: str, rank: int = 0, attempt: int = 1) -> list[dict[str, Any]]:
        found = self.stored.get((attempt, rank, stream), {})
        return [found[seq] for seq in sorted(found)]

    def text(self, fd: str) -> bytes:
        """The bytes of one output stream, in order."""
        from base64 import b64decode

        records = [record for record in self.records("log") if record["fd"] == fd]
        return b"".join(b64decode(it["data64"]) if "data64" in it else it["data"].encode("utf-8") for it in records)

    def events(self, name: str) -> list[dict[str, Any]]:
        return [record["data"] for record in self.records("event") if record["event"] == name]

    def assert_no_gaps(self) -> None:
        for key, records in self.stored.items():
            assert sorted(records) == list(range(1, len(records) + 1)), f"{key}: a hole or a double"

    def _handle(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        if self.denied or request.headers["Authorization"] != f"Bearer {self.token}":
            self._answer(request, 403, {"code": "token-invalid", "title": "token revoked"})
        elif request.path.endswith("/heartbeat"):
            with self.changed:
                self.heartbeats.append(json.loads(body))
                self.changed.notify_all()
            answer = {"desired": self.desired}
            if self.renewed_token:
                self.token = answer["token"] = self.renewed_token
                self.renewed_token = None
            self._answer(request, 200, answer)
        else:
            self._batch(request, body)

    def _batch(self, request: BaseHTTPRequestHandler, body: bytes) -> None:
        import time

        with self.changed:
            self.tried_at.append(time.monotonic())
            self.batches += 1
            fault = self.faults.popleft() if self.faults else ""
            self.changed.notify_all()
        if fault == "503":
            self._answer(request, 503, {"code": "busy"}, {"Retry-After": "1"})
        elif fault == "500":
            self._answer(request, 500, {"code": "internal"})
        elif fault == "html":
            self._raw(request, 200, b"<html>welcome</html>", "text/html")
        elif fault == "reset":
            request.connection.shutdown(socket.SHUT_RDWR)
        elif len(body) > self.max_body:
            self._raw(request, 413, b"<html>too large</html>", "text/html")
        else:
            self._store(request, body, fault)

    def _store(self, request: BaseHTTPRequestHandler, body: bytes, fault: str) -> None:
        records = [json.loads(line) for line in gzip.decompress(body).splitlines()]
        assert len(records) <= 5000
        if any(self.refuse(record) for record in records):
            with self.changed:
                self.refused += 1
            self._answer(request, 400, {"code": "request-invalid", "detail": "line 1"})
            return
        accepted = duplicate = 0
        ack: dict[str, int] = {}
        with self.changed:
            for record in records:
                key = (record["attempt"], record["rank"], record["stream"])
                stream = self.stored.setdefault(key, {})
                if record["seq"] in stream:
                    assert stream[record["seq"]] == record, "one seq, two contents"
                    duplicate += 1
                elif fault != "forget":
                    stream[record["seq"]] = record
                    accepted += 1
                ack["{}/{}/{}".format(*key)] = contiguous(stream)
            self.duplicates += duplicate
            self.changed.notify_all()
        if fault == "drop":
            request.connection.shutdown(socket.SHUT_RDWR)
        else:
            self._answer(request, 200, {"accepted": accepted, "duplicate": duplicate, "ack": ack})

    def _answer(
        self,
        request: BaseHTTPRequestHandler,
        status: int,
        body: dict[str, Any],
        headers: dict[str, str] | None = None,
    ) -> None:
        self._raw(request, status, json.dumps(body).encode(), "application/json", headers or {})

    def _raw(
        self,
        request: BaseHTTPRequestHandler,
        status: int,
        body: bytes,
        kind: str,
        headers: dict[str, str] | None = None,
    ) -> None:
        request.send_response(status)
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(body)))
        for name, value in (headers or {}).items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(body)


def contiguous(stream: dict[int, Any]) -> int:
    seq = 0
    while seq + 1 in stream:
        seq += 1
    return seq
