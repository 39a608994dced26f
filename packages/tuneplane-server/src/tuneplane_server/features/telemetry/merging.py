"""Turns the loose points of long series into blocks of a fixed size with a rollup, so that a curve of a million points is
read from a few hundred rows, and a thin one from the rollups alone.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, takewhile
from typing import Any

from sqlalchemy import Connection

from tuneplane_server.domain import downsample, series_codec
from tuneplane_server.domain.series_codec import Columns
from tuneplane_server.features.telemetry.records import METRIC
from tuneplane_server.features.telemetry.repo import metrics as repo
from tuneplane_server.features.telemetry.repo import runs
from tuneplane_server.features.telemetry.repo.metrics import ChunkHead, Series
from tuneplane_server.features.telemetry.tables import BLOCK_POINTS

BLOCKS_AT_ONCE = 16  # in one transaction: some 25 ms


def due(connection: Connection, after: int, limit: int) -> dict[str, list[int]]:
    """Run -> series of it with an id beyond `after` that have a block's worth of loose points; at most `limit` in all."""
    found: defaultdict[str, list[int]] = defaultdict(list)
    for series_id, job_id in repo.series_to_merge(connection, after, limit):
        found[job_id].append(series_id)
    return found


def merge_run(connection: Connection, job_id: str, series_ids: Sequence[int]) -> int:
    """Make a block of each of these series of one run, where there is something to make one of (a hole in front of the points
    may still be filled); how many were made."""
    runs.lock(connection, job_id)
    stored: dict[tuple[int, int], int] = {}
    made = _Made()
    for series in repo.series_by_ids(connection, series_ids):
        place = (series.attempt, series.rank)
        if place not in stored:
            acks = runs.acks(connection, job_id, series.attempt, [series.rank])
            key = (series.rank, METRIC)
            stored[place] = acks[key].acked.contiguous if key in acks else 0
        _merge_series(connection, series, stored[place], made)
    made.save(connection)
    return len(made.blocks)


@dataclass
class _Made:
    """What a transaction changes: written together, because every statement is a round trip on Postgres."""

    series: list[Series] = field(default_factory=list)
    gone: list[tuple[int, int, int]] = field(default_factory=list)  # (series, position, part) of chunks
    blocks: list[dict[str, Any]] = field(default_factory=list)
    rest: list[dict[str, Any]] = field(default_factory=list)

    def save(self, connection: Connection) -> None:
        if self.series:
            repo.remove_chunks(connection, self.gone)
            repo.add_blocks(connection, self.blocks)
            repo.save_series(connection, self.series)
        if self.rest:
            repo.add_chunks(connection, self.rest)


def _merge_series(connection: Connection, series: Series, stored: int, made: _Made) -> None:
    """`stored`: the seq up to which everything has come."""
    assert series.id is not None
    heads = list(
        takewhile(lambda head: head.seq_last <= stored, repo.first_chunks(connection, series.id, BLOCK_POINTS))
    )
    ends = list(accumulate(head.count for head in heads))
    count = min(BLOCKS_AT_ONCE - len(made.blocks), ends[-1] // BLOCK_POINTS if ends else 0)
    if count <= 0:
        return
    # Only these are read whole: a series that merging has fallen behind with may have thousands more.
    taken = heads[: bisect_left(ends, count * BLOCK_POINTS) + 1]
    found = repo.chunk_data(connection, series.id, [head.position for head in taken])
    data = series_codec.joined([series_codec.decode(found[head.position, head.part], head.count) for head in taken])
    for start in range(0, count * BLOCK_POINTS, BLOCK_POINTS):
        first, last = bisect_right(ends, start), bisect_left(ends, start + BLOCK_POINTS)
        block = data.cut(start, start + BLOCK_POINTS)
        made.blocks.append(_block_row(series, heads[first : last + 1], block))
        series.blocks += 1
        series.loose -= BLOCK_POINTS
    made.gone += [(series.id, head.position, head.part) for head in taken]
    rest = data.cut(count * BLOCK_POINTS, len(data.step))
    if rest.step:  # what the last chunk has more stays a chunk under its own key
        made.rest.append(_rest_row(series.id, taken[-1], rest))
    made.series.append(series)


def _rest_row(series_id: int, last: ChunkHead, rest: Columns) -> dict[str, Any]:
    found = series_codec.summary(rest)
    row: dict[str, Any] = {
        "series_id": series_id,
        "position": last.position,
        "part": last.part,
        "seq_first": last.seq_first,
        "seq_last": last.seq_last,
        "count": found.count,
        "data": series_codec.encode(rest),
    }
    return row | _summary_columns(found)


def _block_row(series: Series, taken: list[ChunkHead], block: Columns) -> dict[str, Any]:
    places = downsample.choose(block.value, downsample.ROLLUP_WIDTH)
    positions = [chunk.position for chunk in taken]
    return {
        "series_id": series.id,
        "block": series.blocks,
        "position_first": min(positions),
        "position_last": max(positions),
        "data": series_codec.encode(block),
        "rollup_count": len(places),
        "rollup_places": encode_places(places),
        "rollup": series_codec.encode(block.take(places)),
    } | _summary_columns(series_codec.summary(block))


def _summary_columns(found: series_codec.Summary) -> dict[str, Any]:
    return {
        "step_min": found.step_min,
        "step_max": found.step_max,
        "min_value": found.value_min,
        "max_value": found.value_max,
    }


def encode_places(places: list[int]) -> bytes:
    """Places within a block as uint16, little-endian."""
    return b"".join(place.to_bytes(2, "little") for place in places)


def decode_places(data: bytes) -> array[int]:
    """What `encode_places` wrote. A long curve has thousands of these: they are not read place by place."""
    places = array("H", data)
    if sys.byteorder != "little":
        places.byteswap()
    return places
