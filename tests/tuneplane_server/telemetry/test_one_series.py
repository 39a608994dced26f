"""Reading one series reads its own rows and no others, however many there are: by the databases' own account of their plans."""

from __future__ import annotations

import re

import pytest
from sqlalchemy import event as sqlalchemy_event

from tests.tuneplane_server.telemetry.build import JOB, metric, metrics
from tuneplane_server.features.telemetry.merging import BLOCKS_AT_ONCE
from tuneplane_server.features.telemetry.service import TelemetryService
from tuneplane_server.features.telemetry.tables import BLOCK_POINTS

POINTS = re.compile(r"\bmetric_(chunks|blocks)\b")


@pytest.fixture
async def statements(telemetry, database):
    """(SQL, parameters) of what reads points from now on; there are two series with blocks and loose points."""
    for seq in range(1, 4):
        values = [float(n) for n in range(BLOCK_POINTS // 2 + 10)]
        await telemetry.store(JOB, 1, metrics(metric(seq, {"train/loss": values, "train/reward": values})))
    while await telemetry.merge_due():
        pass
    found: list[tuple[str, object]] = []

    def note(_connection, _cursor, statement, parameters, *_rest):
        if POINTS.search(statement):
            found.append((statement, parameters))

    engine = database._reader.sync_engine
    sqlalchemy_event.listen(engine, "before_cursor_execute", note)
    yield found
    sqlalchemy_event.remove(engine, "before_cursor_execute", note)


async def plans(database, statements) -> list[str]:
    asked = list(statements)
    lines: list[str] = []
    async with database.session() as session:
        connection = await session.connection()
        if not database.is_sqlite:
            # A table of a few pages is read whole; whether it has to be is the question.
            await connection.exec_driver_sql("set local enable_seqscan = off")
        explain = "explain query plan " if database.is_sqlite else "explain "
        for statement, parameters in asked:
            rows = await connection.exec_driver_sql(explain + statement, parameters)
            lines += [str(row[-1]).strip() for row in rows]
    return [line for line in lines if POINTS.search(line) or "Cond:" in line or "Filter:" in line]


@pytest.mark.parametrize("max_points", [50, 10_000], ids=["rollups", "blocks"])
async def test_a_curve_reads_the_rows_of_its_own_series(telemetry, database, statements, max_points):
    found = await telemetry.curves.curves(JOB, ["train/loss"], max_points=max_points, attempt=None, rank=0)
    assert found["train/loss"][0]["count"] == 3 * (BLOCK_POINTS // 2 + 10)
    assert len({name for sql, _parameters in statements for name in POINTS.findall(sql)}) == 2
    assert_own_rows_only(await plans(database, statements), database)


async def test_what_is_new_reads_the_rows_of_its_own_series(telemetry, database, statements):
    await telemetry.store(JOB, 1, metrics(metric(4, {"train/loss": [1.0]})))
    found = await telemetry.curves.changes(JOB, 3)
    assert list(found) == ["train/loss"]
    assert_own_rows_only(await plans(database, statements), database)


async def test_what_merging_has_fallen_behind_with_is_read_once(telemetry, monkeypatch):
    async def later(_self) -> None:
        return None

    monkeypatch.setattr(TelemetryService, "_merge", later)
    chunks, points = 4 * 2 * BLOCKS_AT_ONCE, BLOCK_POINTS // 4
    values = [float(n) for n in range(points)]
    for seq in range(1, chunks + 1):
        await telemetry.store(JOB, 1, metrics(metric(seq, {"train/loss": values}, first_step=seq * points)))
    read: list[int] = []

    def note(_connection, _cursor, statement, parameters, *_rest):
        if "metric_chunks.data" in statement and statement.startswith("SELECT"):
            read.append(len(parameters) - 1)  # beside the series, the places of the chunks

    engine = telemetry._transactions.engine
    sqlalchemy_event.listen(engine, "before_cursor_execute", note)
    assert await telemetry.merge_due() == BLOCKS_AT_ONCE
    assert await telemetry.merge_due() == BLOCKS_AT_ONCE
    sqlalchemy_event.remove(engine, "before_cursor_execute", note)
    assert sum(read) == chunks
    found = await telemetry.curves.curves(JOB, ["train/loss"], max_points=10_000, attempt=None, rank=0)
    assert found["train/loss"][0]["count"] == chunks * points
    assert await telemetry.merge_due() == 0


def assert_own_rows_only(lines: list[str], database) -> None:
    assert lines
    if database.is_sqlite:
        by_key = r"SEARCH metric_\w+ USING (PRIMARY KEY|INDEX sqlite_autoindex_metric_blocks_1) \(series_id=\?"
        assert all(re.search(by_key, line) for line in lines), lines
    else:
        conditions = [line for line in lines if line.startswith(("Index Cond:", "Recheck Cond:"))]
        assert conditions
        assert all("series_id =" in line for line in conditions), lines
        assert not [line for line in lines if "Seq Scan" in line or "Filter:" in line], lines
