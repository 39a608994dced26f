"""One look at a run for everyone who follows it, however many they are.

A watch polls two small rows; wake-ups of this process make it look early. Its followers are told that something changed and
work out themselves what is new to them, so a slow one holds nothing up and nothing is queued for it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple

import structlog

from tuneplane_server.features.telemetry.repo.runs import Run
from tuneplane_server.wakeups import Wakeups, wait_for

log = structlog.get_logger(__name__)

POLL_SECONDS = 2.0
BETWEEN_SECONDS = 0.25  # a burst of batches is one look
REMEMBERED = 16


class Look(NamedTuple):
    """`job_version`: the ledger's version of the job's row."""

    run: Run
    job_version: int


type Changes = dict[str, list[dict[str, object]]] | None


class Watch:
    """Of one run. `look` is None until the first look."""

    def __init__(self, look: Callable[[], Awaitable[Look]], topics: tuple[str, ...], wakeups: Wakeups) -> None:
        self.look: Look | None = None
        self._look, self._topics, self._wakeups = look, topics, wakeups
        self._followers: set[asyncio.Event] = set()
        self._answers: OrderedDict[tuple[int, int, int], asyncio.Task[Changes]] = OrderedDict()
        self._task: asyncio.Task[None] | None = None

    @property
    def empty(self) -> bool:
        return not self._followers

    @asynccontextmanager
    async def follow(self) -> AsyncIterator[asyncio.Event]:
        """An event that is set whenever there is a new look."""
        event = asyncio.Event()
        self._followers.add(event)
        if self.look is not None:
            event.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run())
        try:
            yield event
        finally:
            self._followers.discard(event)

    async def shared(self, after: int, look: Look, rank: int, make: Callable[[], Awaitable[Changes]]) -> Changes:
        """Followers at the same place ask the same question: it is answered once."""
        key = (after, look.run.position, rank)
        known = self._answers.get(key)
        if known is None or (known.done() and (known.cancelled() or known.exception() is not None)):
            self._answers[key] = asyncio.ensure_future(make())  # type: ignore[arg-type]
            while len(self._answers) > REMEMBERED:
                self._answers.popitem(last=False)
        return await asyncio.shield(self._answers[key])

    def close(self) -> None:
        """Wake the followers and stop looking."""
        if self._task is not None:
            self._task.cancel()
        for event in self._followers:
            event.set()

    async def _run(self) -> None:
        with self._wakeups.listen(*self._topics) as woken:
            while self._followers:
                woken.clear()
                try:
                    found = await self._look()
                    if found != self.look:
                        self.look = found
                        for event in self._followers:
                            event.set()
                except Exception as error:  # one failed look is made up for by the next
                    log.warning("looking at a followed run failed", topics=self._topics, exc_info=error)
                await asyncio.sleep(BETWEEN_SECONDS)
                await wait_for(woken, POLL_SECONDS)


class Watches:
    """The watches of the runs that are being followed now."""

    def __init__(self, wakeups: Wakeups) -> None:
        self._wakeups = wakeups
        self._watches: dict[str, Watch] = {}
        self.closing = False

    @asynccontextmanager
    async def of(
        self, job_id: str, topics: tuple[str, ...], look: Callable[[], Awaitable[Look]]
    ) -> AsyncIterator[Watch]:
        watch = self._watches.setdefault(job_id, Watch(look, topics, self._wakeups))
        try:
            yield watch
        finally:
            if watch.empty and self._watches.get(job_id) is watch:
                del self._watches[job_id]
                watch.close()

    def close(self) -> None:
        """Followers end their streams: the console is about to stop."""
        self.closing = True
        for watch in self._watches.values():
            with suppress(RuntimeError):  # the loop is gone already
                watch.close()
