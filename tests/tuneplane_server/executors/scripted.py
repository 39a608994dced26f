"""An executor in memory, for faults that no real backend shows on demand. It passes the same contract suite as the real ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from tuneplane_server.domain.classify import Exit
from tuneplane_server.domain.members import MemberEnd
from tuneplane_server.executors.port import (
    Capabilities,
    CleanupState,
    ExecutorUnreachableError,
    Finding,
    GpuInfo,
    Handle,
    LaunchPlan,
    NodeFigures,
    NodeInfo,
    Observation,
    Queued,
)

QUEUED = Queued("Resources", "")
SIGTERM_EXIT = Exit(False, 143, 15)


@dataclass
class Container:
    """`queued`: the executor's own queue holds it. `started`: False while it does, and until its machines have begun it."""

    plan: LaunchPlan
    exit: Exit | None = None
    ignores_sigterm: bool = False
    queued: Queued | None = None
    started: bool = True
    started_at: datetime | None = None
    nodes: tuple[str, ...] = ()
    members: tuple[MemberEnd, ...] = ()
    looks: int = 0

    def let_go(self) -> None:
        """The queue has given it machines, which have not begun."""
        self.queued = None

    def begin(self, *nodes: str, at: datetime | None = None) -> None:
        """It runs, on these machines."""
        self.queued, self.started, self.started_at, self.nodes = None, True, at, nodes

    @property
    def running(self) -> bool:
        return self.exit is None


@dataclass
class ScriptedExecutor:
    """What is out there is `containers`; what happened is `created`, `stopped`, `cleaned`; faults are set by the test."""

    gpus: int = 8
    cpus: float = 10_000
    name: str = "scripted"
    reachable: bool = True
    cleans: bool = True  # False: cleanup finds that something is still there
    launch_errors: list[Exception] = field(default_factory=list)
    containers: dict[tuple[str, int], Container] = field(default_factory=dict)
    created: list[tuple[str, int]] = field(default_factory=list)
    stopped: list[tuple[str, int]] = field(default_factory=list)
    cleaned: list[tuple[str, int]] = field(default_factory=list)
    # Awaited inside `launch`, after the container exists and before the caller hears of it.
    before_launch_returns: Callable[[], object] | None = None
    observe_errors: dict[str, Exception] = field(default_factory=dict)
    invented: bool = True  # its cards are
    own_queue: bool = False  # what is launched waits in it until the test lets it begin
    begins_after: int | None = None  # so many looks at it; None: when the test lets it
    gpus_used: int | None = None
    placeable: bool = True
    # What `sample` answers; None: nothing is measured.
    measured: Callable[[], NodeFigures | None] = lambda: None

    async def open(self) -> None:
        return None

    async def close(self) -> None:
        return None

    def capabilities(self) -> Capabilities:
        own = self.own_queue
        return Capabilities(
            "scripted",
            "environment",
            heterogeneous_pools=own,
            multi_node=own,
            on_this_machine=True,
            isolates=False,
            own_queue=own,
        )

    async def check(self) -> list[Finding]:
        return [] if self.reachable else [Finding("engine-unreachable", "error", "away")]

    async def nodes(self) -> list[NodeInfo]:
        self._ask()
        cards = tuple(GpuInfo(index, "h200", "invented", None, simulated=self.invented) for index in range(self.gpus))
        names = ("node", "node-2") if self.own_queue else ("node",)
        return [
            NodeInfo(
                name,
                self.cpus,
                1_000_000,
                cards,
                placeable=self.placeable,
                why="" if self.placeable else "drained: new fans",
                gpus_used=self.gpus_used,
            )
            for name in names
        ]

    async def sample(self, node: str) -> NodeFigures | None:
        self._ask()
        return self.measured()

    async def launch(self, plan: LaunchPlan) -> Handle:
        self._ask()
        if self.launch_errors:
            raise self.launch_errors.pop(0)
        key = (plan.job_id, plan.attempt)
        if key not in self.containers:
            self.created.append(key)
            self.containers[key] = Container(plan, queued=QUEUED, started=False) if self.own_queue else Container(plan)
        if self.before_launch_returns is not None:
            result = self.before_launch_returns()
            if asyncio.iscoroutine(result):
                await result
        return self._handle(key)

    async def observe(self, handle: Handle) -> Observation:
        if handle.job_id in self.observe_errors:
            raise self.observe_errors[handle.job_id]
        if not self.reachable:
            return Observation("unknown", detail="connection refused")
        found = self.containers.get(_key(handle))
        if found is None:
            return Observation("absent", exit=Exit(absent=True))
        found.looks += 1
        if self.begins_after is not None and found.queued is not None and found.looks > self.begins_after:
            found.begin(f"real-{handle.attempt}")
        return Observation(
            "present",
            running=found.running,
            started=found.started,
            exit=found.exit,
            started_at=found.started_at,
            members=found.members,
            queued=found.queued,
            nodes=found.nodes,
        )

    async def stop(self, handle: Handle, grace: timedelta) -> None:
        self._ask()
        self.stopped.append(_key(handle))
        found = self.containers.get(_key(handle))
        if found is not None and found.running and not found.started:
            found.exit, found.queued = Exit(absent=True), None
        elif found is not None and found.running:
            found.exit = Exit(False, 137, 9) if found.ignores_sigterm else SIGTERM_EXIT

    async def cleanup(self, handle: Handle) -> CleanupState:
        if not self.reachable:
            return CleanupState.UNKNOWN
        if not self.cleans:
            return CleanupState.PENDING
        self.cleaned.append(_key(handle))
        self.containers.pop(_key(handle), None)
        return CleanupState.CONFIRMED

    async def owned(self, nodes: Sequence[str] = ()) -> list[Handle]:
        self._ask()
        return [self._handle(key) for key in self.containers]

    def _handle(self, key: tuple[str, int]) -> Handle:
        """On counted machines as long as nobody has said which ones they are; of one that is gone nobody knows them."""
        found = self.containers.get(key)
        nodes = tuple(machine.node for machine in found.plan.machines) if self.own_queue and found else ()
        return Handle(*key, {"name": f"{key[0]}-{key[1]}"}, "scripted", isolated=False, nodes=nodes)

    def _ask(self) -> None:
        if not self.reachable:
            raise ExecutorUnreachableError("connection refused")


def _key(handle: Handle) -> tuple[str, int]:
    return handle.job_id, handle.attempt
