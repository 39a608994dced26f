"""The object store: packages and archives under keys such as `packages/<sha256>`. A local directory or S3, one code path.

obstore (Rust) does the work; it is imported when the first object is touched.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from tuneplane_server.settings import Settings

if TYPE_CHECKING:
    from obstore.store import LocalStore, MemoryStore, S3Store

CHUNK_BYTES = 5 * 1024 * 1024  # the least that S3 takes as a part of a multipart upload
_KEY = re.compile(r"[a-z]+(/[A-Za-z0-9][A-Za-z0-9._-]*)+\Z", re.ASCII)


class ObjectMissingError(Exception):
    """There is no object under the key."""


class StoreUnavailableError(Exception):
    """The store could not be reached or refused; the message is the store's own."""


class ObjectStore(Protocol):
    """Keys are `<kind>/<segment>…`; a put is atomic: the object is whole or not there."""

    async def put(self, key: str, chunks: AsyncIterator[bytes]) -> int:
        """Store the chunks under `key`, replacing what was there; returns the size. An exception from `chunks` stores nothing."""
        ...

    async def size(self, key: str) -> int | None:
        """Bytes of the object; None when there is none."""
        ...

    def read(self, key: str) -> AsyncIterator[bytes]:
        """The object's bytes; raises `ObjectMissingError` at the first chunk when there is none."""
        ...

    async def fetch(self, key: str, path: Path) -> None:
        """Copy the object to a local file, atomically; no-op for a store whose objects already are that file."""
        ...

    async def delete(self, key: str) -> None: ...


class ObStore:
    """`ObjectStore` over obstore. `root`: the directory when the store is local, else None."""

    def __init__(self, store: LocalStore | S3Store | MemoryStore, root: Path | None) -> None:
        self._store, self._root = store, root

    async def put(self, key: str, chunks: AsyncIterator[bytes]) -> int:
        import obstore
        from obstore.exceptions import BaseError

        _check(key)
        writer = obstore.open_writer_async(self._store, key, buffer_size=CHUNK_BYTES)
        size = 0
        try:
            async with writer as upload:  # closing it makes the object appear; an exception aborts the upload
                async for chunk in chunks:
                    await upload.write(chunk)
                    size += len(chunk)
        except (BaseError, OSError) as error:
            raise StoreUnavailableError(str(error)) from error
        return size

    async def size(self, key: str) -> int | None:
        import obstore
        from obstore.exceptions import BaseError

        _check(key)
        try:
            return (await obstore.head_async(self._store, key))["size"]
        except FileNotFoundError:
            return None
        except (BaseError, OSError) as error:
            raise StoreUnavailableError(str(error)) from error

    async def read(self, key: str) -> AsyncIterator[bytes]:
        import obstore
        from obstore.exceptions import BaseError

        _check(key)
        try:
            result = await obstore.get_async(self._store, key)
            async for chunk in result.stream(min_chunk_size=1024 * 1024):
                yield bytes(chunk)
        except FileNotFoundError:
            raise ObjectMissingError(key) from None
        except (BaseError, OSError) as error:
            raise StoreUnavailableError(str(error)) from error

    async def fetch(self, key: str, path: Path) -> None:
        if self._root is not None and self._root / key == path:
            if not await asyncio.to_thread(path.exists):
                raise ObjectMissingError(key)
            return
        draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
        try:
            with await asyncio.to_thread(_open_draft, draft) as file:
                async for chunk in self.read(key):
                    await asyncio.to_thread(file.write, chunk)
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)

    async def delete(self, key: str) -> None:
        import obstore
        from obstore.exceptions import BaseError

        _check(key)
        try:
            await obstore.delete_async(self._store, key)
        except FileNotFoundError:
            return
        except (BaseError, OSError) as error:
            raise StoreUnavailableError(str(error)) from error


def open_store(settings: Settings) -> ObStore:
    """S3 when a bucket is set, else the storage root itself."""
    if settings.s3_bucket is None:
        return open_local(settings.storage_root)
    from obstore.store import S3Store

    key, secret = settings.s3_access_key_id, settings.s3_secret_access_key
    options = {"client_options": {"allow_http": (settings.s3_endpoint or "").startswith("http://")}}
    store = S3Store(
        settings.s3_bucket,
        region=settings.s3_region,
        **({"endpoint": settings.s3_endpoint} if settings.s3_endpoint else {}),
        **({"access_key_id": key.get_secret_value()} if key else {}),
        **({"secret_access_key": secret.get_secret_value()} if secret else {}),
        **options,
    )
    return ObStore(store, None)


def open_local(root: Path) -> ObStore:
    from obstore.store import LocalStore

    root.mkdir(parents=True, exist_ok=True)
    return ObStore(LocalStore(root), root)


def _open_draft(path: Path) -> BinaryIO:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open("xb")


def _check(key: str) -> None:
    if _KEY.match(key) is None or ".." in key:
        raise ValueError(f"{key!r} is not a key of the object store")
