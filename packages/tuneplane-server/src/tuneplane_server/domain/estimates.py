"""When jobs behind the head of a line start at the latest, where that can be proved.

The head is promised its moment by its reservation. Of who stands behind it nothing is promised: others may overtake it as long
as they do not put back the head (EASY backfilling). One thing is certain all the same: when the last of those before it has
started, it is the head itself, and what that last one took is free again when its longest run is over. So a job that needs no
more than each of those before it starts at the latest at the latest of their ends; as long as nothing more urgent comes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime

from tuneplane_server.domain.placement import PoolRequest

# (start, longest run in seconds) -> when everything is given back at the latest; None when unknown.
type EndOf = Callable[[datetime, int | None], datetime | None]


class Chain:
    """The jobs of one line in their order, the head first."""

    def __init__(self, end_of: EndOf) -> None:
        self._end_of = end_of
        self._before: set[PoolRequest] = set()
        self._until: datetime | None = None
        self._broken = False

    def latest_start(self, pools: Sequence[PoolRequest]) -> datetime | None:
        """Of a job behind all that were added; None when nobody can know."""
        if self._broken or len(pools) != 1 or not all(_contains(one, pools[0]) for one in self._before):
            return None
        return self._until

    def add(self, pools: Sequence[PoolRequest], starts_at: datetime | None, max_seconds: int | None) -> None:
        """A job at the end of the line that starts at `starts_at` at the latest. Of whom stands behind an unknown, nothing is known."""
        end = None if starts_at is None else self._end_of(starts_at, max_seconds)
        if end is None or len(pools) != 1:
            self._broken = True
            return
        self._before.add(pools[0])
        self._until = end if self._until is None else max(self._until, end)


def _contains(room: PoolRequest, pool: PoolRequest) -> bool:
    """Whether who has what `room` asks for has what `pool` asks for."""
    return (
        room.profile == pool.profile
        and room.nodes >= pool.nodes
        and room.gpus_per_node >= pool.gpus_per_node
        and room.cpus >= pool.cpus
        and room.memory_gb >= pool.memory_gb
    )
