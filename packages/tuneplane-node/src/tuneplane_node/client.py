"""The typed client of a node's daemon: the engine's calls, from another machine.

NodeError is the node's own refusal, with the engine's codes; NodeUnreachableError says that nothing is known. Every call may be
repeated at any time, and none depends on a connection that stays open.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneplane_node.engine.inventory import Inventory
from tuneplane_node.engine.problems import Finding, NodeError
from tuneplane_node.engine.requests import LaunchRequest, Observed, RuntimeHandle
from tuneplane_node.engine.sampling.samples import MachineSample
from tuneplane_node.transport import NodeUnreachableError, Transport
from tuneplane_node.versions import VERSION
from tuneplane_node.wire import (
    NODE_PATH,
    AttemptCleanupCall,
    CleanupAnswer,
    CleanupCall,
    ContainerSeen,
    LaunchAnswer,
    LaunchCall,
    NodeHello,
    PortAnswer,
    PortCall,
    PreflightReport,
    PreflightRequest,
    StopAnswer,
    StopCall,
    StorageChallenge,
    StorageProof,
    WireError,
    from_json,
    known_finding,
    to_json,
)

__all__ = ["NodeClient", "NodeError", "NodeUnreachableError", "Ticket"]

CONNECT_SECONDS = 3.0
READ_SECONDS = 30.0  # more than the 20 s after which a node says that it is not done yet
REPEAT_SECONDS = 1.0


@dataclass(frozen=True)
class Ticket:
    """When a launch began: by the clock of who launches (Unix seconds), and by the node's count of cleanups."""

    asked: float
    text: str


class NodeClient:
    """`address`: `http://10.0.0.2:8643`. `token`: the text, or what gives the one that is valid now. `ca_file`: the authority of
    the node's certificate, None for those of the machine. `node_id`: whose it is to be, when that is known; any other node that
    answers there is NodeUnreachableError `node-answer` and does nothing. Connections are kept; `close` lets go of them."""

    def __init__(
        self,
        address: str,
        token: str | Callable[[], str],
        *,
        ca_file: Path | None = None,
        connect_seconds: float = CONNECT_SECONDS,
        read_seconds: float = READ_SECONDS,
        node_id: str = "",
        version: str = VERSION,
    ) -> None:
        self._transport = Transport(
            address,
            token,
            ca_file=ca_file,
            connect_seconds=connect_seconds,
            read_seconds=read_seconds,
            node_id=node_id,
            version=version,
        )

    @property
    def address(self) -> str:
        return self._transport.address

    async def hello(self) -> NodeHello:
        return await self._get("/hello", NodeHello)

    async def inventory(self) -> Inventory:
        return await self._get("/inventory", Inventory)

    async def check(self) -> list[Finding]:
        """What stands in the way of jobs there, in the current language."""
        found = await self._get("/check", list[Finding])
        return [known_finding(each) for each in found]

    async def sample(self) -> MachineSample:
        return await self._get("/sample", MachineSample)

    async def ticket(self) -> Ticket:
        """For a launch that begins now, however long it takes until this node is told."""
        asked = time.time()
        return Ticket(asked, (await self.hello()).ticket)

    async def launch(
        self, request: LaunchRequest, digests: Mapping[str, str] | None = None, ticket: Ticket | None = None
    ) -> RuntimeHandle:
        """Create-or-get by name, as the engine's. `digests`: absolute path -> SHA-256 (hex) of files that must be as they were
        sent; another one is NodeError `capsule-altered` and starts nothing. `ticket`: from when the launch began, if that was before;
        when its attempt was cleaned up since, it is NodeError `launch-superseded`.

        Asks until it is done, however long an image pull takes; whoever asks again later joins the same launch.
        """
        begun = ticket or await self.ticket()
        call = LaunchCall(request, dict(digests or {}), secrets.token_hex(8), begun.asked, begun.text)
        answer = await self._until_done("/launch", call, LaunchAnswer)
        return self._handle(answer.handle)

    async def containers(self) -> list[ContainerSeen]:
        """Everything of the node's own with its state, in one call. NodeError when a runtime there cannot be asked."""
        return await self._get("/containers", list[ContainerSeen])

    async def observe(self, handle: RuntimeHandle) -> Observed:
        """`unknown` when the node cannot ask its runtime."""
        return await self._get(_path(handle), Observed)

    async def stop(self, handle: RuntimeHandle, grace_seconds: float) -> None:
        """SIGTERM, the grace, SIGKILL; returns when it has ended. A second one with less grace shortens the first."""
        call = StopCall(grace_seconds, secrets.token_hex(8))
        await self._until_done(f"{_path(handle)}/stop", call, StopAnswer)

    async def kill(self, handle: RuntimeHandle) -> None:
        await self._transport.json("POST", f"{NODE_PATH}{_path(handle)}/kill")

    async def cleanup(self, handle: RuntimeHandle) -> bool:
        """True: gone, proved. A launch of that name in flight is ended first."""
        answer = await self._post(f"{_path(handle)}/cleanup", CleanupCall(time.time()), CleanupAnswer)
        return answer.gone

    async def cleanup_attempt(self, job: str, attempt: int, instance: str = "") -> bool:
        """End launches in flight of that attempt, remove every container with its labels, give back its port. True: all of it is
        gone, proved, in every runtime that the node ever used. `instance`: of what was launched under that other node id instead."""
        call = AttemptCleanupCall(job, attempt, time.time(), instance)
        return (await self._post("/attempts/cleanup", call, CleanupAnswer)).gone

    async def logs(self, handle: RuntimeHandle, tail_bytes: int = 64 * 1024) -> bytes:
        return await self._transport.content(
            "GET", f"{NODE_PATH}{_path(handle)}/logs", params={"tail_bytes": tail_bytes}
        )

    async def prove_storage(self, challenge: StorageChallenge) -> StorageProof:
        return await self._post("/storage", challenge, StorageProof)

    async def preflight(self, request: PreflightRequest) -> PreflightReport:
        return await self._post("/preflight", request, PreflightReport)

    async def reserve_port(self, job: str, attempt: int) -> int:
        """A port of the node that nobody has; the same one for the same attempt, other attempts get others."""
        return (await self._post("/ports/reserve", PortCall(job, attempt), PortAnswer)).port

    async def open_port(self, job: str, attempt: int) -> None:
        """Listen on the reserved port for a while, so that other machines can try to reach it."""
        await self._post("/ports/open", PortCall(job, attempt), PortAnswer)

    async def close_port(self, job: str, attempt: int) -> None:
        """Stop listening; the port stays reserved for the attempt."""
        await self._post("/ports/close", PortCall(job, attempt), PortAnswer)

    async def release_port(self, job: str, attempt: int) -> None:
        """Forget the reservation."""
        await self._post("/ports/release", PortCall(job, attempt), PortAnswer)

    async def close(self) -> None:
        await self._transport.close()

    async def _until_done[A: (LaunchAnswer, StopAnswer)](self, path: str, call: object, shape: type[A]) -> A:
        while True:
            asked = time.monotonic()
            answer = await self._post(path, call, shape)
            if answer.done:
                return answer
            # The node waits before it says so; one that does not must not make us ask without a pause.
            await asyncio.sleep(max(0.0, asked + REPEAT_SECONDS - time.monotonic()))

    async def _get[T](self, path: str, shape: type[T]) -> T:
        return self._shaped(await self._transport.json("GET", f"{NODE_PATH}{path}"), shape)

    async def _post[T](self, path: str, body: object, shape: type[T]) -> T:
        answer: Any = await self._transport.json("POST", f"{NODE_PATH}{path}", body=to_json(body))
        return self._shaped(answer, shape)

    def _shaped[T](self, answer: object, shape: type[T]) -> T:
        try:
            return from_json(shape, answer)
        except WireError as problem:
            raise self._transport.odd_answer(str(problem)) from problem

    def _handle(self, text: str) -> RuntimeHandle:
        try:
            return RuntimeHandle.parse(text)
        except NodeError as problem:
            raise self._transport.odd_answer(str(problem)) from problem


def _path(handle: RuntimeHandle) -> str:
    return f"/containers/{handle.runtime}/{handle.name}"
