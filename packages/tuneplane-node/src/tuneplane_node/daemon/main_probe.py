"""Whether one machine of a job reaches another: the first machine listens and says whose port it is, the others connect and read.

Machines have addresses in common (a bridge of Docker is 172.17.0.1 on each of them), so a connection alone proves nothing. Whoever
asks closes first: then the port itself is not left in TIME_WAIT, and the trainer can listen there at once.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass

CONNECT_SECONDS, SILENCE_SECONDS = 3.0, 2.0
MAX_CLIENTS, MAX_ADDRESSES = 64, 32
_PARTING_SECONDS = 5.0


@dataclass(frozen=True)
class Reached:
    """`address`: of the first machine. `own`: the local address of the connection to it. `tried`: address -> why it is not it."""

    address: str | None
    own: str
    tried: dict[str, str]


def greeting(job: str, attempt: int) -> bytes:
    return f"tuneplane-main {job}/{attempt}\n".encode()


class Greeter:
    """Listens on one port, on every address of this machine."""

    def __init__(self, said: bytes) -> None:
        self._said = said
        self._server: asyncio.Server | None = None
        self._clients: set[asyncio.StreamWriter] = set()

    async def open(self, port: int) -> None:
        """Raises OSError when the port is taken."""
        made = bound_socket(port)
        try:
            self._server = await asyncio.start_server(self._greet, sock=made, limit=1024)
        except BaseException:
            made.close()
            raise

    def close(self) -> None:
        """Nobody is let in any more, and whoever is in is sent away."""
        if self._server is not None:
            self._server.close()
        for client in list(self._clients):
            _send_away(client)

    async def wait_closed(self) -> None:
        if self._server is not None:
            await self._server.wait_closed()

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._clients) >= MAX_CLIENTS:
            _send_away(writer)
            return
        self._clients.add(writer)
        try:
            writer.write(self._said)
            async with asyncio.timeout(_PARTING_SECONDS):
                await reader.read(1)  # its end of the connection is closed first
            writer.close()
        except (OSError, TimeoutError):
            _send_away(writer)
        finally:
            self._clients.discard(writer)


async def reach(addresses: Sequence[str], port: int, said: bytes, own_addresses: frozenset[str]) -> Reached:
    """The first of the addresses, in their order, that says what is expected; all are asked at once.

    When none does: the first, not being an address of this machine too, that accepts a connection and is silent. That is the
    trainer itself, after a console was killed in the middle of a launch.
    """
    asked = list(dict.fromkeys(addresses))[:MAX_ADDRESSES]
    answers = await asyncio.gather(*(_ask(address, port) for address in asked))
    tried: dict[str, str] = {}
    silent: Reached | None = None
    for address, answer in zip(asked, answers, strict=True):
        if answer.said == said:
            return Reached(address, answer.own, tried)
        if answer.why:
            tried[address] = answer.why
        elif answer.said:
            tried[address] = "another program answers there"
        elif address in own_addresses:
            tried[address] = "this machine has that address itself"
        else:
            silent = silent or Reached(address, answer.own, tried)
            tried[address] = "accepts connections and says nothing"
    return silent or Reached(None, "", tried)


def bound_socket(port: int) -> socket.socket:
    """A socket that listens on every address of both families, or of IPv4 where there is no IPv6. Raises OSError when the port
    is taken on any of them."""
    if socket.has_dualstack_ipv6():
        try:
            return _bind(socket.AF_INET6, "::", port)
        except OSError as problem:
            if problem.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                raise
    return _bind(socket.AF_INET, "0.0.0.0", port)  # noqa: S104 - the other machines of the job are to reach it


def _bind(family: socket.AddressFamily, address: str, port: int) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # Without it a port whose last connections linger (TIME_WAIT) would count as taken; one that is listened on still does.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind((address, port))
        made.listen(MAX_CLIENTS)
    except OSError:
        made.close()
        raise
    return made


def plain_words(problem: Exception) -> str:
    """The system's own words for a connection that failed, without Python's around them."""
    number = getattr(problem, "errno", None)
    if isinstance(number, int) and number > 0:  # those of name resolution are negative and have words of their own
        return os.strerror(number)
    return str(problem) or type(problem).__name__


@dataclass(frozen=True)
class _Answer:
    said: bytes = b""
    own: str = ""
    why: str = ""


async def _ask(address: str, port: int) -> _Answer:
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            reader, writer = await asyncio.open_connection(address, port, limit=1024)
    except TimeoutError:
        return _Answer(why=f"no answer within {CONNECT_SECONDS:.0f} s")
    except (OSError, ValueError) as problem:
        return _Answer(why=plain_words(problem))
    own = str(writer.get_extra_info("sockname")[0])
    try:
        async with asyncio.timeout(SILENCE_SECONDS):
            said = await reader.readline()
    except (TimeoutError, ValueError, OSError):
        said = b""
    writer.close()
    return _Answer(said, own)


def _send_away(writer: asyncio.StreamWriter) -> None:
    """With a reset, which leaves nothing behind on the port."""
    made = writer.get_extra_info("socket")
    if made is not None:
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        except OSError:
            pass  # it is gone already
    writer.transport.abort()
