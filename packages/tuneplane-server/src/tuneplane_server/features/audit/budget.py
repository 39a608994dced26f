"""How much may be audited of what somebody can repeat without end: a record that nobody could read to its end hides what is in it."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import structlog

log = structlog.get_logger(__name__)

AT_MOST, SECONDS = 200, 600.0


class AuditBudget:
    """At most so many entries in so many seconds, of this process."""

    def __init__(
        self, most: int = AT_MOST, seconds: float = SECONDS, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._most, self._seconds, self._clock = most, seconds, clock
        self._taken: deque[float] = deque(maxlen=most)
        self._told = False

    def take(self) -> bool:
        """Whether one more may be written; it counts as written then. The first that may not is in the log."""
        now = self._clock()
        while self._taken and now - self._taken[0] >= self._seconds:
            self._taken.popleft()
            self._told = False
        if len(self._taken) < self._most:
            self._taken.append(now)
            return True
        if not self._told:
            self._told = True
            log.warning("what is audited too often is left out for a while", most=self._most, seconds=self._seconds)
        return False
