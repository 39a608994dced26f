"""A migrated database and a console to talk to, on SQLite and Postgres. Migrating is done once per worker and copied."""

from __future__ import annotations

import asyncio
import shutil
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.tuneplane_server.executors.scripted import ScriptedExecutor
from tests.tuneplane_server.harness import Api, Harness
from tests.tuneplane_server.hashing import quick_hashes
from tests.tuneplane_server.statements import compiled_once
from tuneplane_server.db.engine import Database
from tuneplane_server.db.migrations import upgrade
from tuneplane_server.features.accounts.principal import Principal

if TYPE_CHECKING:
    from tests.services.databases import PostgresServer


@pytest.fixture(scope="session", autouse=True)
def _statements() -> Iterator[None]:
    with compiled_once():
        yield


@pytest.fixture(scope="session", autouse=True)
def _passwords() -> Iterator[None]:
    with quick_hashes():
        yield


async def _migrate(url: str) -> None:
    database = Database(url)
    try:
        await upgrade(database)
    finally:
        await database.close()


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("template") / "template.db"
    asyncio.run(_migrate(f"sqlite+aiosqlite:///{path}"))
    return path


@pytest.fixture(scope="session")
def postgres_template(postgres_server: PostgresServer) -> str:
    name = f"template_{uuid.uuid4().hex}"
    postgres_server.create(name)
    asyncio.run(_migrate(postgres_server.url(name)))
    return name


@pytest.fixture
def migrated_sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    """URL of a migrated SQLite database of this test's own."""
    path = tmp_path / "data" / "tuneplane.db"
    path.parent.mkdir()
    shutil.copy(sqlite_template, path)
    return f"sqlite+aiosqlite:///{path}"


@pytest.fixture
def migrated_postgres_url(postgres_server: PostgresServer, postgres_template: str) -> Iterator[str]:
    """URL of a migrated Postgres database of this test's own."""
    name = f"test_{uuid.uuid4().hex}"
    postgres_server.create(name, postgres_template)
    yield postgres_server.url(name)
    postgres_server.drop(name)


@pytest.fixture(params=["sqlite", "postgres"])
def migrated_url(request: pytest.FixtureRequest) -> Any:
    """Runs the test twice: on a migrated SQLite and a migrated Postgres database."""
    return request.getfixturevalue(f"migrated_{request.param}_url")


@pytest.fixture
async def database(migrated_url: str) -> AsyncIterator[Database]:
    """Runs the test twice: a migrated, empty `Database` on SQLite and on Postgres."""
    database = Database(migrated_url)
    yield database
    await database.close()


@pytest.fixture
async def harness(migrated_url: str, tmp_path: Path) -> AsyncIterator[Harness]:
    """Runs the test twice: a console on a scripted executor, on SQLite and on Postgres."""
    harness = Harness(migrated_url, tmp_path, ScriptedExecutor())
    yield harness
    await harness.close()


@pytest.fixture
async def ada(harness: Harness) -> Principal:
    """A user who has brought a package."""
    principal = await harness.user("ada")
    await harness.bring_package(principal)
    return principal


@pytest.fixture
def api(harness: Harness) -> Api:
    """Runs the test twice: the console's HTTP side on SQLite and on Postgres."""
    return Api.over(harness)


@pytest.fixture
async def site(migrated_sqlite_url: str, tmp_path: Path) -> AsyncIterator[Api]:
    """The console's HTTP side on SQLite, where the database is not what is tested."""
    harness = Harness(migrated_sqlite_url, tmp_path, ScriptedExecutor())
    yield Api.over(harness)
    await harness.close()
