"""Write transactions of many statements, run as plain functions on a `Connection`, in threads of their own.

The asynchronous drivers hand every single call over and back, which made a batch of points eight times dearer on SQLite (10 ms
instead of 1.2) and half as dear again on Postgres. What waits while a transaction is being committed goes into the next one
together, so fifty runs that send a little each second do not wait for fifty commits.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, cast

from sqlalchemy import URL, Connection, Engine, create_engine, event

from tuneplane_server.db.availability import unavailable
from tuneplane_server.db.engine import BUSY_TIMEOUT_MS, IDLE_IN_TRANSACTION_SECONDS, Database

GROUP = 16  # pieces of work in one transaction at most
POSTGRES_WRITERS = 3  # SQLite has one
# Who holds the lock of a run longer than this is stuck; the batch is told to come back.
LOCK_SECONDS = 10


@dataclass(eq=False)
class _Item:
    """`key`: the run whose lock the work takes first."""

    key: str
    work: Callable[[Connection], Any]
    done: asyncio.Future[Any]


@dataclass
class _Failed:
    error: Exception


class Transactions:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._writers = 1 if database.is_sqlite else POSTGRES_WRITERS
        self._engine: Engine | None = None
        self._threads = ThreadPoolExecutor(self._writers, thread_name_prefix="telemetry-writer")
        self._waiting: deque[_Item] = deque()
        self._pumps: set[asyncio.Task[None]] = set()

    async def run[T](self, key: str, work: Callable[[Connection], T]) -> T:
        """`work` in a transaction: committed when it has returned, rolled back when it raised. `work` may be called again when
        what shared the transaction failed; `key` is the run whose lock it takes, if it takes one.
        """
        item = _Item(key, work, asyncio.get_running_loop().create_future())
        self._waiting.append(item)
        if len(self._pumps) < self._writers:
            pump = asyncio.create_task(self._pump())
            self._pumps.add(pump)
            pump.add_done_callback(self._pumps.discard)
        try:
            result: T = await asyncio.shield(item.done)
            return result
        except asyncio.CancelledError:  # the caller is gone; work that has begun ends all the same
            if item in self._waiting:
                self._waiting.remove(item)
            else:
                await asyncio.wait([item.done])
            raise

    @property
    def waiting(self) -> int:
        """Pieces of work that no transaction has taken up yet."""
        return len(self._waiting)

    async def close(self) -> None:
        """Waits for what has been handed in."""
        while self._pumps:
            await asyncio.gather(*self._pumps, return_exceptions=True)
        await asyncio.to_thread(self._threads.shutdown)
        if self._engine is not None:
            self._engine.dispose()

    @property
    def engine(self) -> Engine:
        """The engine of the writing threads; made in the loop's thread, before the first of them asks for it."""
        if self._engine is None:
            url = self._database.url
            self._engine = _sqlite_engine(url) if self._database.is_sqlite else _postgres_engine(url, self._writers)
        return self._engine

    async def _pump(self) -> None:
        try:
            await self._work_off()
        finally:  # at once, with the last look at what waits: a `run` that comes before the task's callbacks starts another
            self._pumps.discard(cast("asyncio.Task[None]", asyncio.current_task()))

    async def _work_off(self) -> None:
        loop, engine = asyncio.get_running_loop(), self.engine
        while self._waiting:
            async with self._database.turn_to_write():
                group = [self._waiting.popleft() for _item in range(min(GROUP, len(self._waiting)))]
                # Everyone takes the locks of runs in the same order, or two groups could wait for each other.
                group.sort(key=lambda item: item.key)
                try:
                    results = await loop.run_in_executor(self._threads, self._write, engine, group)
                except RuntimeError as error:  # closed already
                    results = [_Failed(error)] * len(group)
            for item, result in zip(group, results, strict=True):
                if isinstance(result, _Failed):
                    item.done.set_exception(result.error)
                    item.done.exception()  # whoever waited may be gone
                else:
                    item.done.set_result(result)

    def _write(self, engine: Engine, group: list[_Item]) -> list[Any]:
        """What each came to, or `_Failed`."""
        try:
            with engine.begin() as connection:
                return [item.work(connection) for item in group]
        except Exception as error:  # noqa: BLE001 - handed to whoever waits for it
            if len(group) <= 1 or unavailable(error) is not None:
                return [_Failed(error)] * len(group)
        # One of them has a fault of its own: it must not cost the others anything.
        return [self._write(engine, [item])[0] for item in group]


def _postgres_engine(url: URL, connections: int) -> Engine:
    options = f"-c idle_in_transaction_session_timeout={IDLE_IN_TRANSACTION_SECONDS}s -c lock_timeout={LOCK_SECONDS}s"
    given = {} if "options" in url.query else {"options": options}  # whoever writes some of their own knows why
    return create_engine(url, pool_size=connections, max_overflow=0, pool_pre_ping=True, connect_args=given)


def _sqlite_engine(url: URL) -> Engine:
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
