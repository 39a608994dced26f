"""A database that is full, read-only, locked or away: 507 or 503 with Retry-After, nothing half-stored, all of it later.

The faults are the databases' own; no error is invented (scenario 33).
"""

from __future__ import annotations

import asyncio
import random
import sqlite3

import pytest
from sqlalchemy import event as sqlalchemy_event
from sqlalchemy import text

from tests.tuneplane_server.ingest.conftest import JOB, console_on, runner_of
from tests.tuneplane_server.ingest.wire_build import log, metric
from tuneplane_server.features.telemetry.log_reader import LogQuery


async def lines_of(console):
    page = await console.services.telemetry.logs.page(JOB, LogQuery(), live_attempt=None)
    return [line.text for line in page.lines]


def writer_engine(console):
    """The engine of the threads that write telemetry."""
    return console.services.telemetry._transactions.engine


async def pragma(console, statement):
    def run():
        with writer_engine(console).connect() as connection:
            connection.connection.driver_connection.execute(statement)

    await asyncio.get_running_loop().run_in_executor(console.services.telemetry._transactions._threads, run)


@pytest.fixture
async def on_sqlite(migrated_sqlite_url, tmp_path):
    async with console_on(migrated_sqlite_url, tmp_path) as console, runner_of(console) as runner:
        yield runner, console


@pytest.fixture
async def on_postgres(migrated_postgres_url, tmp_path):
    async with console_on(migrated_postgres_url, tmp_path) as console, runner_of(console) as runner:
        yield runner, console


async def test_sqlite_full(on_sqlite):
    runner, console = on_sqlite
    await runner.send(log(1, "a\n"))
    await pragma(console, "PRAGMA max_page_count = 1")  # no less than what is there
    noise = random.Random(1)
    answers = [await runner.send(log(seq, f"{noise.randbytes(30_000).hex()}\n")) for seq in range(2, 40)]
    full = next(index for index, answer in enumerate(answers) if answer.status_code != 200)
    assert {answer.status_code for answer in answers[full:]} == {507}
    assert answers[full].json()["code"] == "storage-full"
    assert int(answers[full].headers["retry-after"]) > 0
    stored = await lines_of(console)
    assert len(stored) == 1 + full
    await pragma(console, "PRAGMA max_page_count = 1073741823")
    answer = await runner.send(*(log(seq, f"line {seq}\n") for seq in range(2 + full, 40)))
    assert (answer.status_code, answer.json()["ack"]) == (200, {"1/0/log": 39})
    assert len(await lines_of(console)) == 39


async def test_sqlite_read_only(on_sqlite):
    runner, console = on_sqlite
    await runner.send(log(1, "a\n"))
    await pragma(console, "PRAGMA query_only = ON")
    answer = await runner.send(log(2, "b\n"))
    assert (answer.status_code, answer.json()["code"]) == (507, "storage-full")
    await pragma(console, "PRAGMA query_only = OFF")
    assert (await runner.send(log(2, "b\n"))).json()["ack"] == {"1/0/log": 2}


async def test_sqlite_locked_by_another_process(on_sqlite):
    runner, console = on_sqlite
    await runner.send(log(1, "a\n"))
    await pragma(console, "PRAGMA busy_timeout = 20")
    other = sqlite3.connect(console.services.database.sqlite_path, isolation_level=None)
    try:
        other.execute("BEGIN IMMEDIATE")
        answer = await runner.send(log(2, "b\n"))
        assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
        assert int(answer.headers["retry-after"]) > 0
        other.execute("ROLLBACK")
    finally:
        other.close()
    assert (await runner.send(log(2, "b\n"))).json()["ack"] == {"1/0/log": 2}


async def test_postgres_read_only(on_postgres):
    runner, console = on_postgres
    engine = writer_engine(console)

    @sqlalchemy_event.listens_for(engine, "begin")
    def read_only(connection):
        connection.exec_driver_sql("set transaction read only")

    answer = await runner.send(log(1, "a\n"))
    sqlalchemy_event.remove(engine, "begin", read_only)
    assert (answer.status_code, answer.json()["code"]) == (507, "storage-full")
    assert (await runner.send(log(1, "a\n"))).json()["ack"] == {"1/0/log": 1}


@pytest.mark.parametrize(
    ("state", "status", "code"),
    [
        ("53100", 507, "storage-full"),
        ("40P01", 503, "unavailable"),
        ("53200", 503, "unavailable"),
        ("57P01", 503, "unavailable"),
    ],
)
async def test_postgres_says_that_it_cannot_now(on_postgres, state, status, code):
    """The server itself raises it, in a trigger, in the middle of the transaction."""
    runner, console = on_postgres
    async with console.services.database.begin() as session:
        await session.execute(
            text(
                f"create function fail() returns trigger language plpgsql as $$ begin raise exception using errcode = '{state}'; end $$"
            )
        )
        await session.execute(
            text("create trigger fail before insert on log_chunks for each row execute function fail()")
        )
    answer = await runner.send(metric(1, [1.0]), log(1, "a\n"))
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert int(answer.headers["retry-after"]) > 0
    assert await console.services.telemetry.curves.metrics(JOB, 0) == {}
    async with console.services.database.begin() as session:
        await session.execute(text("drop trigger fail on log_chunks"))
    assert (await runner.send(metric(1, [1.0]), log(1, "a\n"))).json()["accepted"] == 2


async def test_postgres_ends_our_connections(on_postgres):
    runner, console = on_postgres
    await runner.send(log(1, "a\n"))
    engine = writer_engine(console)
    ended = []

    @sqlalchemy_event.listens_for(engine, "before_cursor_execute")
    def end_it(connection, _cursor, statement, *_rest):
        if "INSERT INTO log_chunks" in statement and not ended:
            ended.append(connection.connection.dbapi_connection)
            connection.exec_driver_sql("select pg_terminate_backend(pg_backend_pid())")

    answer = await runner.send(log(2, "b\n"))
    sqlalchemy_event.remove(engine, "before_cursor_execute", end_it)
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")
    assert (await runner.send(log(2, "b\n"))).json()["ack"] == {"1/0/log": 2}
    assert await lines_of(console) == ["a", "b"]


async def test_a_mistake_of_ours_is_not_hidden_as_trouble(runner, console):
    async with console.services.database.begin() as session:
        await session.execute(text("alter table log_chunks rename to gone"))
    answer = await runner.send(log(1, "a\n"))
    assert answer.status_code == 500
    assert answer.json()["code"] == "internal-error"
