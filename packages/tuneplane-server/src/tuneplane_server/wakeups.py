"""Wake-ups inside this process: they only make a poll happen early. Polling the rows stays the truth."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class Wakeups:
    """`notify(topic)` wakes everyone who listens to it now. Topics: `launcher`, `reaper`, `job:<id>`, `jobs`.

    To be used on the event loop's thread. `redis_wakeups.RedisWakeups` also tells the other replicas.
    """

    def __init__(self) -> None:
        self._listeners: defaultdict[str, set[asyncio.Event]] = defaultdict(set)
        self.connected = asyncio.Event()  # set while other replicas hear us

    def notify(self, *topics: str) -> None:
        for topic in topics:
            for event in self._listeners.get(topic, ()):
                event.set()

    def wake_all(self) -> None:
        """As if everything had been notified: after something may have been missed."""
        for events in self._listeners.values():
            for event in events:
                event.set()

    async def open(self) -> None:
        """Begin to hear others, where there are others to hear."""

    async def close(self) -> None:
        """The end of it."""

    @contextmanager
    def listen(self, *topics: str) -> Iterator[asyncio.Event]:
        """An event that is set by every notification from now on; clear it before looking at the rows."""
        event = asyncio.Event()
        for topic in topics:
            self._listeners[topic].add(event)
        try:
            yield event
        finally:
            for topic in topics:
                self._listeners[topic].discard(event)
                if not self._listeners[topic]:
                    del self._listeners[topic]


async def wait_for(event: asyncio.Event, seconds: float) -> bool:
    """Wait for the event at most `seconds`; True when it came. Clears it."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    event.clear()
    return True
