"""Rate limits of what can be guessed, by address and by name."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import structlog

from tuneplane.i18n import _
from tuneplane_server.web.problems import refused

if TYPE_CHECKING:
    from limits import RateLimitItem
    from limits.aio.strategies import MovingWindowRateLimiter

log = structlog.get_logger(__name__)

TIMEOUT_SECONDS = 1.0  # somebody waits to sign in meanwhile
AWAY_SECONDS = 10.0  # how long Redis is not asked after it did not answer
# what -> limits in the notation of the `limits` library
RATES = {
    "sign-in-address": "30/minute",
    "sign-in-name": "10/5minute",
    "setup": "10/minute",
    "device-start": "30/minute",
    "device-poll": "60/minute",
    "device-guess": "20/5minute",
    "token-guess": "120/minute",
    "agent-token": "30/minute",
    "agent-audit": "5/hour",  # by address
    "agent-audit-all": "50/hour",
}


class RateLimits:
    """Counted in Redis where there is one, so that several replicas count together; in this process without Redis and while
    it is away: then a guesser has as many tries as there are replicas, and nobody is locked out.
    """

    def __init__(self, redis_url: str | None = None) -> None:
        self._redis_url = redis_url
        self._here: MovingWindowRateLimiter | None = None
        self._shared: MovingWindowRateLimiter | None = None
        self._shared_again = 0.0  # monotonic time before which Redis is not asked again
        self._items: dict[str, RateLimitItem] = {}

    async def check(self, what: str, key: str) -> None:
        """Count one try; raises the problem `too-many-requests` with Retry-After when there were too many."""
        item = self._item(what)

        async def count(limiter: MovingWindowRateLimiter) -> float | None:
            if await limiter.hit(item, what, key):
                return None
            return (await limiter.get_window_stats(item, what, key)).reset_time

        until = await self._ask(count)
        if until is None:
            return
        wait = max(1, round(until - time.time()))
        problem = refused(
            "too-many-requests", _("too many tries"), _("try again in {seconds} seconds").format(seconds=wait)
        )
        problem.headers = {"Retry-After": str(wait)}
        raise problem

    async def exhausted(self, what: str, key: str) -> bool:
        """Whether the next `check` would refuse; counts nothing."""
        item = self._item(what)

        async def look(limiter: MovingWindowRateLimiter) -> bool:
            return not await limiter.test(item, what, key)

        return await self._ask(look)

    async def close(self) -> None:
        """Give back the connections to Redis."""
        if self._shared is not None:
            connection: Any = getattr(self._shared.storage, "bridge").storage  # noqa: B009 - limits gives no way to close it
            self._shared = None
            await connection.aclose()

    async def _ask[T](self, question: Callable[[MovingWindowRateLimiter], Awaitable[T]]) -> T:
        """Of Redis, unless it is away; then of this process."""
        if self._redis_url is not None and time.monotonic() >= self._shared_again:
            from redis.exceptions import RedisError

            try:
                return await question(self._in_redis(self._redis_url))
            except (RedisError, OSError, TimeoutError) as error:
                self._shared_again = time.monotonic() + AWAY_SECONDS
                log.warning("rate limits are counted in this process: redis is away", error=type(error).__name__)
        return await question(self._in_process())

    def _in_redis(self, url: str) -> MovingWindowRateLimiter:
        if self._shared is None:
            from limits.aio.storage import RedisStorage
            from limits.aio.strategies import MovingWindowRateLimiter

            storage = RedisStorage(
                f"async+{url}",
                implementation="redispy",
                key_prefix="tuneplane-limits",
                socket_timeout=TIMEOUT_SECONDS,
                socket_connect_timeout=TIMEOUT_SECONDS,
            )
            self._shared = MovingWindowRateLimiter(storage)
        return self._shared

    def _in_process(self) -> MovingWindowRateLimiter:
        if self._here is None:
            from limits.aio.storage import MemoryStorage
            from limits.aio.strategies import MovingWindowRateLimiter

            self._here = MovingWindowRateLimiter(MemoryStorage())
        return self._here

    def _item(self, what: str) -> RateLimitItem:
        if what not in self._items:
            from limits import parse

            self._items[what] = parse(RATES[what])
        return self._items[what]
