"""Canonical metric names (surface §5): the recipe's aliases, else known prefixes, else `raw/`."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional

from tuneplane.contract.words import MAX_METRIC_NAME, MAX_METRIC_NAMES

KNOWN_PREFIXES = ("train/", "validation/", "system/", "raw/")


class MetricNames:
    """`refused`: names that are too long, unprintable, or beyond the 5,000 that a run may have."""

    def __init__(self, aliases: Mapping[str, str]) -> None:
        self._aliases = {name: shown for name, shown in aliases.items() if not name.endswith("*")}
        # `rewards/*: train/rewards/*`: the rest of the name is kept; the longest beginning wins.
        self._patterns = sorted(
            ((name[:-1], shown) for name, shown in aliases.items() if name.endswith("*")),
            key=lambda pattern: -len(pattern[0]),
        )
        self._known: Dict[str, str] = {}
        self.refused = 0
        self._refused_names: Dict[str, None] = {}

    def canonical(self, name: Any) -> Optional[str]:
        """The name under which the console shows it; None when it is refused."""
        if not isinstance(name, str):
            return None
        found = self._known.get(name)
        if found is not None:
            return found
        wanted = self._wanted(name)
        if (
            not name
            or len(wanted) > MAX_METRIC_NAME
            or not wanted.isprintable()
            or len(self._known) >= MAX_METRIC_NAMES
        ):
            self._refuse(name)
            return None
        self._known[name] = wanted
        return wanted

    def _wanted(self, name: str) -> str:
        exact = self._aliases.get(name)
        if exact is not None:
            return exact
        for beginning, shown in self._patterns:
            if name.startswith(beginning):
                return shown.replace("*", name[len(beginning) :], 1)
        return name if name.startswith(KNOWN_PREFIXES) else f"raw/{name}"

    def _refuse(self, name: str) -> None:
        """Counts each name once; a bounded memory of them."""
        if name not in self._refused_names:
            self.refused += 1
            if len(self._refused_names) < 2 * MAX_METRIC_NAMES:
                self._refused_names[name] = None
