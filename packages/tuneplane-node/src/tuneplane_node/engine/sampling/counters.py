"""Counters that only grow -> rates a second between two looks."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

type Counts = Mapping[str, float]


class Rates:
    """Remembers the last counts of each key. A counter that fell back (a process of the group is gone, a disk was changed)
    gives no rate this time: neither a negative one nor an invented one."""

    def __init__(self) -> None:
        self._before: dict[Hashable, tuple[float, dict[str, float]]] = {}

    def since(self, key: Hashable, now: float, counts: Counts) -> dict[str, float]:
        """`now`: seconds on a clock that never steps. Empty the first time."""
        before = self._before.get(key)
        self._before[key] = (now, dict(counts))
        if before is None or now <= before[0]:
            return {}
        seconds = now - before[0]
        return {
            name: (count - before[1][name]) / seconds
            for name, count in counts.items()
            if name in before[1] and count >= before[1][name]
        }

    def keep_only(self, keys: Iterable[Hashable]) -> None:
        """Forget whatever is not looked at any more."""
        wanted = set(keys)
        self._before = {key: counts for key, counts in self._before.items() if key in wanted}
