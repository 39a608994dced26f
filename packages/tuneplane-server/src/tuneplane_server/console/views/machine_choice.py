"""Which machines the queue page draws where there are more than it can: those with room and those that jobs wait for come first."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tuneplane_server.domain.line import WaitKind
from tuneplane_server.domain.placement import NodeRoom
from tuneplane_server.executors.port import NodeInfo
from tuneplane_server.features.queue.service import PlanOf

SHOWN = 100  # machines of a page
LONGEST = 253  # of a machine's name
MOST_PAGES = 1000
_WAITS_FOR_ROOM = (WaitKind.CARDS, WaitKind.CPUS, WaitKind.TURN)


@dataclass(frozen=True)
class Choice:
    """`names`: to draw, in this order. `matching`: machines whose name has the text, `total`: all. `page`: from 1, the one that is
    there of the one asked for."""

    names: Sequence[str]
    text: str
    page: int
    matching: int
    total: int

    @property
    def more(self) -> bool:
        return self.page * SHOWN < self.matching

    @property
    def many(self) -> bool:
        """Whether they are too many to draw them all."""
        return self.total > SHOWN


def choose(made: PlanOf, text: str, page: int) -> Choice:
    """`text`: part of a name, of either case; empty for every machine."""
    ordered: Sequence[str] = made.once("machines", lambda: _ordered(made))
    text = text.strip()
    wanted = text.casefold()
    found = [name for name in ordered if wanted in name.casefold()]
    page = max(1, min(page, (len(found) + SHOWN - 1) // SHOWN))
    return Choice(found[(page - 1) * SHOWN : page * SHOWN], text, page, len(found), len(ordered))


def _ordered(made: PlanOf) -> list[str]:
    """Few machines stay where they are: one that is sought by eye should not move because a run began on it."""
    if len(made.nodes) <= SHOWN:
        return [node.name for node in made.nodes]
    wanted = {
        pool.profile
        for wait in made.plan.waits.values()
        if wait.kind in _WAITS_FOR_ROOM
        for pool in made.waiting[wait.job_id].pools
    }
    return [
        node.name for node in sorted(made.nodes, key=lambda node: (_rank(node, made.plan.rooms, wanted), node.name))
    ]


def _rank(node: NodeInfo, rooms: Mapping[str, NodeRoom], wanted: Collection[str]) -> int:
    """Room that somebody waits for, other room, no room that somebody waits for, neither; last what gets no work now."""
    room = rooms.get(node.name)
    if room is None or not node.placeable:
        return 4
    awaited = any(profile in wanted for profile in room.free_gpus)
    if node.gpus_used is not None:  # the executor counts them itself
        free = len(node.gpus) > node.gpus_used
    else:
        free = any(room.free_gpus.values()) if node.gpus else room.free_cpus >= 1
    return (0 if awaited else 1) if free else (2 if awaited else 3)
