"""Answers that are not what the API says: each is `unknown` in bounded time, never `absent` and never a traceback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.tuneplane_node.bench import Bench
from tuneplane_node.engine import NodeError
from tuneplane_node.engine.runtimes import engine_api

VERSION = b'{"Version":"28.0","ApiVersion":"1.47","MinAPIVersion":"1.24","Components":[{"Name":"Engine"}]}'


def http(status: str, body: bytes, kind: str = "application/json") -> bytes:
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
        + body
    )


@asynccontextmanager
async def engine_saying(socket: Path, answer: bytes | None, healthy_version: bool) -> AsyncIterator[None]:
    """Listens where an engine would; `answer` None is silence."""
    released = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await reader.readuntil(b"\r\n\r\n")
        path = request.split(b" ")[1]
        if healthy_version and path == b"/version":
            writer.write(http("200 OK", VERSION))
        elif healthy_version and path == b"/info":
            writer.write(http("200 OK", b"{}"))
        elif answer is None:
            await released.wait()
        else:
            writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_unix_server(serve, socket)
    async with server:
        yield
        released.set()


ODD = {
    "silence": None,
    "hang-up": b"",
    "no-http": b"hello, this is not HTTP\r\n\r\n",
    "html": http("200 OK", b"<html>a proxy's page</html>", "text/html"),
    "html-404": http("404 Not Found", b"<html>a proxy's page</html>", "text/html"),
    "bare-404": http("404 Not Found", b'{"message":"page not found"}'),
    "forbidden": http("403 Forbidden", b'{"message":"not allowed by the socket proxy"}'),
    "broken": http("500 Internal Server Error", b"panic"),
    "empty": http("200 OK", b""),
    "list": http("200 OK", b"[1,2]"),
    "number": http("200 OK", b"7"),
    "half": b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{",
    "no-state": b"",
}


@pytest.mark.parametrize("healthy_version", [True, False], ids=["known", "unknown"])
@pytest.mark.parametrize("name", ODD)
async def test_an_odd_answer_is_unknown_never_absent(
    name: str, healthy_version: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_api, "CALL_SECONDS", 0.3)
    socket = tmp_path / "s"
    bench = Bench("docker", f"unix://{socket}", "any:1", tmp_path)
    answer = ODD[name]
    if name == "no-state":  # a container of ours, and not one word about how it is
        answer = http("200 OK", f'{{"Config":{{"Labels":{{"tuneplane.instance":"{bench.instance}"}}}}}}'.encode())
    async with engine_saying(socket, answer, healthy_version):
        seen = await bench.engine.observe(bench.handle())
        assert seen.state == "unknown"
        assert seen.detail
        assert not await bench.engine.cleanup(bench.handle())
        with pytest.raises(NodeError):
            await bench.launch("exit 0")
        with pytest.raises(NodeError):
            await bench.engine.owned()
        findings = await bench.engine.check()
    assert healthy_version or [finding.level for finding in findings] == ["error"]
    await bench.engine.close()


async def test_one_slow_look_does_not_hold_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_api, "CALL_SECONDS", 0.5)
    socket = tmp_path / "s"
    bench = Bench("docker", f"unix://{socket}", "any:1", tmp_path)
    async with engine_saying(socket, None, healthy_version=True):
        async with asyncio.timeout(60):
            seen = await asyncio.gather(*(bench.engine.observe(bench.handle(f"job-{number}")) for number in range(50)))
    assert {each.state for each in seen} == {"unknown"}
    await bench.engine.close()
