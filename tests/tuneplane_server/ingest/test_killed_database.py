"""A real PostgreSQL dies (all of its processes at once) again and again while a real runner's shipper sends to a console.

SQLite's database dies with its console: `test_killed_console`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.services import postgres
from tests.services.databases import PostgresServer
from tests.services.plugin import SESSION
from tests.tuneplane_server.ingest.test_killed_console import deliver_in_spite_of
from tuneplane_server.db.engine import Database
from tuneplane_server.db.migrations import upgrade


@pytest.fixture
def mortal_postgres(pytestconfig: pytest.Config, postgres_server: PostgresServer) -> tuple[PostgresServer, Path]:
    """A cluster of its own, and its folder. It is asked for after the other one, which says whether there can be any."""
    session = pytestconfig.stash[SESSION]
    facts = session.get("postgres-mortal", partial(postgres.start, settings=postgres.CRASHING))
    return PostgresServer(facts["port"]), session.folder / "postgres-mortal"


@pytest.mark.timeout(240)
async def test_a_database_killed_while_a_console_stores_ends_up_with_every_record_once(mortal_postgres, tmp_path):
    server, home = mortal_postgres
    server.create("killed")
    url = server.url("killed")
    database = Database(url)
    await upgrade(database)
    await database.close()
    await deliver_in_spite_of(lambda _console: postgres.crash(home), url, tmp_path)
