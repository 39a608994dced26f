"""A slurmrestd that does what a test wants with each request, on a port of its own."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

OPENAPI = {"paths": {f"/slurm/{version}/job/submit": {} for version in ("v0.0.39", "v0.0.41", "v0.0.42", "v0.0.99")}}


@dataclass(frozen=True)
class Asked:
    """One request, its header names in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes


type Answering = Callable[[Asked, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Server:
    url: str = ""
    asked: list[Asked] = field(default_factory=list)

    def of(self, method: str, part: str) -> list[Asked]:
        return [each for each in self.asked if each.method == method and part in each.path]


async def send(writer: asyncio.StreamWriter, status: int, body: object) -> None:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    writer.write(
        f"HTTP/1.1 {status} X\r\nContent-Length: {len(content)}\r\nConnection: close\r\n\r\n".encode() + content
    )
    await writer.drain()


def answers(given: dict[str, tuple[int, object] | Answering]) -> Answering:
    """By a part of `METHOD path`, the first that fits; the OpenAPI document is there unless it is given."""

    async def answer(asked: Asked, writer: asyncio.StreamWriter) -> None:
        line = f"{asked.method} {asked.path}"
        default: dict[str, tuple[int, object] | Answering] = {"GET /openapi/v3": (200, OPENAPI)}
        found = next((each for part, each in {**default, **given}.items() if part in line), (404, b"no such address"))
        if isinstance(found, tuple):
            await send(writer, *found)
        else:
            await found(asked, writer)

    return answer


@asynccontextmanager
async def server(answer: Answering, context: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    made = Server()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            method, path, _version = head[0].split(" ")
            headers = {
                name.lower(): value.strip()
                for name, _colon, value in (line.partition(":") for line in head[1:] if line)
            }
            body = await reader.readexactly(int(headers.get("content-length", 0)))
            asked = Asked(method, path, headers, body)
            made.asked.append(asked)
            await answer(asked, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client went away, which some tests are about
        finally:
            writer.close()

    listening = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
    made.url = f"{'https' if context else 'http'}://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        listening.close()
        listening.abort_clients()  # a connection that outlives its loop is told of in somebody else's test
        await listening.wait_closed()
