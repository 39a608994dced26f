"""Many values as one parameter."""

from __future__ import annotations

import pytest
from sqlalchemy import event, insert, select, text

from tuneplane_server.background.tables import LeaseRow
from tuneplane_server.db.engine import Database
from tuneplane_server.db.lists import among

HERE = ("run-1", "run-2", 'an "odd" one', "{ein,ör}", "a\\b")


@pytest.fixture
async def leases(database: Database) -> Database:
    row = {"role": "r", "owner": "o", "token": "t", "failures": 0, "not_before": None}
    async with database.begin() as session:
        now = {"expires_at": text("current_timestamp")}
        for row_id in HERE:
            await session.execute(insert(LeaseRow).values(**row, row_id=row_id, **now))
    return database


@pytest.mark.parametrize(
    ("asked", "found"),
    [((), ()), (("run-2", "run-9"), ("run-2",)), ((*HERE, *map(str, range(70_000))), HERE), (("run",), ())],
    ids=["none", "one", "more than any limit of parameters", "a part of one"],
)
async def test_those_rows_are_found_that_have_one_of_the_values(
    leases: Database, asked: tuple[str, ...], found: tuple[str, ...]
) -> None:
    async with leases.session() as session:
        rows = await session.scalars(select(LeaseRow.row_id).where(among(session, LeaseRow.row_id, asked)))
        assert sorted(rows) == sorted(found)


async def test_the_text_of_a_statement_does_not_depend_on_how_many_values_it_has(leases: Database) -> None:
    seen: set[str] = set()
    event.listen(leases._reader.sync_engine, "before_cursor_execute", lambda *given: seen.add(given[2]))
    for asked in ([], ["run-1"], list(HERE)):
        async with leases.session() as session:
            await session.scalars(select(LeaseRow.row_id).where(among(session, LeaseRow.row_id, asked)))
    assert len(seen) == 1
