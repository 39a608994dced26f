"""Rate limits of what can be guessed, by address and by name."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tuneplane.i18n import _
from tuneplane_server.web.problems import refused

if TYPE_CHECKING:
    from limits import RateLimitItem
    from limits.aio.strategies import MovingWindowRateLimiter

# what -> limits in the notation of the `limits` library
RATES = {
    "sign-in-address": "30/minute",
    "sign-in-name": "10/5minute",
    "setup": "10/minute",
    "device-start": "30/minute",
    "device-poll": "60/minute",
    "device-guess": "20/5minute",
    "token-guess": "120/minute",
}


class RateLimits:
    """In this process; a shared store comes with several replicas."""

    def __init__(self) -> None:
        self._limiter: MovingWindowRateLimiter | None = None
        self._items: dict[str, RateLimitItem] = {}

    async def check(self, what: str, key: str) -> None:
        """Count one try; raises the problem `too-many-requests` with Retry-After when there were too many."""
        limiter, item = self._of(what)
        if await limiter.hit(item, what, key):
            return
        window = await limiter.get_window_stats(item, what, key)
        wait = max(1, round(window.reset_time - time.time()))
        problem = refused(
            "too-many-requests", _("too many tries"), _("try again in {seconds} seconds").format(seconds=wait)
        )
        problem.headers = {"Retry-After": str(wait)}
        raise problem

    async def exhausted(self, what: str, key: str) -> bool:
        """Whether the next `check` would refuse; counts nothing."""
        limiter, item = self._of(what)
        return not await limiter.test(item, what, key)

    def _of(self, what: str) -> tuple[MovingWindowRateLimiter, RateLimitItem]:
        if self._limiter is None:
            from limits.aio.storage import MemoryStorage
            from limits.aio.strategies import MovingWindowRateLimiter

            self._limiter = MovingWindowRateLimiter(MemoryStorage())
        if what not in self._items:
            from limits import parse

            self._items[what] = parse(RATES[what])
        return self._limiter, self._items[what]
