"""One HTTP call to a node, and what every odd reply means.

A reply counts only when it carries the header of a node; whatever else answers at the address says nothing about jobs.
"""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2

from tuneplane.i18n import _, current_language
from tuneplane_node.engine.problems import NodeError
from tuneplane_node.tls_words import tls_trouble
from tuneplane_node.versions import VERSION, fit
from tuneplane_node.wire import ID_HEADER, VERSION_HEADER, NodeProblem, WireError

MAX_ANSWER = 32 * 1024 * 1024
_LIMITS = httpx2.Limits(max_connections=32, max_keepalive_connections=4, keepalive_expiry=20)
# Nobody acknowledges what goes into a dead cable: it is known after these seconds, where a node that only thinks long has all of its
# time for an answer. TCP(7): TCP_USER_TIMEOUT counts for what was sent, the probes for a wait in which nothing is sent.
_DEAD_SECONDS = 6
_SOCKET_OPTIONS = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _DEAD_SECONDS // 2),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, _DEAD_SECONDS // 2),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _DEAD_SECONDS * 1000),
)
# A connection that was kept from before and that the other side has closed meanwhile.
_STALE = (httpx2.RemoteProtocolError, httpx2.ReadError, httpx2.WriteError)
# What httpcore and h11 say when the other side went away in the middle, as a daemon does that is killed.
_CUT_OFF = ("disconnected", "peer closed connection")


class NodeUnreachableError(Exception):
    """Nothing is known of the node now. `code`: node-unreachable, node-tls, node-token, node-answer or node-version."""

    def __init__(self, code: str, detail: str = "", **values: object) -> None:
        self._problem = NodeError(code, detail, **values)
        self.code, self.detail, self.values = code, self._problem.detail, values
        super().__init__(str(self._problem))

    def text(self) -> str:
        """The sentence in the current language."""
        return self._problem.text()

    def hint(self) -> str:
        return self._problem.hint()


class Transport:
    """`address`: http:// or https:// URL of a node. `token`: the text, or what gives the one that is valid now.

    `version`: what this side is, other than this installation in tests.
    """

    def __init__(
        self,
        address: str,
        token: str | Callable[[], str],
        *,
        ca_file: Path | None,
        connect_seconds: float,
        read_seconds: float,
        node_id: str = "",
        version: str = VERSION,
    ) -> None:
        self.address = address.rstrip("/")
        self._token = token if callable(token) else lambda: token
        self._ca_file = ca_file
        self._connect_seconds = connect_seconds
        self._timeout = httpx2.Timeout(read_seconds, connect=connect_seconds)
        self._meant = {ID_HEADER: node_id} if node_id else {}
        self._version = version
        self._client: httpx2.AsyncClient | None = None

    async def json(
        self, method: str, path: str, *, body: object = None, params: Mapping[str, Any] | None = None
    ) -> Any:
        """The decoded answer. Raises NodeError for the node's own refusal, else NodeUnreachableError."""
        content = await self.content(method, path, body=body, params=params)
        try:
            return json.loads(content)
        except ValueError as problem:
            raise self.odd_answer(_("its answer is not JSON"), str(problem)) from None

    async def content(
        self, method: str, path: str, *, body: object = None, params: Mapping[str, Any] | None = None
    ) -> bytes:
        for last in (False, True):
            try:
                return await self._once(method, path, body, params)
            except _STALE as problem:
                if last:
                    raise await self._told_apart(problem) from problem
            except httpx2.HTTPError as problem:
                raise await self._told_apart(problem) from problem
            except (httpx2.InvalidURL, UnicodeError) as problem:
                raise self._unreachable(str(problem)) from problem
        raise AssertionError("the second try returns or raises")

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    def odd_answer(self, why: str, detail: str = "") -> NodeUnreachableError:
        return NodeUnreachableError("node-answer", detail, address=self.address, why=why)

    async def _once(self, method: str, path: str, body: object, params: Mapping[str, Any] | None) -> bytes:
        said = {"Authorization": f"Bearer {self._token()}", "Accept-Language": current_language()}
        headers = said | self._meant
        async with self._opened().stream(method, path, json=body, params=params, headers=headers) as response:
            content = await self._read(response)
        if response.status_code == httpx2.codes.UNAUTHORIZED and VERSION_HEADER in response.headers:
            raise NodeUnreachableError("node-token", address=self.address)
        if response.status_code == httpx2.codes.MISDIRECTED_REQUEST and VERSION_HEADER in response.headers:
            raise self.odd_answer(_("another node answers there"))
        version = self._checked_version(response, content)
        if response.is_success:
            return content
        raise self._refusal(response, content, version)

    def _opened(self) -> httpx2.AsyncClient:
        if self._client is None:
            try:
                urlsplit(self.address).port  # noqa: B018 - it is looked at, and raises
            except ValueError as problem:
                raise self._unreachable(str(problem)) from problem
            self._client = httpx2.AsyncClient(
                base_url=self.address,
                transport=httpx2.AsyncHTTPTransport(
                    verify=self._verify(),
                    limits=_LIMITS,
                    socket_options=_SOCKET_OPTIONS,
                    trust_env=False,  # nodes are on the console's own network
                ),
                headers={"User-Agent": f"tuneplane/{self._version}"},
                timeout=self._timeout,
                follow_redirects=False,  # they would carry the token to another place
                trust_env=False,
            )
        return self._client

    def _verify(self) -> ssl.SSLContext | bool:
        if not self.address.startswith("https://"):
            return False  # nothing to verify, and loading every authority of the machine takes a while
        try:
            return ssl.create_default_context(cafile=self._ca_file)
        except (OSError, ValueError) as problem:
            raise self._tls(_("{file} is no certificate authority").format(file=self._ca_file), problem) from problem

    async def _read(self, response: httpx2.Response) -> bytes:
        content = bytearray()
        async for piece in response.aiter_bytes():
            content += piece
            if len(content) > MAX_ANSWER:
                raise self.odd_answer(_("its answer is too large"))
        return bytes(content)

    def _checked_version(self, response: httpx2.Response, content: bytes) -> str:
        version = response.headers.get(VERSION_HEADER)
        if version is None:
            kind = response.headers.get("content-type", "")
            why = _("status {status}, content type “{kind}”").format(status=response.status_code, kind=kind[:80])
            raise self.odd_answer(why, content[:200].decode(errors="replace"))
        if not fit(self._version, version):
            raise NodeUnreachableError("node-version", address=self.address, node=version[:40], console=self._version)
        return version

    def _refusal(self, response: httpx2.Response, content: bytes, version: str) -> Exception:
        """What the node said no with."""
        if response.status_code == httpx2.codes.TOO_MANY_REQUESTS:
            return NodeUnreachableError("node-token", _("too many wrong tokens from here"), address=self.address)
        try:
            return NodeProblem.from_json(json.loads(content)["problem"]).error()
        except (ValueError, KeyError, TypeError, WireError):
            pass  # no refusal in our words: told below by its status
        if response.status_code == httpx2.codes.NOT_FOUND:  # an older node that lacks this call
            return NodeUnreachableError("node-version", address=self.address, node=version, console=self._version)
        why = _("status {status}").format(status=response.status_code)
        return self.odd_answer(why, content[:200].decode(errors="replace"))

    async def _told_apart(self, problem: Exception) -> NodeUnreachableError:
        why = await tls_trouble(self.address, problem, self._connect_seconds)
        if why:
            return self._tls(why, problem)
        said = f"{type(problem).__name__}: {problem}"
        cut_off = any(words in said for words in _CUT_OFF)
        if isinstance(problem, httpx2.DecodingError | httpx2.RemoteProtocolError) and not cut_off:
            return self.odd_answer(_("it does not speak HTTP"), said)
        return self._unreachable(said)

    def _tls(self, why: str, problem: Exception) -> NodeUnreachableError:
        return NodeUnreachableError("node-tls", str(problem), address=self.address, why=why)

    def _unreachable(self, detail: str) -> NodeUnreachableError:
        return NodeUnreachableError("node-unreachable", detail, address=self.address)
