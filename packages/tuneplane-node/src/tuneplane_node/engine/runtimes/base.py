"""The port that every runtime implements; one contract suite in the tests runs against all of them."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Coroutine
from typing import Any, Protocol

from tuneplane_node.engine.problems import Finding
from tuneplane_node.engine.requests import LaunchRequest, Observed, OwnedContainer, RuntimeHandle
from tuneplane_node.engine.sampling.jobs import JobPlace
from tuneplane_node.engine.strangers import Stranger

# How long a killed container may take to be gone before the caller is told that it is not.
KILL_SECONDS = 15.0


class Runtime(Protocol):
    """Every call may be repeated at any time, also by another process after a crash, and is bounded in time.

    A runtime that cannot be asked says so: `observe` answers `unknown`, `remove` answers False, every other call
    raises NodeError `engine-unreachable`. It never says that something is gone.
    """

    name: str

    async def check(self) -> list[Finding]:
        """What stands in the way of jobs, and what to know."""
        ...

    async def gives_gpus(self) -> bool:
        """Whether real GPUs can be passed to a container here, as far as the engine tells."""
        ...

    async def launch(self, request: LaunchRequest) -> RuntimeHandle:
        """Create and start, or return what has that name and the same labels, never starting it a second time.

        When it is cancelled, nothing of it happens any more after it has raised; what it only created is gone.
        """
        ...

    async def observe(self, name: str) -> Observed: ...

    async def stop(self, name: str, grace_seconds: float) -> None:
        """SIGTERM to the first process, then after the grace SIGKILL to everything; returns when it has ended."""
        ...

    async def kill(self, name: str) -> None:
        """SIGKILL to everything; returns when it has ended. Absent or ended already is fine."""
        ...

    async def remove(self, name: str) -> bool:
        """End it if it runs and remove every trace. True only when it is proved to be gone."""
        ...

    async def owned(self) -> list[OwnedContainer]:
        """Everything of this console's instance, running or ended."""
        ...

    async def strangers(self) -> list[Stranger]:
        """What carries a job's labels here and is of another instance, or of none that is left."""
        ...

    async def end_stranger(self, stranger: Stranger) -> bool:
        """End and remove exactly that; True only when it is proved to be gone."""
        ...

    async def places(self) -> list[JobPlace]:
        """Where the running ones of this console's instance are, for who measures what they use."""
        ...

    async def logs(self, name: str, tail_bytes: int) -> bytes:
        """The end of what the first process printed; empty when there is nothing."""
        ...

    async def prune_images(self, limit_bytes: int, pinned: Collection[str]) -> list[str]:
        """Remove images that were pulled for jobs until they take no more than that, never one in use or pinned; their names."""
        ...

    async def forget_notes(self) -> int:
        """Remove what is kept here about containers that are gone; how much of it."""
        ...

    async def close(self) -> None:
        """Let go of connections. Containers are not touched."""
        ...


async def to_its_end[T](work: Coroutine[Any, Any, T]) -> T:
    """Await `work`; when the caller is cancelled meanwhile, not before it has come to its own end.

    A call that is given up half-way may still have its effect, after whoever gave it up has looked and found nothing.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()  # the cancel is what counts
        raise
