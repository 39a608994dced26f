"""One view of several queries."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqlalchemy.ext.asyncio import AsyncSession

from tuneplane_server.db.engine import Database


@asynccontextmanager
async def snapshot(database: Database) -> AsyncIterator[AsyncSession]:
    """A session to read whose queries all see the same moment. SQLite's always do; Postgres must be asked."""
    async with database.session() as session:
        if not database.is_sqlite:
            await session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
        yield session
