"""Real daemons `tuneplane-node` on this machine, each with state of its own, and what the console knows of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests.tuneplane_node.daemon.served import TOKEN, Daemon
from tuneplane_node.client import NodeClient, NodeError, NodeUnreachableError
from tuneplane_node.engine import Inventory
from tuneplane_node.wire import NodeHello
from tuneplane_server.clock import SYSTEM_CLOCK, Clock
from tuneplane_server.domain.nodes import NodeHealth, NodeState
from tuneplane_server.executors.agent.calls import NodeCalls
from tuneplane_server.executors.agent.executor import AgentExecutor
from tuneplane_server.executors.agent.lost import LostNodes
from tuneplane_server.features.nodes.node import Fence, Node, NodeProblem

LOST_AFTER = timedelta(minutes=30)


class Directory:
    """What the feature `nodes` would know, in memory; a test changes it as it likes."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.calls: list[tuple[str, str]] = []  # (node, code of the problem or empty)

    async def list(self) -> Sequence[Node]:
        return [node for node in self.nodes.values() if node.state is not NodeState.REMOVED]

    async def get(self, name: str) -> Node | None:
        return self.nodes.get(name)

    async def fence(self, name: str, job_id: str, attempt: int) -> None:
        node = self.nodes[name]
        if (job_id, attempt) not in self.fenced(name):
            fence = Fence(name, job_id, attempt, node.node_id, datetime.now(UTC))
            self.change(name, fences=(*node.fences, fence))

    async def called(self, name: str, problem: NodeProblem | None) -> None:
        self.calls.append((name, "" if problem is None else problem.code))

    def change(self, name: str, **values: Any) -> None:
        self.nodes[name] = replace(self.nodes[name], **values)

    def fenced(self, name: str) -> set[tuple[str, int]]:
        return {(fence.job_id, fence.attempt) for fence in self.nodes[name].fences}


def node_of(hello: NodeHello, inventory: Inventory, address: str, **values: Any) -> Node:
    """A node that is ready, as it told of itself."""
    now = datetime.now(UTC)
    node = Node(
        name=hello.name,
        node_id=hello.node_id,
        address=address,
        version=hello.version,
        state=NodeState.READY,
        health=NodeHealth.READY,
        problem=None,
        last_heard=now,
        joined_at=now,
        daemon_start=f"{hello.boot_id}/{hello.started_at}",
        proved_at=now,
        inventory=inventory,
        findings=(),
        fences=(),
        runtime=hello.runtime,
        isolates=hello.isolates,
        image_form=hello.image_form,
        simulated=hello.simulated,
        storage_root=hello.storage_root,
        state_by="system",
        state_at=now,
    )
    return replace(node, **values)


class Machines:
    """Daemons that share a storage root, and the executor over them."""

    def __init__(self, folder: Path, names: Sequence[str]) -> None:
        self.folder, self.names = folder, names
        self.storage = folder / "storage"
        self.storage.mkdir()
        self.daemons: dict[str, Daemon] = {}
        self.directory = Directory()
        self.heartbeats: dict[tuple[str, int], Mapping[int, datetime]] = {}
        self.seconds = 0.0  # added to the clock of the calls

    async def start(self) -> Machines:
        settings = {"TUNEPLANE_STORAGE_ROOT": str(self.storage), "TUNEPLANE_SIMULATED_GPUS": "h200:8"}
        for name in self.names:
            self.daemons[name] = Daemon(self.folder / name, settings | {"TUNEPLANE_NODE_NAME": name})
        await asyncio.gather(*(daemon.start() for daemon in self.daemons.values()))
        for name in self.names:
            await self.announce(name)
        return self

    async def announce(self, name: str) -> None:
        """The console learns of the daemon as it is now; its fences stay."""
        client = self.daemons[name].client()
        try:
            hello, inventory = await client.hello(), await client.inventory()
        finally:
            await client.close()
        known = self.directory.nodes.get(name)
        fences = () if known is None else known.fences
        self.directory.nodes[name] = node_of(hello, inventory, client.address, fences=fences)

    async def restart(self, name: str) -> None:
        await self.daemons[name].start()
        await self.announce(name)

    def executor(
        self, connect: Callable[..., NodeClient] = NodeClient, clock: Clock = SYSTEM_CLOCK, **options: Any
    ) -> AgentExecutor:
        async def heartbeats(job_id: str, attempt: int) -> Mapping[int, datetime]:
            return self.heartbeats.get((job_id, attempt), {})

        def passed() -> float:
            return asyncio.get_running_loop().time() + self.seconds

        calls = NodeCalls(self.directory, TOKEN, connect=connect, clock=passed)
        lost = LostNodes(self.directory, calls, clock, heartbeats, options.pop("after", LOST_AFTER))
        return AgentExecutor(self.directory, calls, lost, clock=passed, **options)

    def runs(self, name: str) -> bool:
        process = self.daemons[name].process
        return process is not None and process.poll() is None

    async def mend(self) -> None:
        """Every daemon runs and has nothing, and nothing is known of what was."""
        for name in self.names:
            if not self.runs(name):
                await self.restart(name)
            self.directory.change(name, fences=(), state=NodeState.READY)
        self.directory.calls.clear()
        self.heartbeats.clear()
        self.seconds = 0.0
        await self.clean()

    async def on_each(self, do: Callable[[NodeClient], Awaitable[Any]]) -> dict[str, Any]:
        """What each daemon that runs answers."""
        found = {}
        for name, daemon in self.daemons.items():
            if not self.runs(name):
                continue
            client = daemon.client()
            try:
                found[name] = await do(client)
            finally:
                await client.close()
        return found

    async def containers(self) -> dict[str, list[str]]:
        """Node -> names of what is there, whatever its state."""

        async def names(client: NodeClient) -> list[str]:
            return sorted(item.handle.rpartition("/")[2] for item in await client.containers())

        return await self.on_each(names)

    async def clean(self) -> None:
        """End every job; the daemons serve on."""

        async def clean(client: NodeClient) -> None:
            for item in await client.containers():
                with suppress(NodeError, NodeUnreachableError):
                    await client.cleanup_attempt(item.labels["tuneplane.job"], int(item.labels["tuneplane.attempt"]))

        await self.on_each(clean)

    async def stop(self) -> None:
        await self.mend()  # what a dead one left is ended by the next
        for daemon in self.daemons.values():
            await daemon.stop()
