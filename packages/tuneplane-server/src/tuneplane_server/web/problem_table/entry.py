"""One line of the table of problems."""

from __future__ import annotations

from typing import NamedTuple


class ProblemEntry(NamedTuple):
    """`meaning` and `advice`: English sentences without a capital and a full stop, translated when they are shown."""

    code: str
    meaning: str
    advice: str


class ProblemGroup(NamedTuple):
    """`title` is translated like the entries; `name` is the group's anchor."""

    name: str
    title: str
    entries: tuple[ProblemEntry, ...]
