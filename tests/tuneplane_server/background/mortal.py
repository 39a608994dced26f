"""A console process that dies at a chosen moment: between any two of its effects on the database or on the executor.

An effect is a committed transaction or a call to the executor. The fuse counts the moments before and after each: when it
has burnt down, the process is dead at once, and whatever its code still tries (a `finally`, a handler beside the one that
died) has no effect any more, as after SIGKILL.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncSession

from tests.tuneplane_server.harness import Harness
from tuneplane_server.db.engine import Database
from tuneplane_server.executors.port import (
    Capabilities,
    CleanupState,
    Executor,
    Finding,
    Handle,
    LaunchPlan,
    NodeFigures,
    NodeInfo,
    Observation,
)
from tuneplane_server.services import Services


class DeadError(BaseException):
    """The process is gone. No `except Exception` may go on after it."""


class Life:
    """`fuse`: moments left until the process dies; None: it lives. It can also be paused at a moment, as by SIGSTOP."""

    def __init__(self) -> None:
        self.fuse: int | None = None
        self._sleeps_in: int | None = None
        self._meanwhile: Callable[[], Awaitable[None]] | None = None
        self._awake = asyncio.Event()
        self._awake.set()

    def sleep_in(self, moments: int, meanwhile: Callable[[], Awaitable[None]]) -> None:
        """Pause all that the process does for as long as `meanwhile` takes."""
        self._sleeps_in, self._meanwhile = moments, meanwhile

    def wake(self) -> None:
        """It is not paused any more, should that still be to come."""
        self._sleeps_in = None

    async def rest(self) -> None:
        if self._sleeps_in is not None:
            self._sleeps_in -= 1
            if self._sleeps_in <= 0 and self._meanwhile is not None:
                self._sleeps_in = None
                self._awake.clear()
                await self._meanwhile()
                self._awake.set()
        await self._awake.wait()

    @property
    def dead(self) -> bool:
        return self.fuse == 0

    def moment(self) -> None:
        if self.fuse is not None and self.fuse > 0:
            self.fuse -= 1
        if self.dead:
            raise DeadError

    async def effect[T](self, doing: Awaitable[T]) -> T:
        try:
            self.moment()
        except DeadError:
            close = getattr(doing, "close", None)  # a coroutine that is never begun
            if close is not None:
                close()
            raise
        done = await doing
        self.moment()
        await self.rest()
        return done


class MortalDatabase(Database):
    def __init__(self, url: str, life: Life) -> None:
        super().__init__(url)
        self._life = life

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[AsyncSession]:
        await self._life.rest()
        self._life.moment()
        async with super().begin() as session:
            yield session
            if self._life.dead:  # somebody beside this one died meanwhile: nothing is committed
                raise DeadError
        self._life.moment()


class MortalExecutor:
    """The executor as one process reaches it; what is out there outlives the process."""

    def __init__(self, real: Executor, life: Life) -> None:
        self._real, self._life = real, life
        self.name = real.name

    async def open(self) -> None:
        await self._real.open()

    async def close(self) -> None:
        return None

    def capabilities(self) -> Capabilities:
        return self._real.capabilities()

    async def check(self) -> list[Finding]:
        return await self._life.effect(self._real.check())

    async def nodes(self) -> list[NodeInfo]:
        return await self._life.effect(self._real.nodes())

    async def sample(self, node: str) -> NodeFigures | None:
        return await self._life.effect(self._real.sample(node))

    async def launch(self, plan: LaunchPlan) -> Handle:
        return await self._life.effect(self._real.launch(plan))

    async def observe(self, handle: Handle) -> Observation:
        return await self._life.effect(self._real.observe(handle))

    async def stop(self, handle: Handle, grace: timedelta) -> None:
        await self._life.effect(self._real.stop(handle, grace))

    async def cleanup(self, handle: Handle) -> CleanupState:
        return await self._life.effect(self._real.cleanup(handle))

    async def owned(self, nodes: Sequence[str] = ()) -> list[Handle]:
        return await self._life.effect(self._real.owned(nodes))


class MortalHarness(Harness):
    """A console whose process dies when `life` says so. `restart` starts the next process of the same installation."""

    life: Life

    def _services(self, data: Path) -> Services:
        self.life = Life()
        services = super()._services(data)
        services.given_executor = MortalExecutor(self.executor, self.life)
        services.__dict__["database"] = MortalDatabase(services.settings.database, self.life)
        return services
