"""How long to wait before the next try."""

from __future__ import annotations

import random
from email.utils import parsedate_to_datetime
from time import time
from typing import Callable, Optional

from tuneplane.runner import limits


class Backoff:
    """Doubles from half a second to half a minute with full jitter, so that many runners do not come back at once."""

    def __init__(self, draw: Callable[[], float] = random.random) -> None:
        self._draw = draw
        self._step = limits.BACKOFF_FIRST

    def reset(self) -> None:
        self._step = limits.BACKOFF_FIRST

    def next(self, retry_after: Optional[float] = None) -> float:
        """Seconds to wait. What the console asks for in `Retry-After` is the least, with a little jitter on top."""
        ceiling, self._step = self._step, min(self._step * 2, limits.BACKOFF_MOST)
        if retry_after is not None:
            return retry_after + self._draw() * min(1.0, 0.1 + retry_after / 10)
        return ceiling / 2 + self._draw() * ceiling / 2


def parse_retry_after(text: Optional[str]) -> Optional[float]:
    """Seconds from a `Retry-After` header, which is a number or a date (RFC 9110 §10.2.3); at most 300, None when it is neither."""
    if not text:
        return None
    text = text.strip()
    if text.isascii() and text.isdigit():
        return min(float(text[:9]), limits.RETRY_AFTER_MOST)
    try:
        wait = parsedate_to_datetime(text).timestamp() - time()
    except (TypeError, ValueError, OverflowError):
        return None
    return min(max(0.0, wait), limits.RETRY_AFTER_MOST)
