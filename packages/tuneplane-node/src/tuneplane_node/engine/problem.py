"""The shape of a row of the table of problems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["info", "warning", "error"]
Blame = Literal["user", "infra", "platform"]


@dataclass(frozen=True)
class Problem:
    """`retry`: whether the same launch may succeed later without anyone changing anything."""

    blame: Blame
    text: str
    hint: str
    retry: bool = False
    level: Level = "error"
