"""A small HTTP proxy, with the manner of many: it may hold back the body of an answer until it has enough of it.

One request per connection, as HTTP/1.0 proxies do. Runs on the event loop of whoever starts it.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

ENOUGH = 64 * 1024  # bytes that a buffering proxy gathers before it passes them on
PIECE = 16 * 1024


@dataclass
class Proxy:
    """From `port` to `upstream` on 127.0.0.1. `buffers`: event streams are held back. `seen`: heads of the requests."""

    upstream: int
    buffers: bool = False
    port: int = 0
    seen: list[dict[str, str]] = field(default_factory=list)
    _server: asyncio.Server | None = None
    _open: set[asyncio.Task[None]] = field(default_factory=set)

    async def start(self) -> Proxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def cut(self) -> None:
        """Break every connection, as a proxy that is restarted does."""
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
        await self.cut()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        upstream: asyncio.StreamWriter | None = None
        try:
            head = await reader.readuntil(b"\r\n\r\n")
            names = _names(head)
            self.seen.append(names)
            answers, upstream = await asyncio.open_connection("127.0.0.1", self.upstream)
            upstream.write(_closing(head))
            upstream.write(await reader.readexactly(int(names.get("content-length", "0"))))
            await upstream.drain()
            await self._pass_on(answers, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # either side has gone: so does the other
        finally:
            self._open.discard(task)
            for side in (writer, upstream):
                if side is not None:
                    side.close()

    async def _pass_on(self, answers: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await answers.readuntil(b"\r\n\r\n")
        held = bytearray(_closing(head))
        waits = self.buffers and "text/event-stream" in _names(head).get("content-type", "")
        while True:
            if not waits or len(held) >= ENOUGH:
                writer.write(held)
                await writer.drain()
                held = bytearray()
            piece = await answers.read(PIECE)
            if not piece:
                break
            held += piece
        with suppress(OSError):
            writer.write(held)
            await writer.drain()


def _names(head: bytes) -> dict[str, str]:
    lines = head.decode("latin-1").split("\r\n")
    fields = dict(line.split(":", 1) for line in lines[1:] if ":" in line)
    return {"": lines[0]} | {name.strip().lower(): value.strip() for name, value in fields.items()}


def _closing(head: bytes) -> bytes:
    """The head, saying that the connection ends after this message."""
    lines = [line for line in head[:-4].split(b"\r\n") if not line.lower().startswith(b"connection:")]
    return b"\r\n".join([*lines, b"Connection: close"]) + b"\r\n\r\n"
