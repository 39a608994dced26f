"""Whether the consoles that share a database may do background work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tuneplane_server.domain.findings import REPLICAS_ON_ONE_MACHINE, REPLICAS_WITHOUT_REDIS


@dataclass(frozen=True)
class Replica:
    """One live console. `one_console`: its executor can be asked about a run only by the console that started it."""

    id: str
    redis: bool
    one_console: bool


def obstacle(replicas: Sequence[Replica]) -> str | None:
    """The code of what forbids background roles on all of them; None when they may run."""
    if len(replicas) < 2:
        return None
    if not all(replica.redis for replica in replicas):
        return REPLICAS_WITHOUT_REDIS
    if any(replica.one_console for replica in replicas):
        return REPLICAS_ON_ONE_MACHINE
    return None
