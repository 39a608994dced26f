"""Server-sent events of one run: `hello`, `job`, `metrics`, `logs`, `samples`, `ping`.

`metrics` carries the new points of the main rank; without data it means "read the curves again". `logs` and `samples` say
that there is something new, which the reader fetches with its own cursor, so that it does not matter whether the stream or
a poll woke it. The id of an event is the run's position up to which the reader has been told everything.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable
from time import monotonic
from typing import Any

import msgspec

from tuneplane_server.features.telemetry.curves import CurveReader
from tuneplane_server.features.telemetry.watching import Look, Watch, Watches
from tuneplane_server.wakeups import wait_for

PING_SECONDS = 10.0
# After this the stream ends and the client comes again: who may see the run is checked anew.
LIFETIME_SECONDS = 1800.0
RETRY_MS = 2000


class RunStream:
    def __init__(self, curves: CurveReader, watches: Watches, job_id: str, rank: int = 0) -> None:
        self._curves, self._watches, self._job_id, self._rank = curves, watches, job_id, rank

    async def events(
        self,
        look: Callable[[], Awaitable[Look]],
        job: Callable[[], Awaitable[Any]],
        topics: tuple[str, ...],
        last_id: int | None,
    ) -> AsyncGenerator[bytes]:
        """`look` at the run's rows; `job` as its reader sees it, for JSON; `last_id`: the position known to the client."""
        position, version, end = last_id, -1, monotonic() + LIFETIME_SECONDS
        yield b"retry: %d\n" % RETRY_MS + _event("hello", position or 0, {})
        async with self._watches.of(self._job_id, topics, look) as watch, watch.follow() as woken:
            while not self._watches.closing and monotonic() < end:
                if not await wait_for(woken, PING_SECONDS) or watch.look is None:
                    yield _event("ping", position or 0, {})
                    continue
                seen = watch.look
                if seen.job_version != version:
                    version = seen.job_version
                    yield _event("job", position or 0, await job())
                for name, data in await self._news(watch, seen, position):
                    yield _event(name, seen.run.position, data)
                position = seen.run.position

    async def _news(self, watch: Watch, seen: Look, after: int | None) -> list[tuple[str, Any]]:
        run = seen.run
        if after is None or after > run.position:  # a client without a past reads everything itself, now
            return [("metrics", {}), ("logs", {})]
        news: list[tuple[str, Any]] = []
        if run.metric_position > after:
            news.append(("metrics", await self._points(watch, seen, after)))
        if run.log_position > after:
            news.append(("logs", {"position": run.log_position}))
        if run.sample_position > after:
            news.append(("samples", {"count": run.sample_count}))
        return news

    async def _points(self, watch: Watch, seen: Look, after: int) -> dict[str, Any]:
        found = await watch.shared(
            after, seen, self._rank, lambda: self._curves.changes(self._job_id, after, self._rank)
        )
        return {} if found is None else {"series": found}


def _event(name: str, identity: int, data: Any) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (identity, name.encode(), msgspec.json.encode(data))
