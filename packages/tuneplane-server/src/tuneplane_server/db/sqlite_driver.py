"""aiosqlite with one trip to the connection's thread for a statement, instead of one for each of its cursor's four calls, and
none for the begin of a transaction.

A request of the console makes a dozen statements. Each trip wakes a thread that has to be given the interpreter, and on a busy
machine a processor: the trips cost more than what SQLite does on them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Any, Self

import aiosqlite

_CHUNK = 64  # aiosqlite's own: rows that an iterated cursor fetches at a time; nothing here iterates one


class OneTripCursor:
    """What SQLAlchemy asks of a cursor. All rows of a statement are there when it has been executed, and the cursor is closed."""

    arraysize = 1

    def __init__(self, connection: OneTripConnection) -> None:
        self._connection = connection
        self._rows: list[Any] = []
        self.description: Any = None
        self.rowcount, self.lastrowid = -1, 0

    async def __aenter__(self) -> Self:
        return self

    async def execute(self, sql: str, parameters: Any = ()) -> Self:
        return await self._trip(lambda cursor: cursor.execute(sql, parameters))

    async def executemany(self, sql: str, parameters: Any) -> Self:
        return await self._trip(lambda cursor: cursor.executemany(sql, parameters))

    async def fetchall(self) -> list[Any]:
        rows, self._rows = self._rows, []
        return rows

    async def close(self) -> None:
        self._rows = []

    async def _trip(self, run: Callable[[sqlite3.Cursor], object]) -> Self:
        await self._connection.on_thread(partial(self._run, run))
        return self

    def _run(self, run: Callable[[sqlite3.Cursor], object]) -> None:
        """On the connection's thread."""
        cursor = self._connection.cursor_on_thread()
        try:
            run(cursor)
            self.description = cursor.description
            self._rows = cursor.fetchall() if cursor.description else []
            self.rowcount, self.lastrowid = cursor.rowcount, cursor.lastrowid or 0
        finally:
            cursor.close()


class OneTripConnection(aiosqlite.Connection):
    _begin: str | None = None

    def cursor(self) -> Any:
        return OneTripCursor(self)

    def begin_with_next(self, statement: str) -> None:
        """Begin a transaction by `statement` on the trip of the next one; nothing is begun when none comes."""
        self._begin = statement

    async def commit(self) -> None:
        if not self._begun_nothing():
            await super().commit()

    async def rollback(self) -> None:
        if not self._begun_nothing():
            await super().rollback()

    def _begun_nothing(self) -> bool:
        begin, self._begin = self._begin, None
        return begin is not None

    async def on_thread(self, work: Callable[[], None]) -> None:
        await self._execute(work)

    def cursor_on_thread(self) -> sqlite3.Cursor:
        cursor = self._conn.cursor()
        if self._begin is not None:
            cursor.execute(self._begin)
            self._begin = None
        return cursor


def connect(database: str, **options: Any) -> OneTripConnection:
    """For SQLAlchemy's `async_creator_fn`: a connection that opens when it is awaited."""
    connection = OneTripConnection(partial(sqlite3.connect, database, **options), _CHUNK)
    connection._thread.daemon = True  # as SQLAlchemy does it: a process must not wait for its connections to end
    return connection
