"""What was cleaned up on this machine, so that a launch that was on its way meanwhile is told that it comes too late.

No clock says what was before what: a console's is another one's, and either may be set. Whoever launches first takes a ticket from the
node (`NodeHello.ticket`): how many cleanups it has heard of so far. A launch whose ticket is older than the cleanup of its own attempt
was begun before it. The count is on the disk before a cleanup is answered, so that a daemon that was started anew knows it too.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from pathlib import Path
from typing import Any

from tuneplane_node.engine.supervisor.records import read_record, write_record

KEPT = 1000  # cleanups; a launch with an older ticket than all of them is late whatever it is about
_LOG = logging.getLogger("tuneplane_node")


class Removals:
    """`record`: the file, on a local disk. Without one that can be read all tickets given before are void: of them nothing is known."""

    def __init__(self, record: Path) -> None:
        self._record = record
        self._lock = asyncio.Lock()
        self._epoch, self._count, self._removed = _read(record)

    def ticket(self) -> str:
        """For a launch that begins now."""
        return f"{self._epoch}-{self._count}"

    async def note(self, *keys: str) -> None:
        """These are being cleaned up: from now on earlier launches of them are late. A disk that cannot be written to must not keep
        what may be filling it, so it is remembered in memory then."""
        async with self._lock:
            self._count += 1
            for key in keys:
                self._removed.pop(key, None)
                self._removed[key] = self._count
            while len(self._removed) > KEPT:
                del self._removed[next(iter(self._removed))]
            value: dict[str, Any] = {"epoch": self._epoch, "count": self._count, "removed": dict(self._removed)}
            try:
                await asyncio.to_thread(_write, self._record, value)
            except OSError as problem:
                _LOG.warning("cleanups are remembered in memory only: %s", problem)

    def is_late(self, ticket: str, *keys: str) -> bool:
        """Without a ticket, as an older console comes, nothing is known of when it began."""
        if not ticket:
            return False
        epoch, _dash, text = ticket.rpartition("-")
        if epoch != self._epoch or not text.isascii() or not text.isdecimal():
            return True  # of a state that was lost since: whoever launches asks again
        begun = int(text[:20])
        oldest = next(iter(self._removed.values()), 0) if len(self._removed) >= KEPT else 0
        return begun < max([oldest, *(self._removed.get(key, 0) for key in keys)])


def attempt_key(job: str, attempt: str) -> str:
    """No name of a container has a slash in it."""
    return f"{job}/{attempt}"


def _read(record: Path) -> tuple[str, int, dict[str, int]]:
    try:
        value = read_record(record)
        if value is not None:
            removed = {str(key): int(count) for key, count in value["removed"].items()}
            return str(value["epoch"]), int(value["count"]), dict(sorted(removed.items(), key=lambda item: item[1]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as problem:
        _LOG.warning("what was cleaned up before cannot be read: %s", problem)
    return secrets.token_hex(4), 0, {}


def _write(record: Path, value: dict[str, Any]) -> None:
    record.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_record(record, value)
