"""Time and randomness as one argument, so that tests can hold both still."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from tuneplane_server.domain.ids import RANDOM_BYTES, make_id


def _utc_now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True)
class Clock:
    now: Callable[[], datetime] = _utc_now  # aware, UTC
    random_bytes: Callable[[int], bytes] = secrets.token_bytes

    def new_id(self) -> str:
        """A fresh time-sorted id of 16 characters."""
        return make_id(int(self.now().timestamp() * 1000), self.random_bytes(RANDOM_BYTES))


SYSTEM_CLOCK = Clock()
