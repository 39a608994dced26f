"""Stands between the executor and slurmrestd, and loses what it is told to: an answer after the request has arrived, or the request."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

Fault = Literal["answer-lost", "request-lost", "server-error", "garbage"]
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CONNECTION = re.compile(rb"\r\nconnection: [^\r]*", re.IGNORECASE)


@dataclass
class FaultServer:
    """`faults`: what happens to the next requests that begin like the key, in order: `POST` and a part of the path. `seen`: every
    request, `DELETE /slurm/v0.0.38/job/17`."""

    upstream: tuple[str, int]
    url: str = ""
    faults: dict[str, list[Fault]] = field(default_factory=dict)
    seen: list[str] = field(default_factory=list)

    def _fault(self, line: str) -> Fault | None:
        for key, waiting in self.faults.items():
            method, _space, part = key.partition(" ")
            if waiting and line.startswith(f"{method} ") and part in line:
                return waiting.pop(0)
        return None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await _message(reader)
            line = request.partition(b" HTTP/")[0].decode()
            self.seen.append(line)
            writer.write(await self._answered(request, self._fault(line)))
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # whoever asked is gone, or slurmrestd is: to the executor the connection is closed
        finally:
            writer.close()

    async def _answered(self, request: bytes, fault: Fault | None) -> bytes:
        if fault == "request-lost":
            return b""
        answer = await self._forwarded(request)
        if fault == "answer-lost":
            return b""
        if fault == "server-error":
            return b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        if fault == "garbage":
            return answer[: len(answer) // 2]
        return answer

    async def _forwarded(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(*self.upstream)
        try:
            writer.write(_CONNECTION.sub(b"\r\nConnection: close", request, count=1))
            await writer.drain()
            return _CONNECTION.sub(b"\r\nConnection: close", await _message(reader), count=1)
        finally:
            writer.close()


@asynccontextmanager
async def fault_server(upstream: str) -> AsyncIterator[FaultServer]:
    """`upstream`: the URL of slurmrestd."""
    place = urlsplit(upstream)
    assert place.hostname is not None
    assert place.port is not None
    faults = FaultServer((place.hostname, place.port))
    server = await asyncio.start_server(faults.serve, "127.0.0.1", 0)
    faults.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield faults
    finally:
        server.close()
        server.abort_clients()  # a connection that outlives its loop is told of in somebody else's test
        await server.wait_closed()


async def _message(reader: asyncio.StreamReader) -> bytes:
    """Head and body of one request or answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = _LENGTH.search(head)
    return head + (await reader.readexactly(int(length[1])) if length is not None else b"")
