"""One HTTP call to slurmrestd: bounded in time and size, the token read anew for each, and never a secret in what is raised.

Every call has a connection of its own. A kept one that the server has just closed looks like a submit that may have happened, and
slurmrestd itself closes after many answers.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2

from tuneplane_node.tls_sentences import in_readers_language
from tuneplane_node.tls_words import tls_trouble
from tuneplane_server import __version__
from tuneplane_server.executors.slurm.rest.models import SlurmError
from tuneplane_server.executors.slurm.rest.tokens import Token, TokenError

# slurmrestd itself tries a slurmctld that is down for 9 to 18 s before it says so.
TOTAL_SECONDS = 45.0
CONNECT_SECONDS = 5.0
# Every job of a cluster comes in one answer, about 10 KB each.
MAX_ANSWER = 128 * 1024 * 1024
_LARGE = 256 * 1024  # parsed in a thread: it would hold up the console
_LIMITS = httpx2.Limits(max_connections=8, max_keepalive_connections=0)
# Failures before the first byte of a request went out.
_NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.UnsupportedProtocol)
# The connection ended in the middle of an answer, or instead of one.
_CUT_OFF = (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError)
_SHOWN = 200


@dataclass(frozen=True)
class Answer:
    """`body`: the JSON object of the answer, None when it is none; then `text` is the beginning of what came instead."""

    status: int
    body: dict[str, Any] | None
    text: str = ""


class Transport:
    """`url`: http:// or https:// of slurmrestd, a path in front of it allowed. `user`: whose token it is."""

    def __init__(
        self,
        url: str,
        user: str,
        token: str | Callable[[], str] | Path,
        *,
        ca_file: Path | None = None,
        total_seconds: float = TOTAL_SECONDS,
        connect_seconds: float = CONNECT_SECONDS,
        max_answer: int = MAX_ANSWER,
    ) -> None:
        self.url = url.rstrip("/")
        self._token = Token(token)
        self._user = user
        self._ca_file = ca_file
        self._total = total_seconds
        self._connect = connect_seconds
        self._max_answer = max_answer
        self._client: httpx2.AsyncClient | None = None
        self._reading: asyncio.Task[str] | None = None

    async def call(
        self,
        method: str,
        path: str,
        *,
        token: str,
        body: object = None,
        params: Mapping[str, str | int] | None = None,
        changes: bool = False,
    ) -> Answer:
        """What the server answered, whatever its status. `changes`: the call does something, so that no answer leaves it open
        whether it did. Raises SlurmError `unreachable`, or `unknown-outcome` for such a call."""
        lost = "unknown-outcome" if changes else "unreachable"
        try:
            async with asyncio.timeout(self._total):
                if not changes:
                    with suppress(*_CUT_OFF):  # a question may be asked again, once
                        return await self._once(method, path, token, body, params)
                return await self._once(method, path, token, body, params)
        except TimeoutError:
            raise SlurmError(lost, f"{self._place()} did not answer within {self._total:g} s") from None
        except _NOT_SENT as problem:
            raise SlurmError("unreachable", f"{self._place()}: {await self._why(problem)}") from None
        except (httpx2.InvalidURL, UnicodeError) as problem:
            raise SlurmError("unreachable", f"{self._place()}: {_words(problem)}") from None
        except httpx2.HTTPError as problem:
            why = _words(problem) if changes else await self._why(problem)
            raise SlurmError(lost, f"{self._place()}: {why}") from None
        except _TooLargeError:
            raise SlurmError(lost, f"{self._place()} answers with more than {self._max_answer} bytes") from None

    async def read_token(self) -> str:
        """The token of now. Raises SlurmError `auth`, also when its file system does not answer: one read waits for that, not many."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.create_task(self._token.read_beside(), name="read Slurm's token")
            self._reading.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            async with asyncio.timeout(self._total):
                return await asyncio.shield(self._reading)
        except TimeoutError:
            raise SlurmError("auth", f"{self._token.name} could not be read within {self._total:g} s") from None
        except TokenError as problem:
            raise SlurmError("auth", str(problem)) from None

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _once(
        self, method: str, path: str, token: str, body: object, params: Mapping[str, str | int] | None
    ) -> Answer:
        # slurmrestd of 22.05 wants both of its own headers; the type must not name a charset.
        headers = {"X-SLURM-USER-NAME": self._user, "X-SLURM-USER-TOKEN": token, "Accept": "application/json"}
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            content = json.dumps(body, separators=(",", ":")).encode()
        client = self._opened()
        async with client.stream(method, path, content=content, params=params, headers=headers) as response:
            raw = await self._read(response)
        return await _answer(response.status_code, raw)

    def _opened(self) -> httpx2.AsyncClient:
        if self._client is None:
            self._client = httpx2.AsyncClient(
                base_url=self.url,
                verify=self._verify(),
                limits=_LIMITS,
                headers={"User-Agent": f"tuneplane/{__version__}", "Accept-Encoding": "identity"},
                timeout=httpx2.Timeout(self._total, connect=self._connect),
                follow_redirects=False,  # they would carry the token to another place
                trust_env=False,  # the cluster is on the console's own network
            )
        return self._client

    def _verify(self) -> ssl.SSLContext | bool:
        if not self.url.startswith("https://"):
            return False
        try:
            return ssl.create_default_context(cafile=self._ca_file)
        except (OSError, ValueError) as problem:
            words = f"{self._ca_file} is no certificate authority: {problem}"
            raise SlurmError("unreachable", words) from None

    async def _read(self, response: httpx2.Response) -> bytes:
        content = bytearray()
        async for piece in response.aiter_bytes():
            content += piece
            if len(content) > self._max_answer:
                raise _TooLargeError
        return bytes(content)

    async def _why(self, problem: Exception) -> str:
        return in_readers_language(await tls_trouble(self.url, problem, min(self._connect, 2.0))) or _words(problem)

    def _place(self) -> str:
        """The address for people: nothing that could be a password in it."""
        try:
            parts = urlsplit(self.url)
            port = f":{parts.port}" if parts.port else ""
        except ValueError:
            return "slurmrestd"
        return f"slurmrestd at {parts.scheme}://{parts.hostname or ''}{port}"


class _TooLargeError(Exception):
    pass


async def _answer(status: int, raw: bytes) -> Answer:
    try:
        body = await asyncio.to_thread(json.loads, raw) if len(raw) > _LARGE else json.loads(raw)
    except (ValueError, RecursionError):
        body = None
    if isinstance(body, dict):
        return Answer(status, body)
    return Answer(status, None, " ".join(raw[:_SHOWN].decode(errors="replace").split()))


def _words(problem: Exception) -> str:
    """What httpx says, which holds neither headers nor bodies."""
    return f"{type(problem).__name__}: {problem}"[:_SHOWN]
