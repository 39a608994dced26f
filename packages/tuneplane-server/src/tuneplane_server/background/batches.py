"""Many machines as a few pieces of work: which belong together, and which of them rest alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta

from tuneplane_server.background.leases import BACKOFF_FIRST, BACKOFF_MOST


def batches(names: Sequence[str], size: int, lane: str = "batch") -> Iterator[tuple[str, Sequence[str]]]:
    """(row id of a lease, names): `size` neighbours of `names` each. Consoles that know the same names make the same batches; while
    they differ, a machine may be in two of them for a moment."""
    for number, start in enumerate(range(0, len(names), size)):
        yield f"{lane}-{number:04d}", names[start : start + size]


class Rests:
    """Who did not answer is left alone for a while, longer each time. Of this process."""

    def __init__(self, first: timedelta = BACKOFF_FIRST, most: timedelta = BACKOFF_MOST) -> None:
        self._first, self._most = first, most
        self._until: dict[str, tuple[datetime, int]] = {}

    def rests(self, name: str, now: datetime) -> bool:
        """A clock that was set back lets nobody rest longer than the longest rest."""
        until = self._until.get(name)
        return until is not None and now < until[0] <= now + self._most

    def let_rest(self, name: str, now: datetime) -> None:
        times = 0 if (before := self._until.get(name)) is None else before[1]
        self._until[name] = (now + min(self._most, self._first * 2 ** min(times, 10)), times + 1)

    def wake(self, name: str) -> None:
        self._until.pop(name, None)

    def keep_only(self, names: Collection[str]) -> None:
        known = set(names)
        self._until = {name: rest for name, rest in self._until.items() if name in known}
