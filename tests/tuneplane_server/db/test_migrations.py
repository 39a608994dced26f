"""The revisions and the tables in the code are the same thing, on both databases."""

from __future__ import annotations

from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Connection, text
from sqlalchemy.exc import DBAPIError

from tuneplane_server.db import migrations
from tuneplane_server.db.engine import Database
from tuneplane_server.db.tables import load_tables


async def test_a_fresh_database_is_migrated_to_the_newest_revision_and_again_is_nothing_to_do(
    database_url: str,
) -> None:
    database = Database(database_url)
    try:
        assert await migrations.upgrade(database) == (None, migrations.head())
        assert await migrations.upgrade(database) == (migrations.head(), migrations.head())
        assert await migrations.current(database) == migrations.head()
    finally:
        await database.close()


async def test_the_migrated_schema_is_exactly_what_the_code_declares(database: Database) -> None:
    metadata = load_tables().metadata

    def differences(connection: Connection) -> list[Any]:
        return compare_metadata(MigrationContext.configure(connection, opts={"compare_type": True}), metadata)

    async with database.engine.connect() as connection:
        assert await connection.run_sync(differences) == []


async def test_revisions_are_one_numbered_line_without_gaps() -> None:
    numbers = migrations.revisions()
    assert numbers == [f"{index:04d}" for index in range(1, len(numbers) + 1)]


async def test_a_database_of_a_newer_version_is_refused_and_left_alone(database: Database) -> None:
    async with database.begin() as session:
        await session.execute(text("update alembic_version set version_num = '9999'"))
    with pytest.raises(migrations.SchemaError, match="9999"):
        await migrations.upgrade(database)
    assert await migrations.current(database) == "9999"


@pytest.mark.parametrize("statement", ["update audit_events set actor = 'x'", "delete from audit_events"])
async def test_the_audit_record_cannot_be_changed(database: Database, statement: str) -> None:
    insert = "insert into audit_events (time, actor, action, target, address, data) values ('2026-01-01', 'a', 'b', 'c', '', '{}')"
    async with database.begin() as session:
        await session.execute(text(insert))
    with pytest.raises(DBAPIError, match="append-only"):
        async with database.begin() as session:
            await session.execute(text(statement))
