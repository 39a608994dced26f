"""One trip for a statement: what a transaction sees and leaves is the same."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy import Column, Integer, MetaData, String, Table, text, update
from sqlalchemy.exc import IntegrityError, OperationalError

from tuneplane_server.db.engine import Database
from tuneplane_server.db.guards import changed_one

THINGS = Table("things", MetaData(), Column("id", Integer, primary_key=True), Column("name", String))


@pytest.fixture
async def things(tmp_path: Path) -> AsyncIterator[Database]:
    database = Database(f"sqlite+aiosqlite:///{tmp_path / 'things.db'}")
    async with database.begin() as session:
        await session.execute(text("create table things (id integer primary key, name text unique)"))
    yield database
    await database.close()


async def test_rows_counts_and_returned_values_are_there(things: Database) -> None:
    async with things.begin() as session:
        added = await session.execute(text("insert into things (name) values ('a'), ('b') returning id"))
        assert [row[0] for row in added] == [1, 2]
        assert await changed_one(session, update(THINGS).where(THINGS.c.id == 1).values(name="a!"))
        assert not await changed_one(session, update(THINGS).where(THINGS.c.id == 7).values(name="a!"))
        await session.execute(text("insert into things (name) values (:name)"), [{"name": "c"}, {"name": "d"}])
    async with things.session() as session:
        names = list(await session.scalars(text("select name from things order by id")))
    assert names == ["a!", "b", "c", "d"]


async def test_a_transaction_that_fails_leaves_nothing(things: Database) -> None:
    async def twice() -> None:
        async with things.begin() as session:
            await session.execute(text("insert into things (name) values ('a')"))
            await session.execute(text("insert into things (name) values ('a')"))

    with pytest.raises(IntegrityError):
        await twice()
    async with things.begin() as session:
        assert await session.scalar(text("select count(*) from things")) == 0


async def test_a_reader_sees_one_moment_from_its_first_statement_on(things: Database) -> None:
    async with things.session() as reader:
        assert await reader.scalar(text("select count(*) from things")) == 0
        async with things.begin() as writer:
            await writer.execute(text("insert into things (name) values ('later')"))
        assert await reader.scalar(text("select count(*) from things")) == 0
    async with things.session() as reader:
        assert await reader.scalar(text("select count(*) from things")) == 1


async def test_a_session_that_asked_nothing_leaves_no_transaction_behind(things: Database) -> None:
    for _time in range(3):
        async with things.begin():
            pass
        async with things.begin() as session:
            await session.execute(text("insert into things (name) values (null)"))
    async with things.session() as session:
        assert await session.scalar(text("select count(*) from things")) == 3


async def test_a_reader_cannot_write(things: Database) -> None:
    async with things.session() as session:
        with pytest.raises(OperationalError):
            await session.execute(text("insert into things (name) values ('a')"))
