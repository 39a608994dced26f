"""The life of a node in rules: when it counts as heard of, and how it is."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

ANNOUNCE_SECONDS = 10  # how often a node is asked to say that it is there
UNHEARD_AFTER = timedelta(
    seconds=4 * ANNOUNCE_SECONDS + 5
)  # three announcements may be lost, and each console writes a little late
# A machine that was started again has been silent since: while its node id is heard of under the old start, another start is another
# machine, made from a copy of its disk.
STARTED_AGAIN_AFTER = timedelta(seconds=2 * ANNOUNCE_SECONDS + 5)
PROVE_EVERY = timedelta(minutes=10)


class NodeState(StrEnum):
    """What administrators want of a node. A removed one is told so for as long as it announces itself."""

    READY = "ready"
    CORDONED = "cordoned"
    DRAINING = "draining"
    REMOVED = "removed"


class NodeHealth(StrEnum):
    """`refused`: it is heard of and cannot be used as it is. `lost`: not heard of for so long that its attempts were given up,
    or would be.
    """

    READY = "ready"
    UNPROVED = "unproved"
    UNREACHABLE = "unreachable"
    LOST = "lost"
    REFUSED = "refused"


@dataclass(frozen=True)
class NodeFacts:
    """What health is decided by. `proved`: the storage root, for the daemon's present start. `callable`: the console's last call
    reached it. `lost_after`: None, it is never given up.
    """

    last_heard: datetime
    refused: bool
    callable: bool
    proved: bool
    fenced: bool
    lost_after: timedelta | None


def health_of(facts: NodeFacts, now: datetime) -> NodeHealth:
    silence = now - facts.last_heard
    if silence >= UNHEARD_AFTER:
        given_up = facts.fenced or (facts.lost_after is not None and silence >= facts.lost_after)
        return NodeHealth.LOST if given_up else NodeHealth.UNREACHABLE
    if not facts.callable:  # what it was refused for is of another day, perhaps: nobody can look again
        return NodeHealth.UNREACHABLE
    if facts.refused:
        return NodeHealth.REFUSED
    return NodeHealth.READY if facts.proved else NodeHealth.UNPROVED
