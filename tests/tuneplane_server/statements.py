"""Lets the databases of all tests of one process share what SQLAlchemy compiled.

Each engine compiles every statement anew, which a console does once in its life and a test did once a test: half of the processor
time of a short one. The compiled statements belong to a dialect, so the engines of one kind are given the first one's.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Engine, event
from sqlalchemy.util import LRUCache

STATEMENTS = 2000


@contextmanager
def compiled_once() -> Iterator[None]:
    """Until the end, an engine that connects has its kind's dialect, which an earlier connection initialised, and its cache."""
    dialects: dict[tuple[type, Any], Any] = {}
    cache: Any = LRUCache(STATEMENTS)

    def share(connection: Connection) -> None:
        engine = connection.engine
        own = engine.dialect
        shared = dialects.setdefault((type(own), own.server_version_info), own)
        engine.dialect = connection.dialect = shared
        engine._compiled_cache = cache

    event.listen(Engine, "engine_connect", share)
    yield
    event.remove(Engine, "engine_connect", share)
