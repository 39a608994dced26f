"""`tuneplane-node serve`: one process, one machine, one port. A signal ends the daemon and never a job."""

from __future__ import annotations

import asyncio
import gc
import logging
import math
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import uvicorn

from tuneplane.i18n import _
from tuneplane_node.agent_token import AgentToken
from tuneplane_node.daemon.announcing import Announcer
from tuneplane_node.daemon.app import create_app
from tuneplane_node.daemon.identity import DaemonLock, node_id
from tuneplane_node.daemon.janitor import Janitor, image_limit
from tuneplane_node.daemon.node import Node
from tuneplane_node.engine.problems import NodeError
from tuneplane_node.settings import NodeSettings
from tuneplane_node.signalled_server import SignalledServer
from tuneplane_node.versions import VERSION
from tuneplane_node.wire import AnnounceAnswer

GRACE_SECONDS = 3  # for open requests after a signal: callers ask again
TIDY_FIRST_SECONDS, TIDY_SECONDS = 300.0, 600.0
CLOSE_SECONDS = 20.0  # for a launch in flight to come to an end that leaves nothing half made
_LOG = logging.getLogger("tuneplane_node")


def serve(settings: NodeSettings, token: AgentToken, *, version: str = VERSION) -> None:
    """Until SIGTERM or SIGINT. Raises NodeError for what stands in the way of serving."""
    if settings.storage_root is None:
        raise NodeError("setting-missing", setting="TUNEPLANE_STORAGE_ROOT", form="/data/tuneplane")
    context = _tls(settings)
    lock = DaemonLock(settings.state_root)
    lock.acquire()
    try:
        own_id = node_id(settings.state_root)
        engine = settings.engine(own_id)
        with listen(settings.host, settings.port) as listener:
            node = Node(
                engine,
                own_id,
                settings.name,
                state_root=settings.state_root,
                storage_root=settings.storage_root,
                version=version,
            )
            asyncio.run(_Daemon(node, settings, token, listener, context).run())
    finally:
        lock.release()


class _Daemon:
    def __init__(
        self,
        node: Node,
        settings: NodeSettings,
        token: AgentToken,
        listener: socket.socket,
        context: ssl.SSLContext | None,
    ) -> None:
        self._node, self._settings, self._token, self._listener = node, settings, token, listener
        self._port: int = listener.getsockname()[1]
        self._answer: AnnounceAnswer | None = None
        self._answered_at = -math.inf
        self._server = SignalledServer(server_config(node, token, context), ending=node.operations.stop_waiting)

    async def run(self) -> None:
        serving = asyncio.create_task(self._server.serve(sockets=[self._listener]))
        accepting = asyncio.create_task(self._server.accepting.wait())
        await asyncio.wait((serving, accepting), return_when=asyncio.FIRST_COMPLETED)
        gc.freeze()  # modules and routes stay for good
        beside = [asyncio.create_task(_kept_up(work)) for work in self._work()] if accepting.done() else []
        try:
            await serving
        finally:
            accepting.cancel()
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await self._node.close(CLOSE_SECONDS)
            _LOG.info(_("The daemon has ended. Running jobs go on."))

    def _work(self) -> list[Callable[[], Awaitable[None]]]:
        """What runs beside the API."""
        return [self._greet, self._announce, self._tidy]

    async def _greet(self) -> None:
        scheme, host = self._settings.scheme, self._settings.host
        address = f"{scheme}://{f'[{host}]' if ':' in host else host}:{self._port}"
        _LOG.info(
            _("tuneplane-node {version}: {name} ({id}) serves at {address}").format(
                version=self._node.version, name=self._node.name, id=self._node.node_id, address=address
            )
        )
        for finding in await self._node.check():
            if finding.level != "info":
                _LOG.warning("%s [%s] %s", finding.text, finding.code, finding.hint)
        try:
            adopted = await self._node.containers()
        except NodeError as problem:
            _LOG.warning("%s %s", problem.text(), problem.detail)
            return
        running = sum(1 for each in adopted if each.observed.state == "running")
        _LOG.info(_("Containers taken over: {count}; running: {running}.").format(count=len(adopted), running=running))

    def _address(self) -> str:
        """Empty: every address of this machine is served, and the one towards the console is told."""
        host = self._settings.host
        if self._settings.address or host in ("0.0.0.0", "::", ""):  # noqa: S104 - compared
            return self._settings.address
        return f"{self._settings.scheme}://{f'[{host}]' if ':' in host else host}:{self._port}"

    async def _announce(self) -> None:
        settings = self._settings
        if not settings.console_url:
            _LOG.warning(_("TUNEPLANE_CONSOLE_URL is not set, so no console hears of this node."))
            return
        announcer = Announcer(
            self._node,
            settings.console_url,
            self._token,
            address=self._address(),
            own=(settings.scheme, self._port),
            ca_file=settings.ca_file,
            answered=self._note,
        )
        await announcer.run()

    def _note(self, answer: AnnounceAnswer) -> None:
        self._answer, self._answered_at = answer, time.monotonic()

    async def _tidy(self) -> None:
        node = self._node
        limit = image_limit(self._settings.image_limit_gb)
        janitor = Janitor(node.engine, node.ports, node.storage_root, node.node_id, limit)
        await asyncio.sleep(TIDY_FIRST_SECONDS)
        while True:
            if self._answer is not None:  # without a word of the console nobody knows which images must stay
                heard = time.monotonic() - self._answered_at < TIDY_SECONDS
                await janitor.sweep(self._answer.pinned_images, console_heard=heard)
            await asyncio.sleep(TIDY_SECONDS)


async def _kept_up(work: Callable[[], Awaitable[None]]) -> None:
    """A fault of ours in one of them is told and begun anew, after a pause; the API serves on."""
    pause = 1.0
    while True:
        try:
            await work()
        except Exception:  # noqa: BLE001 - whatever it is, it is told in the log and must not end the daemon
            _LOG.exception("a part of the daemon failed; it is begun anew in %.0f s", pause)
            await asyncio.sleep(pause)
            pause = min(60.0, pause * 2)
        else:
            return


def server_config(node: Node, token: AgentToken, context: ssl.SSLContext | None) -> uvicorn.Config:
    return uvicorn.Config(
        create_app(node, token),
        loop="asyncio",
        http="httptools",
        ws="none",
        lifespan="off",  # `_Daemon` opens and closes everything
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # the address of a wrong token is that of its connection
        limit_concurrency=1024,
        timeout_graceful_shutdown=GRACE_SECONDS,
        timeout_keep_alive=30,
        ssl_context_factory=None if context is None else lambda _config, _default: context,
    )


def _tls(settings: NodeSettings) -> ssl.SSLContext | None:
    """Raises NodeError `tls-files` or `setting-missing`."""
    cert, key = settings.tls_cert, settings.tls_key
    if cert is None and key is None:
        return None
    for path, name in ((cert, "TUNEPLANE_NODE_TLS_CERT"), (key, "TUNEPLANE_NODE_TLS_KEY")):
        if path is None:
            raise NodeError("setting-missing", setting=name, form="/etc/tuneplane/node.pem")
    assert cert is not None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(cert, key, password=lambda: "")  # a key with a password would ask a terminal
    except (OSError, ValueError) as problem:
        raise NodeError("tls-files", cert=cert, key=key, why=_why(problem, cert, key)) from problem
    return context


def _why(problem: Exception, *files: Path | None) -> str:
    missing = [str(file) for file in files if file is not None and not file.exists()]
    return _("{file} does not exist").format(file=missing[0]) if missing else str(problem)


def listen(host: str, port: int) -> socket.socket:
    """Raises NodeError `port-taken`."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(512)
    except OSError as problem:
        listener.close()
        raise NodeError("port-taken", host=host, port=port, why=problem.strerror or str(problem)) from problem
    listener.setblocking(False)
    return listener
