"""This node as its callers see it: the engine, what takes long, and what it says of itself."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from tuneplane_node.daemon.operations import Operations
from tuneplane_node.daemon.ports import Ports
from tuneplane_node.daemon.preflight import Here, preflight
from tuneplane_node.daemon.removals import Removals
from tuneplane_node.daemon.storage_proof import StorageProver
from tuneplane_node.engine import LABEL_ATTEMPT, LABEL_JOB, Engine, NodeError, OwnedContainer, Stranger
from tuneplane_node.engine.problems import Finding
from tuneplane_node.engine.supervisor.procfs import boot_id
from tuneplane_node.versions import VERSION
from tuneplane_node.wire import ContainerSeen, NodeHello, PreflightReport, PreflightRequest, StrangerSeen

AT_ONCE = 8  # questions to a container engine at the same time
PROCESS = "process"
MAX_STRANGERS, NAMED = 100, 5  # that are told to the console, and that a sentence names


class Node:
    """`state_root`: on a local disk, kept between starts. `version`: what it says it is, other than this one in tests."""

    def __init__(
        self,
        engine: Engine,
        node_id: str,
        name: str,
        *,
        state_root: Path,
        storage_root: Path,
        version: str = VERSION,
    ) -> None:
        self.engine, self.node_id, self.name, self.version = engine, node_id, name, version
        self.state_root, self.storage_root = state_root, storage_root
        self._removals = Removals(state_root / "removals.json")
        self.operations = Operations(engine, storage_root, self._removals)
        self.storage = StorageProver(storage_root, node_id)
        self.ports = Ports(state_root / "ports.json", self._holds)
        self._started_at = time.time()
        self._containers = _Together(self._look)
        self._findings = _Together(self._check)

    async def hello(self) -> NodeHello:
        runtime = await self._runtime()
        return NodeHello(
            node_id=self.node_id,
            name=self.name,
            version=self.version,
            storage_root=str(self.storage_root),
            runtime=runtime,
            isolates=runtime != PROCESS,
            image_form="environment" if runtime == PROCESS else "oci",
            simulated=bool(self.engine.simulated_gpus),
            time=time.time(),
            boot_id=boot_id(),
            started_at=self._started_at,
            ticket=self._removals.ticket(),
        )

    async def check(self) -> list[Finding]:
        return await self._findings()

    async def containers(self) -> list[ContainerSeen]:
        """Everything of this node's own with its state; callers at the same time share one look. Raises NodeError when a runtime
        cannot be asked."""
        return await self._containers()

    async def count(self) -> int:
        """How many containers there are. Raises NodeError when a runtime cannot be asked."""
        return len(await self.engine.owned())

    async def preflight(self, request: PreflightRequest) -> PreflightReport:
        inventory = await self.engine.inventory()
        gpus = frozenset(gpu.index for gpu in inventory.gpus)
        strangers = await self._strangers() if request.gpus else ()
        here = Here(
            self.storage_root,
            self.state_root,
            gpus,
            await self._runtime() == PROCESS,
            strangers=strangers,
            unread=next((found for found in inventory.findings if found.level == "error"), None),
        )
        return await preflight(request, here)

    async def strangers(self) -> list[StrangerSeen]:
        """Jobs here that were launched under another node id. Raises NodeError when a runtime cannot be asked."""
        found = [each for each in await self.engine.strangers() if each.attempt.isascii() and each.attempt.isdecimal()]
        return [
            StrangerSeen(str(each.handle), each.job, int(each.attempt[:9]), each.instance, each.running, each.gpus)
            for each in found[:MAX_STRANGERS]
        ]

    async def cleanup_attempt(self, job: str, attempt: int, instance: str = "") -> bool:
        """`instance`: of what was launched under that node id, when it is not ours."""
        if instance and instance != self.node_id:
            return await self.operations.end_strangers(job, attempt, instance)
        gone = await self.operations.cleanup_attempt(job, attempt)
        if gone:
            await self.ports.release(job, attempt)
        return gone

    async def close(self, seconds: float) -> None:
        """Let go of everything; containers run on."""
        await self.operations.close(seconds)
        await self.ports.aclose()
        await self.engine.close()

    async def _check(self) -> list[Finding]:
        findings = await self.engine.check()
        running = [each for each in await self._strangers() if each.running]
        if running:
            names = ", ".join(str(each.handle) for each in running[:NAMED]) + (", …" if len(running) > NAMED else "")
            problem = NodeError("strangers-running", count=len(running), host=socket.gethostname(), names=names)
            findings.append(problem.finding())
        return findings

    async def _strangers(self) -> Sequence[Stranger]:
        try:
            return await self.engine.strangers()
        except NodeError:
            return ()  # `check` says what is wrong with the engine

    async def _runtime(self) -> str:
        try:
            return await self.engine.runtime_name()
        except NodeError:
            return ""  # `check` says what is wrong

    async def _look(self) -> list[ContainerSeen]:
        turns = asyncio.Semaphore(AT_ONCE)

        async def seen(item: OwnedContainer) -> ContainerSeen:
            async with turns:
                return ContainerSeen(str(item.handle), item.labels, await self.engine.observe(item.handle))

        return await asyncio.gather(*(seen(item) for item in await self.engine.owned()))

    async def _holds(self, job: str, attempt: int) -> bool:
        """Whether something of that attempt is here. What cannot be asked may hold it."""
        try:
            owned = await self.engine.owned()
        except NodeError:
            return True
        mine = {LABEL_JOB: job, LABEL_ATTEMPT: str(attempt)}
        return any(mine.items() <= dict(item.labels).items() for item in owned)


class _Together[T]:
    """One look for all who ask before it begins. Who asks while one is on its way gets the next: it may have passed by already what
    was begun a moment ago, and to be missing in an answer is taken for a proof.
    """

    def __init__(self, look: Callable[[], Awaitable[T]]) -> None:
        self._look = look
        self._now: asyncio.Task[T] | None = None
        self._next: asyncio.Task[T] | None = None

    async def __call__(self) -> T:
        if self._next is None:
            self._next = asyncio.create_task(self._after(self._now))
        return await asyncio.shield(self._next)

    async def _after(self, before: asyncio.Task[T] | None) -> T:
        if before is not None:
            await asyncio.wait({before})
        self._now, self._next = self._next, None
        return await self._look()
