"""Curves of several runs in one call, over every axis, and of a stretch of them."""

from __future__ import annotations

import math

from sqlalchemy import event as sqlalchemy_event

from tests.tuneplane_server.telemetry.build import START, metric, metrics
from tests.tuneplane_server.telemetry.reading import token_of
from tuneplane_server.domain import series_codec
from tuneplane_server.features.telemetry import shapes
from tuneplane_server.features.telemetry.records import Batch, MetricRecord


async def answer(reader, path="/curves", **query):
    found = await reader.get(path, **query)
    assert found.status_code == 200, found.text
    return found.json()


async def test_several_runs_and_metrics_come_in_one_answer(reader):
    other = await reader.console.running_job(reader.who)
    await reader.store(Batch(metrics=[metric(1, {"train/loss": [2.0, math.nan], "x": [5.0]})]))
    await reader.console.services.telemetry.store(other, 1, metrics(metric(1, {"train/loss": [1.0]})))
    found = await answer(reader, run=[reader.job, other, reader.job], name=["train/loss", "x", "missing"])
    shapes.RunCurves.model_validate(found)
    assert list(found["runs"]) == [reader.job, other]
    assert found["runs"][reader.job]["series"]["train/loss"][0]["value"] == [2.0, "NaN"]
    assert list(found["runs"][reader.job]["series"]) == ["train/loss", "x"]
    assert found["runs"][other]["series"]["train/loss"][0]["value"] == [1.0]


async def test_what_several_runs_have(reader):
    other = await reader.console.running_job(reader.who)
    await reader.store(Batch(metrics=[metric(1, {"a": [2.0]}), metric(1, {"b": [1.0]}, rank=1)]))
    found = await answer(reader, "/metrics", run=[reader.job, other])
    shapes.RunMetrics.model_validate(found)
    assert list(found["runs"][reader.job]["metrics"]) == ["a"]
    assert found["runs"][other] == {"metrics": {}, "refused_points": 0}
    assert list((await answer(reader, "/metrics", run=reader.job, rank=1))["runs"][reader.job]["metrics"]) == ["b"]
    assert (await reader.get("/metrics", run=[reader.job, "0" * 16])).status_code == 404


async def test_a_foreign_run_among_them_looks_as_if_it_were_not_there(reader):
    eve = await reader.console.user("eve")
    await reader.console.bring_package(eve)
    hers = await reader.console.running_job(eve)
    await reader.console.services.telemetry.store(hers, 1, metrics(metric(1, {"a": [1.0]})))
    answers = [await reader.get("/curves", run=[reader.job, one], name="a") for one in (hers, "0" * 16, "../x")]
    assert [found.status_code for found in answers] == [404] * 3
    known, unknown = (found.json() | {"instance": ""} for found in answers[:2])
    assert str(known).replace(hers, "") == str(unknown).replace("0" * 16, "")
    reader.token = await token_of(reader.console, eve)
    assert (await reader.get("/curves", run=hers, name="a")).status_code == 200
    reader.token = None
    assert (await reader.get("/curves", run=hers, name="a")).status_code == 401


async def test_what_is_too_much_is_refused(reader):
    for query in (
        {"name": "a"},
        {"run": reader.job},
        {"run": [reader.job] * 51, "name": "a"},
        {"run": [reader.job, "1" * 16], "name": [f"m{n}" for n in range(21)], "max_points": 5000},
        {"run": reader.job, "name": "a", "x": "loss"},
    ):
        found = await reader.get("/curves", **query)
        assert (found.status_code, found.json()["code"]) == (422, "request-invalid"), query


async def test_every_axis(reader):
    tokens = series_codec.columns([1, 3], [START, START + 20], [100.0, 300.0])
    loss = series_codec.columns([0, 1, 2, 3, 4], [START + 10 * n for n in range(5)], [5.0, 4.0, 3.0, 2.0, 1.0])
    await reader.store(Batch(metrics=[MetricRecord(0, 1, {"train/num_tokens": tokens, "a": loss})]))

    async def x(axis):
        return (await answer(reader, "curves", name="a", x=axis))["series"]["a"][0]["x"]

    assert await x("step") == [0, 1, 2, 3, 4]
    assert await x("time") == [START + 10 * n for n in range(5)]
    assert await x("tokens") == [None, 100.0, 200.0, 300.0, None]
    assert await x("epoch") == [None] * 5
    began = (await reader.console.job(reader.job)).started_at.timestamp()
    assert await x("relative") == [START + 10 * n - began for n in range(5)]
    assert "x" not in (await answer(reader, "curves", name="a"))["series"]["a"][0]


async def test_a_run_without_a_count_of_tokens_has_no_place_on_that_axis(reader):
    await reader.store(Batch(metrics=[metric(1, {"a": [1.0, 2.0]})]))
    assert (await answer(reader, "curves", name="a", x="tokens"))["series"]["a"][0]["x"] == [None, None]


async def test_a_stretch_is_read_finer_than_the_whole(telemetry):
    """A peak stays in both; the stretch has every step of it and a neighbour on either side."""
    job = "0000000000000001"
    values = [1.0] * 20_000
    values[12_345] = 99.0
    for start in range(0, 20_000, 5000):
        await telemetry.store(job, 1, metrics(metric(start + 1, {"a": values[start : start + 5000]}, first_step=start)))
    await telemetry.merge_due()
    from tuneplane_server.features.telemetry.curves import CurveQuery

    async def read(steps, points=100):
        query = CurveQuery(names=["a"], max_points=points, steps=steps)
        return (await telemetry.curves.of_runs({job: 0.0}, query))[job]["a"][0]

    whole = await read(None)
    assert 99.0 in whole["value"]
    assert len(whole["step"]) <= 100
    stretch = await read((12_300, 12_360))
    assert stretch["step"] == list(range(12_299, 12_362))
    assert stretch["value"][12_345 - 12_299] == 99.0
    wide = await read((10_000, 15_000))
    assert 99.0 in wide["value"]
    assert len(wide["step"]) <= 100
    assert wide["step"][0] >= 9_999
    assert wide["step"][-1] <= 15_001
    assert (await read((50_000, 60_000)))["step"] == []


async def test_reading_many_curves_takes_few_statements(telemetry, database):
    """Twenty runs by five metrics: the number of statements does not grow with either."""
    jobs = [f"{n:016}" for n in range(1, 21)]
    for job in jobs:
        await telemetry.store(job, 1, metrics(metric(1, {f"m{n}": [1.0, 2.0] for n in range(5)})))
    seen: list[str] = []
    engine = database._reader.sync_engine
    from tuneplane_server.features.telemetry.curves import CurveQuery

    def count(_connection, _cursor, statement, *_rest):
        seen.append(statement)

    sqlalchemy_event.listen(engine, "before_cursor_execute", count)
    try:
        found = await telemetry.curves.of_runs(dict.fromkeys(jobs, 0.0), CurveQuery(names=[f"m{n}" for n in range(5)]))
    finally:
        sqlalchemy_event.remove(engine, "before_cursor_execute", count)
    assert sum(len(curves) for curves in found.values()) == 100
    assert 1 <= len([one for one in seen if one.lstrip().upper().startswith("SELECT")]) <= 4, seen
