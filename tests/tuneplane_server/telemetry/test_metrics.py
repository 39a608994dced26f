"""Metrics: what is stored comes back bit for bit, curves keep their extremes, limits refuse with a count."""

from __future__ import annotations

import math
import random

import pytest
from sqlalchemy import func, select

from tests.tuneplane_server.telemetry.build import JOB, START, metric, metrics
from tuneplane_server.domain import series_codec
from tuneplane_server.features.telemetry.limits import TelemetryLimits
from tuneplane_server.features.telemetry.records import MetricRecord
from tuneplane_server.features.telemetry.service import TelemetryService
from tuneplane_server.features.telemetry.tables import BLOCK_POINTS, MetricBlockRow, MetricChunkRow
from tuneplane_server.wakeups import Wakeups


async def curve(telemetry, name="a", *, max_points=10_000, attempt=None, rank=0):
    found = await telemetry.curves.curves(JOB, [name], max_points=max_points, attempt=attempt, rank=rank)
    return found[name]


async def test_nan_and_infinities_come_back_and_the_summary_tells_them(telemetry):
    await telemetry.store(JOB, 1, metrics(metric(1, {"a": [1.0, math.inf, -2.5, -math.inf, math.nan]})))
    assert (await curve(telemetry))[0]["value"] == [1.0, "Infinity", -2.5, "-Infinity", "NaN"]
    found = (await telemetry.curves.metrics(JOB, 0))["a"]
    assert found == {
        "latest": {"step": 5, "value": "NaN", "time": START + 5},
        "min": "-Infinity",
        "max": "Infinity",
        "count": 5,
        "attempts": [1],
    }
    await telemetry.store(JOB, 1, metrics(metric(2, {"a": [3.0], "b": [math.nan]}, first_step=6)))
    assert (await telemetry.curves.metrics(JOB, 0))["a"]["latest"]["value"] == 3.0
    only_nan = (await telemetry.curves.metrics(JOB, 0))["b"]
    assert (only_nan["min"], only_nan["max"], only_nan["latest"]["value"]) == (None, None, "NaN")
    assert (await telemetry.latest_of([JOB, "0000000000000009"]))[JOB]["b"]["value"] == "NaN"
    assert (await telemetry.curves.latest("0000000000000009")) == {}


async def test_extremes_of_doubles_and_steps_survive(telemetry):
    values = [5e-324, -0.0, 1.7976931348623157e308, 0.1 + 0.2]
    steps = [-(2**63), -1, 0, 2**63 - 1]
    await telemetry.store(JOB, 1, metrics(MetricRecord(0, 1, {"a": series_codec.columns(steps, [0.0] * 4, values)})))
    found = (await curve(telemetry))[0]
    assert found["step"] == steps
    assert [math.copysign(1, value) * value for value in found["value"]] == [abs(value) for value in values]


async def test_attempts_stay_apart_and_say_where_the_next_takes_over(telemetry):
    await telemetry.store(JOB, 1, metrics(metric(1, {"a": [1.0, 2.0, 3.0, 4.0]})))
    await telemetry.store(JOB, 2, metrics(metric(1, {"a": [30.0, 40.0]}, first_step=3)))
    first, second = await curve(telemetry)
    assert (first["attempt"], first["step"], first["replaced_from"]) == (1, [1, 2, 3, 4], 3)
    assert (second["attempt"], second["step"], second["replaced_from"]) == (2, [3, 4], None)
    assert [one["attempt"] for one in await curve(telemetry, attempt=2)] == [2]
    found = (await telemetry.curves.metrics(JOB, 0))["a"]
    assert (found["latest"]["value"], found["min"], found["count"], found["attempts"]) == (40.0, 1.0, 6, [1, 2])


async def test_other_ranks_have_series_of_their_own(telemetry):
    await telemetry.store(JOB, 1, metrics(metric(1, {"a": [1.0]}), metric(1, {"a": [9.0], "b": [2.0]}, rank=3)))
    assert list(await telemetry.curves.metrics(JOB, 0)) == ["a"]
    assert list(await telemetry.curves.metrics(JOB, 3)) == ["a", "b"]
    assert (await curve(telemetry, rank=3))[0]["value"] == [9.0]
    assert await telemetry.curves.curves(JOB, ["b"], max_points=10, attempt=None, rank=0) == {}


async def test_epochs_travel_with_their_points(telemetry):
    columns = series_codec.columns([1, 2], [0.0, 0.0], [1.0, 2.0], [0.5, 1.0])
    await telemetry.store(JOB, 1, metrics(MetricRecord(0, 1, {"a": columns})))
    assert (await curve(telemetry))[0]["epoch"] == [0.5, 1.0]


async def test_one_chunk_per_series_and_batch_and_none_for_an_empty_record(telemetry, database):
    batch = metrics(*(metric(seq, {"a": [1.0] * 5, "b": [2.0], "c": []}) for seq in range(1, 8)))
    await telemetry.store(JOB, 1, batch)
    async with database.session() as session:
        assert (await session.scalar(select(func.count()).select_from(MetricChunkRow))) == 2
    assert sorted(await telemetry.curves.metrics(JOB, 0)) == ["a", "b"]


async def test_late_points_stand_where_their_seq_says(telemetry):
    for seq in (1, 4, 2, 5, 3):
        await telemetry.store(JOB, 1, metrics(metric(seq, {"a": [float(seq)]})))
    assert (await curve(telemetry))[0]["value"] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert (await telemetry.curves.metrics(JOB, 0))["a"]["latest"]["value"] == 5.0


@pytest.mark.parametrize("seed", [1, 2])
async def test_merged_blocks_change_no_answer(telemetry, database, seed):
    dice = random.Random(seed)
    seq, values = 0, []
    while len(values) < 5 * BLOCK_POINTS + 100:
        records = []
        for _record in range(dice.randint(1, 3)):
            seq += 1
            part = [
                dice.choice([math.nan, math.inf]) if dice.random() < 0.001 else dice.gauss(0, 1)
                for _ in range(dice.randint(1, 900))
            ]
            records.append(metric(seq, {"a": part}, first_step=len(values)))
            values += part
        await telemetry.store(JOB, 1, metrics(*records))
    if telemetry._merging is not None:
        await telemetry._merging
    async with database.session() as session:
        blocks = await session.scalar(select(func.count()).select_from(MetricBlockRow))
    assert blocks == 5
    assert await telemetry.merge_due() == 0
    whole = (await curve(telemetry, max_points=len(values)))[0] if len(values) <= 10_000 else None
    assert whole is None
    expected = series_codec.columns(list(range(len(values))), [0.0] * len(values), values)
    from tuneplane_server.domain import downsample

    for max_points in (100, 500, 3000, 10_000):
        found = (await curve(telemetry, max_points=max_points))[0]
        width = downsample.bucket_width(len(values), max_points, has_nan=True)
        wanted = expected.take(downsample.choose(expected.value, width))
        assert found["step"] == wanted.step.tolist()
        assert found["value"] == series_codec.json_numbers(wanted.value)
        assert found["count"] == len(values)
        assert len(found["step"]) <= max_points


async def test_points_behind_a_hole_are_not_merged_until_it_is_filled(telemetry, database):
    await telemetry.store(JOB, 1, metrics(metric(1, {"a": [0.0]})))
    await telemetry.store(JOB, 1, metrics(metric(3, {"a": [3.0] * BLOCK_POINTS})))
    assert await telemetry.merge_due() == 0
    await telemetry.store(JOB, 1, metrics(metric(2, {"a": [2.0]})))
    if telemetry._merging is not None:
        await telemetry._merging
    await telemetry.merge_due()
    found = (await curve(telemetry))[0]
    assert found["value"] == [0.0, 2.0] + [3.0] * BLOCK_POINTS
    async with database.session() as session:
        assert (await session.scalar(select(func.count()).select_from(MetricBlockRow))) == 1


async def test_new_points_for_a_live_page(telemetry):
    await telemetry.store(JOB, 1, metrics(metric(1, {"a": [1.0], "b": [1.0]})))
    position = (await telemetry.usage(JOB)).position
    assert await telemetry.curves.changes(JOB, position) == {}
    await telemetry.store(JOB, 1, metrics(metric(2, {"a": [2.0]}), metric(1, {"z": [5.0]}, rank=1)))
    found = await telemetry.curves.changes(JOB, position)
    assert {name: [(one["attempt"], one["step"], one["value"]) for one in parts] for name, parts in found.items()} == {
        "a": [(1, [2], [2.0])]
    }


async def test_a_live_page_is_told_to_read_again_when_points_were_merged_or_are_many(telemetry):
    await telemetry.store(JOB, 1, metrics(metric(1, {"a": [1.0]})))
    position = (await telemetry.usage(JOB)).position
    await telemetry.store(JOB, 1, metrics(metric(2, {"a": [1.0] * BLOCK_POINTS})))
    if telemetry._merging is not None:
        await telemetry._merging
    assert await telemetry.curves.changes(JOB, position) is None
    position = (await telemetry.usage(JOB)).position
    await telemetry.store(JOB, 1, metrics(metric(3, {f"m{n}": [1.0] * 2500 for n in range(10)})))
    assert await telemetry.curves.changes(JOB, position) is None


async def test_ten_thousand_names_and_strange_ones_are_refused_with_a_count(telemetry):
    """Scenario 18."""
    strange = {"x" * 300: [1.0, 2.0], "": [1.0], "nul\0": [1.0], "line\n": [1.0], "\u202etfel": [1.0]}
    fine = {"loss/🙂": [1.0], "../../etc/passwd": [2.0], "a'; drop table users; --": [3.0], 'quo"te/%s': [4.0]}
    await telemetry.store(JOB, 1, metrics(metric(1, strange | fine)))
    many = {f"name/{n:05d}": [float(n)] for n in range(10_000)}
    for seq, start in enumerate(range(0, 10_000, 2500), 2):
        part = dict(list(many.items())[start : start + 2500])
        answer = await telemetry.store(JOB, 1, metrics(metric(seq, part)))
        assert answer.accepted == 1
    found = await telemetry.curves.metrics(JOB, 0)
    assert len(found) == 5000
    assert set(fine) <= set(found)
    assert not set(strange) & set(found)
    assert (await telemetry.usage(JOB)).refused_points == 6 + 10_000 - (5000 - len(fine))
    # Names that are in go on getting points; the next rank has its own room.
    await telemetry.store(JOB, 1, metrics(metric(6, {"loss/🙂": [7.0]}), metric(1, {"name/09999": [1.0]}, rank=1)))
    assert (await curve(telemetry, "loss/🙂"))[0]["value"] == [1.0, 7.0]
    assert list(await telemetry.curves.metrics(JOB, 1)) == ["name/09999"]


async def test_a_run_has_a_bound_on_series_over_all_its_ranks(database, held_clock):
    telemetry = TelemetryService(database, held_clock.clock(), Wakeups(), TelemetryLimits(series=3))
    for rank in (0, 1):
        await telemetry.store(JOB, 1, metrics(metric(1, {"a": [1.0], "b": [1.0]}, rank=rank)))
    assert len(await telemetry.curves.metrics(JOB, 0)) == 2
    assert len(await telemetry.curves.metrics(JOB, 1)) == 1
    assert (await telemetry.usage(JOB)).refused_points == 1
    await telemetry.close()
