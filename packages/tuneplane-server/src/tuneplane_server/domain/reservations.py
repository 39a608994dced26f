"""When the head of the line can start, and what may not be taken from it until then.

EASY backfilling (Lifka 1995; Mu'alem and Feitelson 2001): the head of the line is promised the first moment at which
enough will have ended, and whoever stands behind it may start only where that moment is not put back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

from tuneplane_server.domain.placement import (
    Assignment,
    Hold,
    Machine,
    NodeRoom,
    NoRoom,
    PoolRequest,
    fits,
    place,
    room_with,
    room_without,
)


@dataclass(frozen=True)
class Ending:
    """Holds that are free again at `at`; None: some day."""

    at: datetime | None
    holds: tuple[Hold, ...]


@dataclass
class Reservation:
    """`starts_at`: when its job can start, None when nobody knows. `then`: what is free at that moment (or, unknown, once
    enough of the older runs have ended); `spare`: what is free then beside what the job takes.
    """

    job_id: str
    pools: tuple[PoolRequest, ...]
    starts_at: datetime | None
    then: dict[str, NodeRoom]
    spare: dict[str, NodeRoom]

    @property
    def profiles(self) -> frozenset[str]:
        return frozenset(pool.profile for pool in self.pools)

    def survives(self, assignments: Sequence[Assignment]) -> bool:
        """Whether its job still starts at the promised moment when these are taken and not given back by then.

        With one pool it does whenever they come out of `spare`; with several the placement tries pool after pool, and less
        room can lead it astray.
        """
        if len(self.pools) == 1:
            return True
        return not isinstance(place(self.pools, _after(self.then, assignments).values()), NoRoom)

    def yield_(self, assignments: Sequence[Assignment]) -> None:
        """These are taken and not given back by then."""
        self.then, self.spare = _after(self.then, assignments), _after(self.spare, assignments)

    def spares(self, room: NodeRoom) -> NodeRoom:
        """What of a node's room may be taken for longer than until the promised moment."""
        spare = self.spare[room.name]
        return NodeRoom(
            room.name,
            {profile: _common(cards, spare.free_gpus[profile]) for profile, cards in room.free_gpus.items()},
            min(room.free_cpus, spare.free_cpus),
            min(room.free_memory_gb, spare.free_memory_gb),
        )


def reserve(
    job_id: str,
    pools: tuple[PoolRequest, ...],
    rooms: Mapping[str, NodeRoom],
    endings: Iterable[Ending],
    machines: Mapping[str, Machine],
) -> Reservation:
    """The first moment at which the pools fit. They must fit on the empty machines; `endings` are all that is held."""
    then = dict(rooms)
    near = _Near(pools, then)
    known = sorted((ending for ending in endings if ending.at is not None), key=_time)
    for at, ended in groupby(known, key=_time):
        near.release(ended, machines)
        if near.reached and not isinstance(placed := place(pools, then.values()), NoRoom):
            return Reservation(job_id, pools, at, then, _after(then, placed))
    for ending in (ending for ending in endings if ending.at is None):  # in the order given: the older ones first
        near.release([ending], machines)
        if near.reached and not isinstance(placed := place(pools, then.values()), NoRoom):
            return Reservation(job_id, pools, None, then, _after(then, placed))
    raise ValueError(f"{job_id} does not fit on the empty machines")


class _Near:
    """Releases holds in `rooms` and knows at each moment how many machines of each pool have room: to try a placement after
    each of many endings is needless work.
    """

    def __init__(self, pools: Sequence[PoolRequest], rooms: dict[str, NodeRoom]) -> None:
        self._rooms = rooms
        self._fitting = [(pool, {name for name, room in rooms.items() if fits(pool, room)}) for pool in pools]

    @property
    def reached(self) -> bool:
        return all(len(names) >= pool.nodes for pool, names in self._fitting)

    def release(self, endings: Iterable[Ending], machines: Mapping[str, Machine]) -> None:
        for hold in (hold for ending in endings for hold in ending.holds):
            if hold.node not in machines:
                continue
            room = self._rooms[hold.node] = room_with(self._rooms[hold.node], machines[hold.node], hold)
            for pool, names in self._fitting:
                if fits(pool, room):
                    names.add(hold.node)


def _common(cards: tuple[int, ...], others: tuple[int, ...]) -> tuple[int, ...]:
    return cards if cards == others else tuple(index for index in cards if index in others)


def _time(ending: Ending) -> datetime:
    assert ending.at is not None
    return ending.at


def _after(rooms: Mapping[str, NodeRoom], assignments: Sequence[Assignment]) -> dict[str, NodeRoom]:
    left = dict(rooms)
    for item in assignments:
        left[item.node] = room_without(left[item.node], item.gpus, item.cpus, item.memory_gb)
    return left
