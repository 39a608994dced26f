"""Telling the console that this node is here, again and again, and its log what the console thinks of it.

A console that does not answer is asked ever more rarely, up to once a minute, each node at a moment of its own: many nodes that
lost the same console must not come back all at once. Jobs do not depend on any of this.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
import socket
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

import httpx2

from tuneplane.i18n import _, current_language
from tuneplane_node.daemon.addresses import route_towards
from tuneplane_node.daemon.facts import Facts
from tuneplane_node.daemon.node import Node
from tuneplane_node.engine.problems import NodeError
from tuneplane_node.tls_words import tls_trouble
from tuneplane_node.wire import ANNOUNCE_PATH, AnnounceAnswer, Announcement, NodeProblem, WireError

FIRST_SECONDS, LAST_SECONDS = 1.0, 60.0  # between tries of a console that does not answer
SHORTEST, LONGEST = 1.0, 300.0  # what a console may ask for
TURN_SECONDS, CONNECT_SECONDS = 20.0, 5.0
MAX_ANSWER = 1024 * 1024
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_LOG = logging.getLogger("tuneplane_node")


class ConsoleSaidError(Exception):
    """No answer of use. `code` and `text` for the log; `wait`: seconds that the console asked for, 0 when it did not."""

    def __init__(self, code: str, text: str, hint: str = "", wait: float = 0.0) -> None:
        super().__init__(f"{code}: {text}")
        self.code, self.text, self.hint, self.wait = code, text, hint, wait


class Announcer:
    """`token` gives the one that is valid now. `address`: the URL of this node, empty to find it from the route to the console;
    `own` are scheme and port then. `answered` hears of every answer."""

    def __init__(
        self,
        node: Node,
        console_url: str,
        token: Callable[[], str],
        *,
        address: str = "",
        own: tuple[str, int] = ("http", 0),
        ca_file: Path | None = None,
        answered: Callable[[AnnounceAnswer], None] = lambda _answer: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._node, self._url, self._token = node, console_url, token
        self._address, self._own, self._ca_file = address, own, ca_file
        self._answered, self._sleep = answered, sleep
        self._client: httpx2.AsyncClient | None = None
        self._told: tuple[str, ...] = ()
        self._facts = Facts(node)

    async def run(self) -> None:
        """Until it is cancelled."""
        failures = 0
        try:
            while True:
                wait = await self.once(failures)
                failures = 0 if wait >= 0 else failures + 1
                await self._sleep(abs(wait))
        finally:
            await self.close()

    async def once(self, failures: int = 0) -> float:
        """One announcement after so many that failed. Seconds until the next; negative when this one failed too."""
        try:
            async with asyncio.timeout(TURN_SECONDS):
                answer = await self._announce()
        except ConsoleSaidError as problem:
            self._tell_problem(problem)
            return -_pause(failures, problem.wait)
        except TimeoutError:
            text = _("no answer within {seconds:.0f} s").format(seconds=TURN_SECONDS)
            self._tell_problem(self._unreachable(text))
            return -_pause(failures)
        self._tell_answer(answer)
        self._answered(answer)
        every = answer.every_seconds if answer.every_seconds > 0 else SHORTEST  # NaN as well
        return min(LONGEST, max(SHORTEST, every)) * random.uniform(0.9, 1.1)  # noqa: S311 - no secret

    async def close(self) -> None:
        await self._facts.close()
        if self._client is not None:
            await self._client.aclose()
            self._client = None

    async def _announce(self) -> AnnounceAnswer:
        body = (await self._announcement()).to_json()
        headers = {"Authorization": f"Bearer {self._token()}", "Accept-Language": current_language()}
        try:
            async with self._opened().stream("POST", ANNOUNCE_PATH, json=body, headers=headers) as response:
                content = await _read(response)
        except httpx2.HTTPError as problem:
            raise await self._told_apart(problem) from problem
        if not response.is_success:
            raise self._refused(response, content)
        try:
            return AnnounceAnswer.from_json(json.loads(content))
        except (ValueError, WireError) as problem:
            raise self._no_console(str(problem)) from problem

    async def _announcement(self) -> Announcement:
        hello, address, inventory, findings, containers, strangers = await asyncio.gather(
            self._node.hello(),
            self._own_address(),
            self._facts.inventory.get(),
            self._facts.findings.get(),
            self._facts.containers.get(),
            self._facts.strangers.get(),
        )
        problems = tuple(NodeProblem.of_finding(each) for each in findings or ())
        return Announcement(hello, address, inventory, problems, containers or 0, tuple(strangers or ()))

    async def _own_address(self) -> str:
        if self._address:
            return self._address
        parts = urlsplit(self._url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(parts.hostname, port, type=socket.SOCK_STREAM)
        except OSError as problem:
            raise self._unreachable(str(problem)) from problem
        towards = next(filter(None, (route_towards(str(each[4][0])) for each in found)), None)
        if towards is None:
            raise self._unreachable(_("there is no route to it"))
        scheme, own_port = self._own
        host = f"[{towards.address}]" if ":" in towards.address else towards.address
        return f"{scheme}://{host}:{own_port}"

    def _opened(self) -> httpx2.AsyncClient:
        if self._client is None:
            local = (urlsplit(self._url).hostname or "") in _LOOPBACK
            self._client = httpx2.AsyncClient(
                base_url=self._url,
                headers={"User-Agent": f"tuneplane-node/{self._node.version}"},
                timeout=httpx2.Timeout(TURN_SECONDS, connect=CONNECT_SECONDS),
                follow_redirects=False,  # they would carry the token to another place
                trust_env=not local,
                verify=self._verify(),
            )
        return self._client

    def _verify(self) -> ssl.SSLContext | bool:
        if not self._url.startswith("https://"):
            return False  # nothing to verify, and loading every authority of the machine takes a while
        try:
            return ssl.create_default_context(cafile=self._ca_file)
        except (OSError, ValueError) as problem:
            raise self._unreachable(f"TUNEPLANE_NODE_CA_FILE: {problem}") from problem

    async def _told_apart(self, problem: Exception) -> ConsoleSaidError:
        why = await tls_trouble(self._url, problem, CONNECT_SECONDS)
        if not why:
            return self._unreachable(f"{type(problem).__name__}: {problem}")
        error = NodeError("console-tls", url=self._url, why=why)
        return ConsoleSaidError(error.code, error.text(), error.hint())

    def _unreachable(self, detail: str) -> ConsoleSaidError:
        problem = NodeError("console-unreachable", detail, url=self._url)
        return ConsoleSaidError(problem.code, f"{problem.text()} {detail}", problem.hint())

    def _no_console(self, detail: str) -> ConsoleSaidError:
        problem = NodeError("console-answer", detail, url=self._url)
        return ConsoleSaidError(problem.code, f"{problem.text()} {detail[:200]}", problem.hint())

    def _refused(self, response: httpx2.Response, content: bytes) -> ConsoleSaidError:
        """The console's own words, when it has any."""
        try:
            said = json.loads(content)
            text = str(said.get("detail") or said["title"])
            code, hint = str(said.get("code") or response.status_code), str(said.get("hint") or "")
        except (ValueError, KeyError, TypeError, AttributeError):
            return self._no_console(f"HTTP {response.status_code}")
        return ConsoleSaidError(code[:80], text[:500], hint[:500], _retry_after(response))

    def _tell_answer(self, answer: AnnounceAnswer) -> None:
        problem = answer.problem
        said = (answer.node, answer.state, problem.code if problem else "")
        if said == self._told:
            return
        self._told = said
        text = _standing(answer).format(url=self._url, name=answer.node)
        if problem is None:
            _LOG.info(text)
        else:
            _LOG.warning("%s %s [%s] %s", text, problem.text, problem.code, problem.hint)

    def _tell_problem(self, problem: ConsoleSaidError) -> None:
        said = ("", problem.code)
        if said != self._told:
            self._told = said
            _LOG.warning("%s [%s] %s", problem.text, problem.code, problem.hint)


def _standing(answer: AnnounceAnswer) -> str:
    """What a state means to whoever reads the log. `ready` alone is no promise: an administrator has nothing against the node,
    and the console may have looked at it or not."""
    if answer.state == "refused":
        return _("The console {url} does not take this node ({name}).")
    if answer.state == "removed":
        return _("The console {url} has removed this node ({name}).")
    if answer.state == "draining":
        return _("The console {url} drains this node ({name}): nothing new begins here, what runs goes on.")
    if answer.state == "cordoned":
        return _("The console {url} has this node ({name}) cordoned: nothing new begins here, what runs goes on.")
    if answer.problem is not None:
        return _("The console {url} knows this node ({name}) and starts nothing here for now.")
    return _("The console {url} knows this node ({name}) and has nothing against it.")


def _pause(failures: int, wanted: float = 0.0) -> float:
    """Seconds after that many failures in a row: doubled each time, and a random part of it, so that nodes spread."""
    longest = min(LAST_SECONDS, FIRST_SECONDS * 2 ** min(failures, 16))
    return max(wanted, longest * random.uniform(0.5, 1.0))  # noqa: S311 - no secret


def _retry_after(response: httpx2.Response) -> float:
    text = response.headers.get("retry-after", "")
    return min(LONGEST, float(text)) if text.isascii() and text.isdecimal() else 0.0


async def _read(response: httpx2.Response) -> bytes:
    content = bytearray()
    async for piece in response.aiter_bytes():
        content += piece
        if len(content) > MAX_ANSWER:
            break  # no console's; it will not be JSON
    return bytes(content)
