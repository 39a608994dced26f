"""The database: `session()` to read, `begin()` to write. SQLite for one machine, Postgres for a team.

SQLite has one writer. Writes of this process queue on an asyncio lock instead of on the file's lock, and begin with
BEGIN IMMEDIATE, so that a transaction never fails half-way because another one wrote first.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import monotonic
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import InvalidatePoolError
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, create_async_engine

from tuneplane_server.db import sqlite_driver
from tuneplane_server.db.filesystems import refuse_network_filesystem

BUSY_TIMEOUT_MS = 10_000  # another process (an admin command) may hold the file's lock for a moment
READERS = 4  # each SQLite connection is a thread; four serve a dashboard and cost little memory
POSTGRES_CONNECTIONS, POSTGRES_OVERFLOW = 10, 30
IDLE_IN_TRANSACTION_SECONDS = 60
# A connection that worked this short a time ago is taken for alive: who reads four times a page need not ask before each.
RESTED_SECONDS = 1.0


class Database:
    """Owns the connections. Objects loaded in a session stay readable after it; nothing is committed by hand."""

    def __init__(self, url: str) -> None:
        """`url`: SQLAlchemy URL with driver. Raises `NetworkFilesystemError` for a SQLite file on one."""
        self.url: URL = make_url(url)
        self.is_sqlite = self.url.get_backend_name() == "sqlite"
        if self.is_sqlite:
            refuse_network_filesystem(self.sqlite_path)
            self.sqlite_path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._reader = _sqlite_engine(self.url, connections=READERS, writer=False)
            self._writer = _sqlite_engine(self.url, connections=1, writer=True)
            self._write_lock: asyncio.Lock | None = asyncio.Lock()
        else:
            self._writer = _postgres_engine(self.url)
            # A statement of Postgres sees its own moment, in a transaction or not: without one a page spares the server, and
            # itself, a begin and a rollback for every look.
            self._reader = self._writer.execution_options(isolation_level="AUTOCOMMIT")
            self._write_lock = None

    @property
    def sqlite_path(self) -> Path:
        return Path(self.url.database or "")

    @property
    def engine(self) -> AsyncEngine:
        """The engine that may write; for migrations."""
        return self._writer

    @asynccontextmanager
    async def session(self) -> AsyncIterator[AsyncSession]:
        """A session to read: one snapshot on SQLite; on Postgres each statement sees what is committed when it begins."""
        async with AsyncSession(self._reader, expire_on_commit=False) as session:
            yield session

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[AsyncSession]:
        """A session to write: commits at the end, rolls back when an exception leaves the block."""
        async with (
            self.turn_to_write(),
            AsyncSession(self._writer, expire_on_commit=False) as session,
            session.begin(),
        ):
            yield session

    @asynccontextmanager
    async def turn_to_write(self) -> AsyncIterator[None]:
        """This process's turn as SQLite's one writer, for who writes through a connection of their own; `begin()` takes
        it by itself. Waiting here is fair, waiting for the file's lock is not. Postgres needs no turns.
        """
        if self._write_lock is None:
            yield
            return
        async with self._write_lock:
            yield

    async def close(self) -> None:
        await self._reader.dispose()
        if self.is_sqlite:
            await self._writer.dispose()  # on Postgres both have the same connections


def _postgres_engine(url: URL) -> AsyncEngine:
    engine = create_async_engine(
        url,
        pool_size=POSTGRES_CONNECTIONS,
        max_overflow=POSTGRES_OVERFLOW,
        pool_use_lifo=True,  # the one used last has its statements prepared
        skip_autocommit_rollback=True,
        connect_args=_postgres_options(url),
    )

    @event.listens_for(engine.sync_engine, "checkin")
    def _note(_connection: Any, record: Any) -> None:
        record.info["used_at"] = monotonic()

    @event.listens_for(engine.sync_engine, "checkout")
    def _ask_after_rest(connection: Any, record: Any, _proxy: Any) -> None:
        """As `pool_pre_ping`, of those that have rested: the server may have ended them meanwhile."""
        used_at, dialect = record.info.get("used_at"), engine.sync_engine.dialect
        if used_at is None or monotonic() - used_at <= RESTED_SECONDS:
            return
        try:
            dialect.do_ping(connection)
        except dialect.loaded_dbapi.Error as error:
            if dialect.is_disconnect(error, connection, None):
                raise InvalidatePoolError from error  # the others that are as old are not asked: all are opened anew
            raise

    return engine


def _postgres_options(url: URL) -> dict[str, str]:
    """A console that is paused in the middle of a transaction must not keep its locks from the others for ever."""
    if "options" in url.query:  # whoever writes some of their own knows why
        return {}
    return {"options": f"-c idle_in_transaction_session_timeout={IDLE_IN_TRANSACTION_SECONDS}s"}


class RollingBackConnection(sqlite3.Connection):
    """Gives up its transaction when it is closed.

    SQLite keeps a closed connection, its transaction and the file's lock for as long as one statement of it lives
    (sqlite3_close_v2), and a task that is cancelled in the middle of a write leaves such a statement in the frames of its
    exception: every other writer would wait for the garbage collector.
    """

    def close(self) -> None:
        with suppress(sqlite3.ProgrammingError):  # it is closed already: the driver does that twice
            if self.in_transaction:
                self.rollback()
        super().close()


def _sqlite_engine(url: URL, *, connections: int, writer: bool) -> AsyncEngine:
    engine = create_async_engine(
        url,
        pool_size=connections,
        max_overflow=0,
        pool_timeout=30,
        connect_args={
            "async_creator_fn": sqlite_driver.connect,
            "timeout": BUSY_TIMEOUT_MS / 1000,
            "factory": RollingBackConnection,
        },
    )

    @event.listens_for(engine.sync_engine, "connect")
    def _prepare(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # transactions are begun below, not guessed by the driver
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = NORMAL" if not writer else "PRAGMA synchronous = FULL")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.execute("PRAGMA cache_size = -4096")
        if not writer:
            cursor.execute("PRAGMA query_only = ON")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def _begin(connection: Any) -> None:
        connection.connection.driver_connection.begin_with_next("BEGIN IMMEDIATE" if writer else "BEGIN")

    return engine
