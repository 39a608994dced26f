"""Tables on their way into a file: some rows at a time, in columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

type Kind = Literal["whole", "number", "text"]


class Column(NamedTuple):
    """`optional`: values may be None."""

    name: str
    kind: Kind
    optional: bool = False


class Part(NamedTuple):
    """Some rows: a sequence for each column of the table, all of one length."""

    values: Sequence[Sequence[Any]]
    rows: int


METRICS = (
    Column("attempt", "whole"),
    Column("rank", "whole"),
    Column("name", "text"),
    Column("step", "whole"),
    Column("time", "number"),
    Column("epoch", "number", optional=True),
    Column("value", "number"),
)
SAMPLES = (
    Column("id", "whole"),
    Column("attempt", "whole"),
    Column("rank", "whole"),
    Column("step", "whole"),
    Column("time", "number"),
    Column("kind", "text"),
    Column("reward", "number", optional=True),
    Column("prompt", "text", optional=True),
    Column("completion", "text", optional=True),
    Column("chosen", "text", optional=True),
    Column("rejected", "text", optional=True),
    Column("data", "text"),
)
