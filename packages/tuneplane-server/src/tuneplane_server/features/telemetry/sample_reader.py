"""Pages of samples: by kind, step, rank and reward from the table, by text from what they say.

A search reads the samples that fit the rest one after the other, for a few seconds at most: a page may be empty and still
name the place to go on from.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, Literal

import msgspec
from compression import zstd

from tuneplane_server.db.engine import Database
from tuneplane_server.features.telemetry.repo import samples as repo
from tuneplane_server.features.telemetry.repo.samples import Place, SampleFilter
from tuneplane_server.features.telemetry.tables import SampleRow

MAX_SAMPLE_JSON = 4 * 1024 * 1024
ROWS_AT_ONCE = 100
SEARCH_SECONDS = 5.0

type Order = Literal["oldest", "newest", "highest", "lowest"]


@dataclass(frozen=True)
class SampleItem:
    """`time`: Unix seconds. `reward`: of `domain.sample_rewards`. `data`: a JSON object."""

    id: int
    attempt: int
    rank: int
    step: int
    time: float
    kind: str
    reward: float | None
    data: dict[str, Any]


@dataclass(frozen=True)
class SamplePage:
    """`place`: where the next page begins; None when there is none."""

    items: list[SampleItem]
    place: Place | None


class SampleReader:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(
        self,
        job_id: str,
        wanted: SampleFilter,
        *,
        order: Order = "oldest",
        after: Place | None = None,
        limit: int = 50,
        text: str = "",
    ) -> SamplePage:
        """The samples behind `after` in that order; `text`: what one of its texts holds, whatever the case. By reward come only
        those that have one."""
        needle, deadline = text.casefold(), monotonic() + SEARCH_SECONDS
        found: list[SampleItem] = []
        place = after
        while True:
            size = limit + 1 - len(found) if not needle else ROWS_AT_ONCE
            async with self._database.session() as session:
                rows = await repo.page(session, job_id, wanted, order, place, size)
            items = await asyncio.to_thread(lambda some=rows: list(_matching(some, needle)))
            for item in items:
                if len(found) == limit:
                    return SamplePage(found, _place(found[-1]))
                found.append(item)
            if len(rows) < size:
                return SamplePage(found, None)
            place = Place(rows[-1].n, rows[-1].reward)
            if not needle or monotonic() > deadline:
                return SamplePage(found, place)

    async def every(self, job_id: str, wanted: SampleFilter, text: str = "") -> AsyncIterator[list[SampleItem]]:
        """All that fit, oldest first, some at a time; no session is open in between."""
        needle = text.casefold()
        place: Place | None = None
        while True:
            async with self._database.session() as session:
                rows = await repo.page(session, job_id, wanted, "oldest", place, ROWS_AT_ONCE)
            if rows:
                yield await asyncio.to_thread(lambda some=rows: list(_matching(some, needle)))
                place = Place(rows[-1].n, rows[-1].reward)
            if len(rows) < ROWS_AT_ONCE:
                return


def _matching(rows: Sequence[SampleRow], needle: str) -> Iterator[SampleItem]:
    # What has to be escaped in JSON, or folds to other letters, is not looked for in its bytes.
    plain = needle.encode() if needle.isascii() and needle.isprintable() and not set(needle) & set('"\\/') else b""
    for row in rows:
        raw = zstd.ZstdDecompressor().decompress(row.data, max_length=MAX_SAMPLE_JSON)
        if plain and raw.isascii() and b"\\u" not in raw and plain not in raw.lower():
            continue
        data = msgspec.json.decode(raw)
        if not needle or any(needle in one.casefold() for one in _texts(data)):
            yield SampleItem(row.n, row.attempt, row.rank, row.step, row.time, row.kind, row.reward, data)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def _place(item: SampleItem) -> Place:
    return Place(item.id, item.reward)
