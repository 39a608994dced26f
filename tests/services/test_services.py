"""The services that other tests stand on really are what their fixtures say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine

from tests.services import containers
from tests.services.containers import ContainerImage, Engine
from tests.services.databases import PostgresServer


async def test_each_database_is_fresh_and_writable(database_url: str) -> None:
    engine = create_async_engine(database_url)
    async with engine.begin() as connection:
        tables = await connection.run_sync(lambda sync: sqlalchemy.inspect(sync).get_table_names())
        await connection.execute(sqlalchemy.text("create table marks (id integer primary key)"))
        await connection.execute(sqlalchemy.text("insert into marks values (1)"))
    await engine.dispose()
    assert tables == []


async def test_sqlite_uses_a_write_ahead_log(sqlite_url: str) -> None:
    engine = create_async_engine(sqlite_url)
    async with engine.connect() as connection:
        mode = (await connection.execute(sqlalchemy.text("pragma journal_mode"))).scalar_one()
    await engine.dispose()
    assert mode == "wal"


async def test_a_postgres_database_can_be_copied(postgres_server: PostgresServer, postgres_url: str) -> None:
    engine = create_async_engine(postgres_url)
    async with engine.begin() as connection:
        await connection.execute(sqlalchemy.text("create table marks (id integer primary key)"))
    await engine.dispose()

    original = postgres_url.rpartition("/")[2]
    postgres_server.create(f"{original}_copy", template=original)
    copy = create_async_engine(postgres_server.url(f"{original}_copy"))
    async with copy.connect() as connection:
        tables = await connection.run_sync(lambda sync: sqlalchemy.inspect(sync).get_table_names())
    await copy.dispose()
    postgres_server.drop(f"{original}_copy")
    assert tables == ["marks"]


@pytest.mark.parametrize("turn", [1, 2])
async def test_redis_is_empty_for_each_test(redis_url: str, turn: int) -> None:
    from redis.asyncio import Redis

    async with Redis.from_url(redis_url) as client:
        assert await client.dbsize() == 0
        await client.set("turn", turn)
        assert await client.get("turn") == str(turn).encode()


@pytest.mark.services
@pytest.mark.parametrize("kind", ["docker", "podman"])
def test_each_engine_answers_on_its_socket(kind: str, request: pytest.FixtureRequest) -> None:
    engine: Engine = request.getfixturevalue(f"{kind}_engine")
    with engine.client() as client:
        version = client.get("/version").raise_for_status().json()
    assert version["ApiVersion"]
    assert ("Podman Engine" in {part["Name"] for part in version["Components"]}) is (kind == "podman")


def test_the_training_runtimes_python_runs_in_a_container(container_image: ContainerImage) -> None:
    code, output = containers.run(
        container_image, "python", "-c", "import sys, trl; print(sys.version_info[:2], trl.__version__)"
    )
    assert code == 0, output
    assert output.strip().startswith("(3, 11) 1.16.")


def test_the_image_holds_nothing_but_busybox(container_image: ContainerImage) -> None:
    bare = ContainerImage(container_image.engine, container_image.reference, (), container_image.python)
    code, output = containers.run(bare, "sh", "-c", "readlink -f $(which sha256sum); ls /usr/lib; which python python3")
    assert code == 1
    assert output.split() == ["/bin/busybox"]


@pytest.mark.browser
def test_chromium_shows_a_page_in_chinese(chromium: Any) -> None:
    page = chromium.new_page()
    try:
        page.set_content("<h1>实验</h1>")
        assert page.inner_text("h1") == "实验"
    finally:
        page.close()


def test_the_training_runtime_holds_nothing_of_ours(training_runtime: Path) -> None:
    assert (training_runtime / "bin/accelerate").exists()
    assert not list(training_runtime.glob("lib/python3.*/site-packages/tuneplane*"))
