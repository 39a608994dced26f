"""Write transactions of many statements, run as plain functions on a `Connection`.

On Postgres the function runs on the asynchronous connection. SQLite's asynchronous driver hands every single call to
another thread and back, which made a batch of points eight times dearer (10 ms instead of 1.2); there the whole
transaction runs in one thread of its own, in turn with all other writers of this process.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event

from tuneplane_server.db.engine import BUSY_TIMEOUT_MS, Database


class Transactions:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._engine: Engine | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="telemetry-writer")

    async def run[T](self, work: Callable[[Connection], T]) -> T:
        """`work` in one transaction: committed when it returns, rolled back when it raises."""
        if not self._database.is_sqlite:
            async with self._database.begin() as session:
                return await session.run_sync(lambda inner: work(inner.connection()))
        async with self._database.turn_to_write():
            running = asyncio.get_running_loop().run_in_executor(self._thread, self._in_transaction, work)
            try:
                return await asyncio.shield(running)
            except asyncio.CancelledError:
                with suppress(Exception):  # the caller is gone; what counts is that the turn is not given up too early
                    await running
                raise

    def close(self) -> None:
        """Waits for the transaction that runs."""
        self._thread.shutdown(wait=True)
        if self._engine is not None:
            self._engine.dispose()

    def _in_transaction[T](self, work: Callable[[Connection], T]) -> T:
        if self._engine is None:
            self._engine = _engine(self._database.url)
        with self._engine.begin() as connection:
            return work(connection)


def _engine(url: URL) -> Engine:
    engine = create_engine(
        url.set(drivername="sqlite+pysqlite"),
        pool_size=1,
        max_overflow=0,
        connect_args={"timeout": BUSY_TIMEOUT_MS / 1000, "check_same_thread": False},
    )

    @event.listens_for(engine, "connect")
    def _prepare(connection: Any, _record: Any) -> None:
        connection.isolation_level = None  # transactions are begun below, not guessed by the driver
        cursor = connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
        cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = FULL")  # an acknowledged record survives a power cut
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.execute("PRAGMA cache_size = -4096")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine
