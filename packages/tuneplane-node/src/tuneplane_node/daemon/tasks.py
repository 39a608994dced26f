"""Tasks that several callers share: started once, joined by the others, kept for a while so that who lost the answer gets it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from tuneplane_node.engine.problems import NodeError

KEEP_SECONDS = 600.0
MOST_KEPT = 1_000
END_SECONDS = 25.0  # an engine's call that is cancelled comes to its own end first


class Shared[T]:
    """Tasks by key. An `operation` names one call of one caller, which repeats it until it has the answer: only those are given
    a result that came before they asked."""

    def __init__(self) -> None:
        self._by_key: dict[str, asyncio.Task[T]] = {}
        self._by_operation: dict[str, tuple[asyncio.Task[T], float]] = {}
        self._beside: set[asyncio.Task[None]] = set()
        self._waiting: set[asyncio.Future[None]] = set()
        self._patient = True

    @property
    def running(self) -> int:
        return len(self._by_key)

    def is_running(self, key: str) -> bool:
        return key in self._by_key

    def of_operation(self, operation: str) -> asyncio.Task[T] | None:
        return self._by_operation[operation][0] if operation in self._by_operation else None

    def start_or_join(self, key: str, operation: str, work: Callable[[], Coroutine[Any, Any, T]]) -> asyncio.Task[T]:
        task = self._by_key.get(key)
        if task is None:
            task = asyncio.create_task(work())
            self._by_key[key] = task
            task.add_done_callback(lambda ended: self._ended(key, ended))
        if operation:
            self._keep(operation, task)
        return task

    def beside(self, work: Coroutine[Any, Any, None]) -> None:
        """Something that nobody waits for."""
        task = asyncio.create_task(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)
        task.add_done_callback(_retrieved)

    async def result(self, task: asyncio.Task[T], seconds: float) -> T | None:
        """None when it has not ended within so many seconds, or when nobody is to wait any more; else what it gives or raises."""
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(woken)
        try:
            wait = seconds if self._patient else 0
            await asyncio.wait({task, woken}, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self._waiting.discard(woken)
        if task.cancelled():
            raise NodeError("node-stopping")  # only the daemon's own end cancels what has no end of its own
        return task.result() if task.done() else None

    async def is_done(self, task: asyncio.Task[T], seconds: float) -> bool:
        """As `result`, where ending is all there is."""
        await self.result(task, seconds)
        return task.done()

    def wake(self) -> None:
        """Let everybody who waits go, now and later: the daemon is about to end."""
        self._patient = False
        for woken in self._waiting:
            if not woken.done():
                woken.set_result(None)

    async def end(self, key: str, seconds: float = END_SECONDS) -> None:
        """Cancel it, if there is one, and wait for its end. Raises NodeError `still-running` when it does not come."""
        task = self._by_key.get(key)
        if task is None:
            return
        task.cancel()
        _done, pending = await asyncio.wait({task}, timeout=seconds)
        if pending:
            raise NodeError("still-running", name=key, seconds=seconds)

    async def close(self, seconds: float) -> None:
        tasks = [*self._by_key.values(), *self._beside]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=seconds)

    def _keep(self, operation: str, task: asyncio.Task[T]) -> None:
        now = time.monotonic()
        surplus = len(self._by_operation) - MOST_KEPT + 1
        for name, (kept, since) in list(self._by_operation.items()):  # the oldest come first
            if kept.done() and (now - since > KEEP_SECONDS or surplus > 0):
                del self._by_operation[name]
                surplus -= 1
        self._by_operation[operation] = (task, now)

    def _ended(self, key: str, task: asyncio.Task[T]) -> None:
        if self._by_key.get(key) is task:
            del self._by_key[key]
        _retrieved(task)


def _retrieved(task: asyncio.Task[Any]) -> None:
    """Who asked may never come back for it."""
    if not task.cancelled():
        task.exception()
