"""Exports: every point and sample as CSV, JSON lines and Parquet; nothing lost, bounded, and no formulas."""

from __future__ import annotations

import asyncio
import csv
import io
import json
import math
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest
from arro3.io import read_parquet

from tests.tuneplane_server.telemetry.build import JOB, START, metric, metrics
from tuneplane_server.domain import series_codec
from tuneplane_server.features.telemetry.exports import parquet, rows
from tuneplane_server.features.telemetry.exports.columns import METRICS, Column, Part
from tuneplane_server.features.telemetry.exports.lines import FORMULA, csv_lines
from tuneplane_server.features.telemetry.exports.parquet import parquet_file
from tuneplane_server.features.telemetry.records import Batch, MetricRecord, Sample, SampleRecord
from tuneplane_server.features.telemetry.tables import BLOCK_POINTS

NAMES = [column.name for column in METRICS]


async def export(reader, what="metrics", form="csv", **query):
    answer = await reader.get(f"{what}/export", format=form, **query)
    assert answer.status_code == 200, answer.text
    assert "attachment" in answer.headers["content-disposition"]
    return answer.content


def table(data: bytes) -> list[dict]:
    """The rows of a Parquet file."""
    found = read_parquet(io.BytesIO(data)).read_all()
    columns = {name: found.column(name).to_pylist() for name in found.column_names}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


@pytest.fixture
async def measured(reader):
    columns = series_codec.columns([1, 2, 3], [START + n for n in range(3)], [0.1, math.nan, math.inf], [0.5, 1.0, 1.5])
    other = metric(2, {"b": [-math.inf]}, first_step=7)
    await reader.store(Batch(metrics=[MetricRecord(0, 1, {"=1+1": columns}), other, metric(1, {"b": [2.0]}, rank=3)]))
    await reader.store(Batch(metrics=[metric(1, {"b": [5.0]})]), attempt=2)
    return reader


ROWS = [
    (1, 0, "=1+1", 1, START, 0.5, "0.1"),
    (1, 0, "=1+1", 2, START + 1, 1.0, "NaN"),
    (1, 0, "=1+1", 3, START + 2, 1.5, "Infinity"),
    (1, 0, "b", 7, START + 7, None, "-Infinity"),
    (1, 3, "b", 1, START + 1, None, "2.0"),
    (2, 0, "b", 1, START + 1, None, "5.0"),
]


async def test_csv_has_every_point_with_its_odd_values_and_no_formula(measured):
    text = (await export(measured)).decode()
    head, *lines = list(csv.reader(io.StringIO(text)))
    assert head == NAMES
    assert "\r\n" in text
    for line, row in zip(lines, ROWS, strict=True):
        name = f"'{row[2]}" if row[2].startswith("=") else row[2]
        assert line == [
            str(row[0]),
            str(row[1]),
            name,
            str(row[3]),
            str(row[4]),
            "" if row[5] is None else str(row[5]),
            row[6],
        ]


async def test_json_lines_say_odd_values_as_the_api_does(measured):
    found = [json.loads(line) for line in (await export(measured, form="json")).splitlines()]
    assert [list(one) for one in found] == [NAMES] * len(ROWS)
    assert [(one["name"], one["epoch"], str(one["value"])) for one in found] == [
        (row[2], row[5], row[6]) for row in ROWS
    ]


async def test_parquet_keeps_the_doubles(measured):
    found = table(await export(measured, form="parquet"))
    assert [list(one) for one in found] == [NAMES] * len(ROWS)
    assert [(one["name"], one["step"], one["epoch"]) for one in found] == [(row[2], row[3], row[5]) for row in ROWS]
    values = [one["value"] for one in found]
    assert math.isnan(values[1])
    assert [values[0], *values[2:]] == [0.1, math.inf, -math.inf, 2.0, 5.0]


async def test_chosen_by_name_attempt_and_rank_and_refused_without_meaning(measured):
    assert len((await export(measured, name="b", rank=0)).splitlines()) == 3
    assert len((await export(measured, attempt=2)).splitlines()) == 2
    assert len((await export(measured, name="nothing")).splitlines()) == 1
    assert table(await export(measured, form="parquet", name="nothing")) == []
    for what in ("metrics", "samples"):
        for query in ({}, {"format": "xlsx"}, {"format": "csv", "rank": -1}):
            assert (await measured.get(f"{what}/export", **query)).status_code == 422
        measured.token, token = None, measured.token
        assert (await measured.get(f"{what}/export", format="csv")).status_code == 401
        measured.token = token
        assert (await measured.get(f"/jobs/{'0' * 16}/{what}/export", format="csv")).status_code == 404


async def test_a_series_of_many_blocks_is_read_a_few_at_a_time_and_whole(telemetry, database, monkeypatch):
    monkeypatch.setattr(rows, "BLOCKS_AT_ONCE", 2)
    monkeypatch.setattr(rows, "SERIES_AT_ONCE", 2)
    long = [float(n) for n in range(5 * BLOCK_POINTS + 17)]
    await telemetry.store(JOB, 1, metrics(metric(1, {"long": long, **{f"s{n}": [1.0 * n] for n in range(5)}})))
    while await telemetry.merge_due():
        pass
    parts = [part async for part in rows.metric_rows(database, JOB, names=None, attempt=None, rank=None)]
    assert max(part.rows for part in parts) <= 2 * BLOCK_POINTS + 17
    found = [(name, value) for part in parts for name, value in zip(part.values[2], part.values[6], strict=True)]
    assert [value for name, value in found if name == "long"] == long
    assert sorted(item for item in found if item[0] != "long") == [(f"s{n}", 1.0 * n) for n in range(5)]


async def test_points_merged_while_an_export_reads_are_neither_lost_nor_doubled(telemetry, database, monkeypatch):
    monkeypatch.setattr(rows, "BLOCKS_AT_ONCE", 1)
    values = [float(n) for n in range(2 * BLOCK_POINTS)]
    await telemetry.store(JOB, 1, metrics(metric(1, {"a": values[:BLOCK_POINTS]})))
    await telemetry.merge_due()
    await telemetry.store(JOB, 1, metrics(metric(BLOCK_POINTS + 1, {"a": values[BLOCK_POINTS:]})))
    found: list[float] = []
    async for part in rows.metric_rows(database, JOB, names=None, attempt=None, rank=None):
        found += part.values[6]
        await telemetry.merge_due()
    assert found == values


async def test_samples_with_their_texts(reader):
    chat = [{"role": "user", "content": "hi"}]
    data = [
        {"prompt": "@SUM(A1)", "completion": 'line\nbreak, "quote"', "reward": 1.5},
        {"prompt": chat, "chosen": "c", "rejected": "r", "chosen_reward": 2.0, "rejected_reward": 0.5},
    ]
    kinds = ["completion", "preference"]
    records = [
        SampleRecord(0, n + 1, [Sample(kinds[n], n, START + n, msgspec.json.encode(one))]) for n, one in enumerate(data)
    ]
    await reader.store(Batch(samples=records))
    first, second = list(csv.DictReader(io.StringIO((await export(reader, "samples")).decode(), newline="")))
    assert (first["prompt"], first["completion"], first["reward"]) == ("'@SUM(A1)", 'line\nbreak, "quote"', "1.5")
    assert (second["prompt"], second["chosen"], second["rejected"]) == (
        json.dumps(chat, separators=(",", ":")),
        "c",
        "r",
    )
    assert json.loads(second["data"]) == data[1]
    found = table(await export(reader, "samples", "parquet"))
    assert [(one["id"], one["kind"], one["prompt"], one["completion"]) for one in found] == [
        (1, "completion", "@SUM(A1)", data[0]["completion"]),
        (2, "preference", second["prompt"], None),
    ]
    assert len((await export(reader, "samples", "json", kind="preference")).splitlines()) == 1
    assert len((await export(reader, "samples", "json", grep="QUOTE")).splitlines()) == 1


def test_no_text_begins_as_a_formula():
    columns = (Column("text", "text", optional=True),)
    values = [f"{sign}1" for sign in FORMULA] + ["-0.5", "plain", "", None]
    lines = csv_lines(columns, Part([values], len(values))).decode()
    for (cell,) in csv.reader(io.StringIO(lines, newline="")):
        assert not cell.startswith(FORMULA)
    assert "\nplain\r\n" in lines


async def test_a_reader_of_parquet_who_leaves_stops_the_writing():
    read = 0

    async def endless() -> AsyncIterator[Part]:
        nonlocal read
        while True:
            read += 1
            values = [read + n / 7 for n in range(1 << 14)]
            yield Part([values], len(values))

    file = parquet_file((Column("value", "number"),), endless())
    assert (await anext(file)).startswith(b"PAR1")
    async with asyncio.timeout(60):
        await file.aclose()
    seen = read
    await asyncio.sleep(0)
    assert read == seen


async def test_rows_that_cannot_be_read_fail_the_export():
    async def broken() -> AsyncIterator[Part]:
        yield Part([[1.0]], 1)
        raise OSError("the disk is gone")

    with pytest.raises(Exception, match="the disk is gone"):
        async for _data in parquet_file((Column("value", "number"),), broken()):
            pass


async def endless_rows() -> AsyncIterator[Part]:
    """Each part needs a thread of the loop's own, as those of an export do."""
    number = 0
    while True:
        number = await asyncio.to_thread(int, number + 1)
        yield Part([[number + n / 7 for n in range(1 << 14)]], 1 << 14)


async def test_many_parquet_files_leave_the_loop_its_threads_and_one_too_many_is_told_to_come_back(measured):
    loop = asyncio.get_running_loop()
    loop.set_default_executor(ThreadPoolExecutor(1))
    files = [parquet_file((Column("value", "number"),), endless_rows()) for _file in range(parquet.WRITERS)]
    async with asyncio.timeout(60):
        for file in files:
            assert (await anext(file)).startswith(b"PAR1")
        answer = await measured.get("metrics/export", format="parquet")
        assert (answer.status_code, answer.json()["code"]) == (429, "too-many-requests")
        assert int(answer.headers["retry-after"]) > 0
        for file in files:
            await anext(file)
            await file.aclose()
    assert len(table(await export(measured, form="parquet"))) == len(ROWS)


async def test_a_reader_of_parquet_who_stops_reading_does_not_hold_a_writer(monkeypatch):
    monkeypatch.setattr(parquet, "STALLED_SECONDS", 0.0)
    monkeypatch.setattr(parquet, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(parquet, "QUEUED", 1)
    done = asyncio.Event()
    monkeypatch.setattr(parquet, "_busy", Watched(done))
    file = parquet_file((Column("value", "number"),), endless_rows())
    await anext(file)
    async with asyncio.timeout(60):
        await done.wait()
    await file.aclose()


class Watched(set[object]):
    """Says when a writer has gone."""

    def __init__(self, gone: asyncio.Event) -> None:
        super().__init__()
        self._gone = gone

    def discard(self, element: object) -> None:
        super().discard(element)
        self._gone.set()
