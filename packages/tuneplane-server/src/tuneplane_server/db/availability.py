"""A database that cannot answer now, told apart from a mistake of ours: 503 or 507 with `Retry-After`, so that the sender keeps
what it has and tries again."""

from __future__ import annotations

import errno
import sqlite3
from dataclasses import dataclass

from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

BUSY_SECONDS, AWAY_SECONDS, FULL_SECONDS = 2, 5, 30
_FULL_ERRNO = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
# Appendix A of the PostgreSQL manual.
_PG_FULL = ("53100", "25006")  # disk_full, read_only_sql_transaction
_PG_BUSY = ("40001", "40P01", "55P03", "53300", "53200", "57014")
_PG_AWAY = ("08", "57P0", "53")
_SQLITE_FULL = (sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)
_SQLITE_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


@dataclass(frozen=True)
class Unavailable:
    """`kind`: `storage-full` (also read-only), `busy` or `away`; `retry_after` in seconds."""

    kind: str
    retry_after: int

    @property
    def status(self) -> int:
        return 507 if self.kind == "storage-full" else 503


FULL = Unavailable("storage-full", FULL_SECONDS)
BUSY = Unavailable("busy", BUSY_SECONDS)
AWAY = Unavailable("away", AWAY_SECONDS)


def unavailable(error: BaseException) -> Unavailable | None:
    """Why storing failed for a reason that passes; None for a mistake of ours, which must be seen."""
    if isinstance(error, PoolTimeoutError):
        return BUSY
    if isinstance(error, DBAPIError):
        if isinstance(error.orig, sqlite3.Error):
            return _of_sqlite(error.orig)
        return _of_postgres(error)
    if isinstance(error, OSError) and error.errno in _FULL_ERRNO:
        return FULL
    return None


def _of_sqlite(error: sqlite3.Error) -> Unavailable | None:
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if code is not None else None
    if primary in _SQLITE_FULL:
        return FULL
    if primary in _SQLITE_BUSY:
        return BUSY
    return AWAY if primary == sqlite3.SQLITE_IOERR else None


def _of_postgres(error: DBAPIError) -> Unavailable | None:
    state = getattr(error.orig, "sqlstate", None) or ""
    if state in _PG_FULL:
        return FULL
    if state in _PG_BUSY:
        return BUSY
    # A connection that breaks before or within a statement has no SQLSTATE.
    lost = not state and (isinstance(error, OperationalError | InterfaceError) or error.connection_invalidated)
    return AWAY if lost or state.startswith(_PG_AWAY) else None
