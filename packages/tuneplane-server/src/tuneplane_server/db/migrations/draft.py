"""Prints the operations that bring a fully migrated, empty SQLite database to the tables of the code:
`python -m tuneplane_server.db.migrations.draft`. Read them before they become the next revision.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import Any, Literal

from alembic.autogenerate import produce_migrations, render_python_code
from alembic.migration import MigrationContext
from sqlalchemy import Connection

from tuneplane_server.db.base import JsonText, UtcDateTime
from tuneplane_server.db.engine import Database
from tuneplane_server.db.migrations import revisions, upgrade
from tuneplane_server.db.tables import load_tables


def _render_item(kind: str, item: Any, _context: Any) -> str | Literal[False]:
    own = kind == "type" and isinstance(item, JsonText | UtcDateTime)
    return f"{type(item).__name__}()" if own else False


def _draft(connection: Connection) -> str:
    metadata = load_tables().metadata
    context = MigrationContext.configure(connection, opts={"target_metadata": metadata})
    operations = produce_migrations(context, metadata).upgrade_ops
    assert operations is not None
    return render_python_code(operations, render_item=_render_item)


async def draft() -> str:
    with tempfile.TemporaryDirectory() as folder:
        database = Database(f"sqlite+aiosqlite:///{Path(folder) / 'draft.db'}")
        try:
            if revisions():
                await upgrade(database)
            async with database.engine.connect() as connection:
                return await connection.run_sync(_draft)
        finally:
            await database.close()


if __name__ == "__main__":
    sys.stdout.write(asyncio.run(draft()) + "\n")
