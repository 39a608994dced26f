"""An executor in memory, for faults that no real backend shows on demand. It passes the same contract suite as the real ones."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from tuneplane_server.domain.classify import Exit
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
)

SIGTERM_EXIT = Exit(False, 143, 15)


@dataclass
class Container:
    plan: LaunchPlan
    exit: Exit | None = None
    ignores_sigterm: bool = False

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
    # What `sample` answers; None: nothing is measured.
    measured: Callable[[], NodeFigures | None] = lambda: None

    async def open(self) -> None:
        return None

    async def close(self) -> None:
        return None

    def capabilities(self) -> Capabilities:
        return Capabilities("scripted", "environment", on_this_machine=True, isolates=False)

    async def check(self) -> list[Finding]:
        return [] if self.reachable else [Finding("engine-unreachable", "error", "away")]

    async def nodes(self) -> list[NodeInfo]:
        self._ask()
        cards = tuple(GpuInfo(index, "h200", "invented", None, simulated=self.invented) for index in range(self.gpus))
        return [NodeInfo("node", self.cpus, 1_000_000, cards)]

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
            self.containers[key] = Container(plan)
        if self.before_launch_returns is not None:
            result = self.before_launch_returns()
            if asyncio.iscoroutine(result):
                await result
        return _handle(key)

    async def observe(self, handle: Handle) -> Observation:
        if handle.job_id in self.observe_errors:
            raise self.observe_errors[handle.job_id]
        if not self.reachable:
            return Observation("unknown", detail="connection refused")
        found = self.containers.get(_key(handle))
        if found is None:
            return Observation("absent", exit=Exit(absent=True))
        return Observation("present", running=found.running, exit=found.exit)

    async def stop(self, handle: Handle, grace: timedelta) -> None:
        self._ask()
        self.stopped.append(_key(handle))
        found = self.containers.get(_key(handle))
        if found is not None and found.running:
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
        return [_handle(key) for key in self.containers]

    def _ask(self) -> None:
        if not self.reachable:
            raise ExecutorUnreachableError("connection refused")


def _handle(key: tuple[str, int]) -> Handle:
    return Handle(*key, {"name": f"{key[0]}-{key[1]}"}, "scripted", isolated=False)


def _key(handle: Handle) -> tuple[str, int]:
    return handle.job_id, handle.attempt
