"""Turns the loose points of long series into blocks of a fixed size with a rollup, so that a curve of a million points is
read from a few hundred rows, and a thin one from the rollups alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from tuneplane_server.domain import downsample, series_codec
from tuneplane_server.domain.series_codec import Columns
from tuneplane_server.features.telemetry.records import METRIC
from tuneplane_server.features.telemetry.repo import metrics as repo
from tuneplane_server.features.telemetry.repo import runs
from tuneplane_server.features.telemetry.repo.metrics import Chunk, Series
from tuneplane_server.features.telemetry.tables import BLOCK_POINTS


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
    made = 0
    for series_id in series_ids:
        series = repo.series_by_id(connection, series_id)
        if series is None:
            continue
        place = (series.attempt, series.rank)
        if place not in stored:
            acks = runs.acks(connection, job_id, series.attempt, [series.rank])
            key = (series.rank, METRIC)
            stored[place] = acks[key].acked.contiguous if key in acks else 0
        made += _merge_series(connection, series, stored[place])
    return made


def _merge_series(connection: Connection, series: Series, stored: int) -> bool:
    """`stored`: the seq up to which everything has come."""
    assert series.id is not None
    taken: list[Chunk] = []
    points = 0
    for chunk in repo.first_chunks(connection, series.id, BLOCK_POINTS):
        if points >= BLOCK_POINTS or chunk.seq_last > stored:
            break
        taken.append(chunk)
        points += chunk.count
    if points < BLOCK_POINTS:
        return False
    data = series_codec.joined([series_codec.decode(chunk.data, chunk.count) for chunk in taken])
    _replace(connection, series, taken, data)
    return True


def _replace(connection: Connection, series: Series, taken: list[Chunk], data: Columns) -> None:
    """The chunks by a block; what the last chunk has more stays a chunk under its own key."""
    assert series.id is not None
    block, rest = data.cut(0, BLOCK_POINTS), data.cut(BLOCK_POINTS, len(data.step))
    repo.remove_chunks(connection, series.id, [(chunk.position, chunk.part) for chunk in taken])
    repo.add_block(connection, _block_row(series, taken, block))
    if rest.step:
        last = taken[-1]
        found = series_codec.summary(rest)
        row: dict[str, Any] = {
            "series_id": series.id,
            "position": last.position,
            "part": last.part,
            "seq_first": last.seq_first,
            "seq_last": last.seq_last,
            "count": found.count,
            "data": series_codec.encode(rest),
        }
        repo.add_chunks(connection, [row | _summary_columns(found)])
    series.blocks += 1
    series.loose -= BLOCK_POINTS
    repo.save_series(connection, [series])


def _block_row(series: Series, taken: list[Chunk], block: Columns) -> dict[str, Any]:
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


def decode_places(data: bytes) -> list[int]:
    return [int.from_bytes(data[index : index + 2], "little") for index in range(0, len(data), 2)]
