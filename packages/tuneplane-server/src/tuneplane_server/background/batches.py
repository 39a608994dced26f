"""Many rows as few pieces of work: which belong together, whose turn it is, and which of them rest alone."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime, timedelta

from tuneplane_server.background.leases import BACKOFF_FIRST, BACKOFF_MOST

SPREAD = 0.8  # of an interval


def batches(names: Sequence[str], size: int, lane: str = "batch") -> Iterator[tuple[str, Sequence[str]]]:
    """(row id of a lease, names): `size` neighbours of `names` each. Consoles that know the same names make the same batches; while
    they differ, a machine may be in two of them for a moment."""
    for number, start in enumerate(range(0, len(names), size)):
        yield f"{lane}-{number:04d}", names[start : start + size]


def begin_after(place: int, of: int, interval: float) -> float:
    """Seconds after a look that the piece of work at this place begins, of as many as one look has time for: what is in no hurry is
    spread over most of the interval, so that it is no burst that everybody else waits for."""
    return place * SPREAD * interval / of


class Turns:
    """Who comes later, of those that all want to come now and are more than `most`: each has its turn before anybody has a second."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._last: dict[str, int] = {}  # the number of the turn that each had last
        self._count = 0

    def later(self, names: Sequence[str]) -> set[str]:
        self._last = {name: self._last.get(name, 0) for name in names}
        waiting = sorted(names, key=self._last.__getitem__)
        for name in waiting[: self._most]:
            self._count += 1
            self._last[name] = self._count
        return set(waiting[self._most :])


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
