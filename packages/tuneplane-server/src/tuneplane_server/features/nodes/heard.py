"""When nodes were heard of: kept here, and written now and then for the other consoles and the next start.

A thousand nodes announce themselves a hundred times a second together; a write for each would be all that the database does.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from datetime import datetime, timedelta

from tuneplane_node.wire import Announcement
from tuneplane_server.domain.nodes import ANNOUNCE_SECONDS, UNHEARD_AFTER
from tuneplane_server.features.nodes.node import NodeProblem

WRITE_EVERY = timedelta(seconds=ANNOUNCE_SECONDS)
MAX_STRANGERS = 100


@dataclass(frozen=True)
class Stranger:
    """A machine that announces itself under a name that another one has. `boot`: of a copy of a machine the node id is the same."""

    name: str
    node_id: str
    address: str
    heard_at: datetime
    problem: NodeProblem
    boot: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return self.node_id, self.boot


@dataclass(frozen=True)
class LastWord:
    """What a node told last. `announcement`: None when it only answered a call."""

    at: datetime
    announcement: Announcement | None
    clock_offset: float | None


class Heard:
    """Of this process. To be used on the event loop's thread."""

    def __init__(self) -> None:
        self._words: dict[str, LastWord] = {}
        self._unwritten: set[str] = set()
        self._written: datetime | None = None
        self._strangers: OrderedDict[tuple[str, str], Stranger] = OrderedDict()

    def note(self, name: str, now: datetime, announcement: Announcement | None = None) -> None:
        """`announcement` None: it answered a call, which is a sign of life as well; what it told before stays."""
        before = self._words.get(name)
        if announcement is None:
            told = (None, None) if before is None else (before.announcement, before.clock_offset)
            self._words[name] = LastWord(now, *told)
        else:
            time = announcement.hello.time
            self._words[name] = LastWord(now, announcement, time - now.timestamp() if time else None)
        self._unwritten.add(name)

    def word(self, name: str) -> LastWord | None:
        return self._words.get(name)

    def keep_only(self, names: set[str]) -> None:
        """Forget nodes that have no row any more."""
        for name in self._words.keys() - names:
            del self._words[name]
            self._unwritten.discard(name)

    def to_write(self, now: datetime) -> dict[str, datetime]:
        """What is to be written now, when it is time for it; it counts as written."""
        if self._written is not None and timedelta() <= now - self._written < WRITE_EVERY:  # a clock may be set back
            return {}
        self._written = now
        unwritten, self._unwritten = self._unwritten, set()
        return {name: self._words[name].at for name in sorted(unwritten)}

    def not_written(self, names: dict[str, datetime]) -> None:
        """The write failed: they are for the next one."""
        self._unwritten |= names.keys() & self._words.keys()

    # --- strangers ------------------------------------------------------------------------------------------------

    def note_stranger(self, stranger: Stranger) -> bool:
        """True when it is new. The ones heard of longest ago go when there are too many."""
        new = self._strangers.pop(stranger.key, None) is None
        self._strangers[stranger.key] = stranger
        while len(self._strangers) > MAX_STRANGERS:
            self._strangers.popitem(last=False)
        return new

    def forget_stranger(self, node_id: str, boot: str) -> None:
        self._strangers.pop((node_id, boot), None)

    def strangers(self, now: datetime) -> list[Stranger]:
        """Those that were heard of a moment ago."""
        return [item for item in self._strangers.values() if now - item.heard_at < UNHEARD_AFTER]
