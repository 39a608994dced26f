"""The live stream behind two proxies of which the inner one keeps everything until it is over (scenario 16, the client's part)."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.tuneplane.client.scripted_server import Reply, Request, ScriptedServer
from tuneplane.client import changes as module
from tuneplane.client.changes import Changes
from tuneplane.client.http import Console

RUN = "0" * 16
STREAM = f"/api/v1/jobs/{RUN}/stream"


class Proxy:
    """Passes connections on to `port`; a buffering one gives no byte of an answer before the answer is over."""

    def __init__(self, port: int, *, buffering: bool = False) -> None:
        self._target, self._buffering = port, buffering
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._target))
            threading.Thread(target=self._pass, args=(near, far, False), daemon=True).start()
            threading.Thread(target=self._pass, args=(far, near, self._buffering), daemon=True).start()

    def _pass(self, source: socket.socket, sink: socket.socket, buffering: bool) -> None:
        kept: list[bytes] = []
        try:
            while data := source.recv(65536):
                kept.append(data)
                if not buffering:
                    sink.sendall(kept.pop())
            sink.sendall(b"".join(kept))
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            return  # the other side went away


@pytest.fixture
def behind_proxies(server: ScriptedServer) -> Iterator[Console]:
    with ExitStack() as stack:
        inner = Proxy(int(server.url.rpartition(":")[2]), buffering=True)
        stack.callback(inner.close)
        outer = Proxy(inner.port)
        stack.callback(outer.close)
        yield Console(f"http://127.0.0.1:{outer.port}", "token")


def test_it_falls_back_by_itself_and_goes_on_from_the_last_id(
    server: ScriptedServer, behind_proxies: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(module, "RECONNECT_SECONDS", (0.01,))
    over, asked = threading.Event(), threading.Event()

    def stream(request: Request) -> Reply:
        last = request.headers.get("last-event-id")
        if last is not None:
            asked.set()
            return Reply(hang=True)
        over.wait(60)  # the console says something now and then; behind the buffer nobody hears it
        body = b"event: logs\nid: 41\ndata: {}\n\nevent: metrics\nid: 42\ndata: {}\n\n"
        return Reply(200, body, {"Content-Type": "text/event-stream"}, length=len(body))

    server.answers[STREAM] = stream
    with Changes(behind_proxies, RUN) as changes:
        assert [changes.wait() for _look in range(5)] == [set()] * 5, "the clock wakes the reader"
        assert not changes.streaming
        over.set()
        assert asked.wait(60)
        assert changes.wait(60) == {"logs", "metrics"}
    assert server.requests(STREAM)[1].headers["last-event-id"] == "42"
