"""A node's daemon for tests: in this process behind its real HTTP server, or as a process of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast, override

from starlette.types import ASGIApp

from tests.tuneplane_node.bench import PATIENCE, Bench, until
from tuneplane_node.agent_token import AgentToken
from tuneplane_node.client import NodeClient
from tuneplane_node.daemon import serving
from tuneplane_node.daemon.node import Node
from tuneplane_node.engine import Engine, LaunchRequest, MachineSample, Observed, OwnedContainer, RuntimeHandle
from tuneplane_node.signalled_server import SignalledServer
from tuneplane_node.versions import VERSION

TOKEN = "0123456789abcdef-right"


class ServedNode:
    """The daemon's API on a port of the loopback, on the event loop of whoever starts it."""

    def __init__(
        self,
        engine: Engine,
        folder: Path,
        *,
        node_id: str = "0123456789ab",
        version: str = VERSION,
        context: ssl.SSLContext | None = None,
        around: Callable[[ASGIApp], ASGIApp] = lambda app: app,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.storage_root = folder / "storage"
        self.storage_root.mkdir(exist_ok=True)
        self.node = Node(
            engine, node_id, "node-1", state_root=folder / "state", storage_root=self.storage_root, version=version
        )
        self._context = context
        self._listener = serving.listen("127.0.0.1", 0)
        self.port: int = self._listener.getsockname()[1]
        config = serving.server_config(self.node, AgentToken(TOKEN), context)
        config.app = around(cast(ASGIApp, config.app))
        self._server = SignalledServer(config)
        self._serving: asyncio.Task[None] | None = None
        self._clients: list[NodeClient] = []

    @property
    def address(self) -> str:
        return f"{'http' if self._context is None else 'https'}://127.0.0.1:{self.port}"

    def client(self, address: str = "", token: str = TOKEN, **options: Any) -> NodeClient:
        made = NodeClient(address or self.address, token, **options)
        self._clients.append(made)
        return made

    async def start(self) -> ServedNode:
        if self._serving is None:
            self._serving = asyncio.create_task(self._server.serve(sockets=[self._listener]))
            async with asyncio.timeout(PATIENCE):
                await self._server.accepting.wait()
        return self

    async def stop(self) -> None:
        for client in self._clients:
            await client.close()
        self._server.should_exit = True
        if self._serving is not None:
            await self._serving
        self._listener.close()
        await self.node.close(PATIENCE)


class RemoteEngine:
    """The engine's calls through the client and the daemon: what the contract suite of runtimes runs against."""

    def __init__(self, served: ServedNode) -> None:
        self.served = served
        self._client = served.client()

    async def _ready(self) -> NodeClient:
        await self.served.start()
        return self._client

    async def launch(self, request: LaunchRequest) -> RuntimeHandle:
        return await (await self._ready()).launch(request)

    async def observe(self, handle: RuntimeHandle) -> Observed:
        return await (await self._ready()).observe(handle)

    async def stop(self, handle: RuntimeHandle, grace_seconds: float) -> None:
        await (await self._ready()).stop(handle, grace_seconds)

    async def kill(self, handle: RuntimeHandle) -> None:
        await (await self._ready()).kill(handle)

    async def cleanup(self, handle: RuntimeHandle) -> bool:
        return await (await self._ready()).cleanup(handle)

    async def logs(self, handle: RuntimeHandle, tail_bytes: int = 64 * 1024) -> bytes:
        return await (await self._ready()).logs(handle, tail_bytes)

    async def owned(self) -> list[OwnedContainer]:
        seen = await (await self._ready()).containers()
        return [OwnedContainer(RuntimeHandle.parse(each.handle), each.labels) for each in seen]

    async def sample(self) -> MachineSample:
        return await (await self._ready()).sample()

    async def close(self) -> None:
        await self.served.stop()


class RemoteBench(Bench):
    """A bench whose engines are daemons, each asked over HTTP."""

    @override
    def new_engine(self, instance: str | None = None, **options: Any) -> Engine:
        engine = Engine(instance or self.instance, self.state_root, **{**self.engine_options(), **options})
        folder = self.state_root.with_name(f"served-{len(self._engines)}")
        remote = RemoteEngine(ServedNode(engine, folder, node_id=instance or self.instance))
        self._engines.append(remote)  # ty: ignore[invalid-argument-type] - it has the calls that the suite makes
        return remote  # ty: ignore[invalid-explicit-return]


@dataclass
class Daemon:
    """`tuneplane-node serve` as a process, with state of its own below `folder`; can be killed and started again."""

    folder: Path
    settings: Mapping[str, str]
    version: str = ""
    process: subprocess.Popen[bytes] | None = None

    @property
    def env(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TUNEPLANE_")}
        own = {
            "TUNEPLANE_NODE_STATE": str(self.folder / "state"),
            "TUNEPLANE_STORAGE_ROOT": str(self.folder),
            "TUNEPLANE_AGENT_TOKEN": TOKEN,
            "TUNEPLANE_NODE_HOST": "127.0.0.1",
            "TUNEPLANE_NODE_PORT": "0",
            "TUNEPLANE_RUNTIME": "process",
            "TUNEPLANE_LANG": "en",
        }
        return {**kept, **own, **self.settings}

    @property
    def log(self) -> str:
        path = self.folder / "daemon.log"
        return path.read_text(errors="replace") if path.exists() else ""

    @property
    def port(self) -> int:
        return int(self.log.rpartition("serves at")[2].split()[0].rpartition(":")[2])

    def client(self, **options: Any) -> NodeClient:
        return NodeClient(f"http://127.0.0.1:{self.port}", TOKEN, **options)

    def spawn(self, environment: Mapping[str, str] | None = None) -> Daemon:
        """Start it and do not wait."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "daemon.log").open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _program(self.version)],
                env=self.env if environment is None else dict(environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        return self

    async def start(self) -> Daemon:
        self.spawn()
        await self.says("serves at")
        return self

    async def says(self, words: str, times: int = 1) -> None:
        """Until its log holds the words so often."""

        def look() -> bool:
            if self.log.count(words) >= times:
                return True
            assert self.process is not None
            assert self.process.poll() is None, f"it ended: {self.log[-3000:]}"
            return False

        await until(look, bool)

    async def ended(self) -> int:
        """The exit code, once it has ended by itself."""
        assert self.process is not None
        return await asyncio.to_thread(self.process.wait, PATIENCE)

    async def stop(self) -> int:
        return await self._signal(signal.SIGTERM)

    async def kill(self) -> int:
        return await self._signal(signal.SIGKILL)

    async def _signal(self, number: signal.Signals) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        return await self.ended()


def _program(version: str) -> str:
    if not version:
        return "import sys; from tuneplane_node.cli import main; sys.exit(main(['serve']))"
    return (
        "from tuneplane_node.agent_token import AgentToken; from tuneplane_node.daemon.serving import serve; "
        "from tuneplane_node.daemon.log import set_up_log; from tuneplane_node.settings import NodeSettings; "
        f"set_up_log('text'); serve(NodeSettings.load(), AgentToken.load(), version={version!r})"
    )


def make_certificate(folder: Path, name: str = "127.0.0.1") -> tuple[Path, Path]:
    """A certificate that signs itself, and its key, by the machine's openssl."""
    folder.mkdir(parents=True, exist_ok=True)
    cert, key = folder / "node.pem", folder / "node.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=node",
         "-addext", f"subjectAltName=IP:{name}", "-keyout", str(key), "-out", str(cert)],
        check=True,
        capture_output=True,
        timeout=60,
    )  # fmt: skip
    return cert, key


def server_context(cert: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context


async def refused[E: Exception](kind: type[E], call: Callable[[], Any]) -> E:
    """What a call raises."""
    try:
        await call()
    except kind as problem:
        return problem
    raise AssertionError("nothing was raised")
