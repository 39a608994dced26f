"""The schema's history: one line of numbered revisions (`versions/0001_….py`), applied at start.

Add the next number with `down_revision` the one before. A revision is never edited once released.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import inspect, text

from tuneplane.i18n import _

if TYPE_CHECKING:
    from sqlalchemy import Connection
    from sqlalchemy.ext.asyncio import AsyncConnection

    from tuneplane_server.db.engine import Database

HERE = Path(__file__).parent
VERSIONS = HERE / "versions"
_FILE = re.compile(r"(?P<revision>[0-9]{4})_[a-z0-9_]+\.py\Z")
# Any constant: two replicas that start together migrate one after the other.
ADVISORY_LOCK = 7_286_415_002


class SchemaError(Exception):
    """The database is newer than this program, or not ours."""


def head() -> str:
    """The newest revision on disk, found without importing Alembic: most starts have nothing to migrate."""
    return revisions()[-1]


def revisions() -> list[str]:
    found = [match["revision"] for path in VERSIONS.iterdir() if (match := _FILE.match(path.name))]
    return sorted(found)


async def current(database: Database) -> str | None:
    """The revision the database is at; None when it is empty."""
    async with database.engine.connect() as connection:
        return await connection.run_sync(_current)


async def upgrade(database: Database, to: str = "head") -> tuple[str | None, str]:
    """Bring the database to `to`; returns (before, after). Raises `SchemaError` when the database is newer than we are."""
    before = await current(database)
    target = head() if to == "head" else to
    if before == target:
        return before, target
    if before is not None and before not in revisions():
        raise SchemaError(
            _(
                "the database is at schema {found}, which this version does not know (newest here: {known}); start the newer tuneplane-server"
            ).format(found=before, known=head())
        )
    async with database.engine.connect() as connection:
        await _serialise(connection, database.is_sqlite)
        await connection.run_sync(_run, target)
        await connection.commit()
    return before, target


async def _serialise(connection: AsyncConnection, is_sqlite: bool) -> None:
    if not is_sqlite:  # SQLite's BEGIN IMMEDIATE already lets one in
        await connection.execute(text("select pg_advisory_xact_lock(:key)"), {"key": ADVISORY_LOCK})


def _current(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    found: Any = connection.execute(text("select version_num from alembic_version")).scalar()
    return found


def _run(connection: Connection, target: str) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(HERE).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, target)
