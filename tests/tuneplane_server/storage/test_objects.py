"""The object store: one suite on a local directory and on a store whose objects are no files of this machine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from obstore.store import MemoryStore

from tuneplane_server.settings import load_settings
from tuneplane_server.storage.objects import (
    CHUNK_BYTES,
    ObjectMissingError,
    ObStore,
    StoreUnavailableError,
    open_local,
    open_store,
)

KEY = "packages/" + "a" * 64


async def chunks(*parts: bytes) -> AsyncIterator[bytes]:
    for part in parts:
        yield part


@pytest.fixture(params=["local", "remote"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ObStore:
    return open_local(tmp_path) if request.param == "local" else ObStore(MemoryStore(), None)


async def read(store: ObStore, key: str) -> bytes:
    return b"".join([chunk async for chunk in store.read(key)])


async def test_what_was_put_is_read(store: ObStore) -> None:
    assert await store.size(KEY) is None
    assert await store.put(KEY, chunks(b"one", b"two")) == 6
    assert await store.size(KEY) == 6
    assert await read(store, KEY) == b"onetwo"
    assert await store.put(KEY, chunks(b"new")) == 3
    assert await read(store, KEY) == b"new"
    await store.delete(KEY)
    await store.delete(KEY)
    assert await store.size(KEY) is None


async def test_a_large_object_goes_through_in_parts(store: ObStore) -> None:
    part = bytes(range(256)) * 4096
    assert await store.put(KEY, chunks(*[part] * 13)) == 13 * len(part) > 2 * CHUNK_BYTES
    assert await read(store, KEY) == part * 13


async def test_an_upload_that_breaks_off_leaves_nothing(store: ObStore) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"x" * (CHUNK_BYTES + 1)
        raise RuntimeError("the client is gone")

    with pytest.raises(RuntimeError, match="gone"):
        await store.put(KEY, broken())
    assert await store.size(KEY) is None


async def test_what_is_not_there_is_said(store: ObStore, tmp_path: Path) -> None:
    with pytest.raises(ObjectMissingError):
        await read(store, KEY)
    with pytest.raises(ObjectMissingError):
        await store.fetch(KEY, tmp_path / KEY)


async def test_an_object_is_fetched_to_where_nodes_read_it(store: ObStore, tmp_path: Path) -> None:
    await store.put(KEY, chunks(b"content"))
    await asyncio.gather(*(store.fetch(KEY, tmp_path / KEY) for _time in range(4)))
    assert (tmp_path / KEY).read_bytes() == b"content"
    assert [path.name for path in (tmp_path / "packages").iterdir()] == ["a" * 64]


@pytest.mark.parametrize(
    "key", ["", "packages", "packages/", "/packages/x", "packages/../x", "packages/a\0", "packages//x"]
)
async def test_what_is_no_key_is_refused(tmp_path: Path, key: str) -> None:
    with pytest.raises(ValueError, match="key"):
        await open_local(tmp_path).size(key)


async def test_a_store_that_is_away_is_told_apart_from_an_object_that_is_missing() -> None:
    settings = load_settings(
        {
            "TUNEPLANE_S3_ENDPOINT": "http://127.0.0.1:1",
            "TUNEPLANE_S3_BUCKET": "x",
            "TUNEPLANE_S3_ACCESS_KEY_ID": "k",
            "TUNEPLANE_S3_SECRET_ACCESS_KEY": "s",
        }
    )
    with pytest.raises(StoreUnavailableError):
        await open_store(settings).size(KEY)
