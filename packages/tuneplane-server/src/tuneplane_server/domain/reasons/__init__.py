"""The table of reasons: why an attempt ended as it did, and what to do about it. One table, nothing else decides.

Each module beside this one holds the entries of one subject. The order counts: when one line of a log fits two entries that
say as much about the cause, the earlier entry is taken. `docs/<language>/reference/reasons.md` is made from this table
(`scripts/reason_pages.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tuneplane_server.domain.reasons import (
    crashes,
    data,
    endings,
    experiment,
    gpus,
    images,
    machines,
    models,
    nodes,
    ranks,
    slurm,
)
from tuneplane_server.domain.reasons.entry import ReasonClass, ReasonEntry, Sign, Signal, Weight

__all__ = ["REASONS", "ReasonClass", "ReasonEntry", "Sign", "Signal", "Weight", "fill"]

_ENTRIES: tuple[ReasonEntry, ...] = (
    *machines.ENTRIES,
    *gpus.ENTRIES,
    *models.ENTRIES,
    *data.ENTRIES,
    *experiment.ENTRIES,
    *ranks.ENTRIES,
    *crashes.ENTRIES,
    *images.ENTRIES,
    *nodes.ENTRIES,
    *slurm.ENTRIES,
    *endings.ENTRIES,
)
REASONS: dict[str, ReasonEntry] = {entry.code: entry for entry in _ENTRIES}


def fill(text: str, data: Mapping[str, Any]) -> str:
    """A (translated) text with its `{…}` filled; what is unknown shows as `?`, so that no reason fails to show."""
    return text.format_map(_Known(data))


class _Known(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "?"
