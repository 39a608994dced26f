"""Tables as Parquet, by arro3 (the Rust implementation of Arrow in wheels of a few megabytes), written as they are read.

Its writer pulls batches and pushes bytes in a thread of its own; both ends wait for the event loop, a portion at a time, so
neither the rows nor the file are ever whole in memory.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Coroutine, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from typing import IO, Any, cast

from tuneplane_server.features.telemetry.exports.columns import Column, Part

ROW_GROUP = 1 << 16
QUEUED = 8  # portions of bytes that wait to be sent
LOOK_SECONDS = 0.5
STALLED_SECONDS = 60.0  # a reader that takes nothing for so long is given up: it must not hold a writer
WRITERS = 2
_TYPES = {"whole": "int64", "number": "float64", "text": "string"}
# Threads of their own: each waits for rows that are unpacked in the loop's threads, and would wait for ever once it held the last.
_threads = ThreadPoolExecutor(WRITERS, thread_name_prefix="parquet-writer")
_busy: set[object] = set()


def is_busy() -> bool:
    """Whether another file would have to wait until one of those being written is done."""
    return len(_busy) >= WRITERS


class _AbandonedError(Exception):
    """Nobody reads the file any more."""


class _Pipe:
    """A file for the writer: what it writes goes to the event loop's queue, which it waits for."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop, self.queue, self.stop = loop, asyncio.Queue[bytes | None](QUEUED), threading.Event()
        self._written = 0

    def write(self, data: bytes) -> int:
        self.wait(self.queue.put(bytes(data)), STALLED_SECONDS)
        self._written += len(data)
        return len(data)

    def tell(self) -> int:
        return self._written

    def seek(self, *_place: int) -> int:
        raise OSError("an export is written from its start to its end")

    def flush(self) -> None:
        """Every write is passed on at once."""

    def wait[T](self, what: Coroutine[Any, Any, T], seconds: float = math.inf) -> T:
        """The result of a coroutine of the event loop; raises `_AbandonedError` when the reader has gone, or after `seconds`."""
        if self.stop.is_set():
            what.close()
            raise _AbandonedError
        future: Future[T] = asyncio.run_coroutine_threadsafe(what, self._loop)
        until = time.monotonic() + seconds
        while True:
            try:
                return future.result(LOOK_SECONDS)
            except FutureTimeout:
                if self.stop.is_set() or time.monotonic() > until:
                    future.cancel()
                    raise _AbandonedError from None


async def parquet_file(columns: Sequence[Column], parts: AsyncIterator[Part]) -> AsyncGenerator[bytes]:
    """The bytes of the file. An error while reading the rows is raised here."""
    pipe = _Pipe(asyncio.get_running_loop())
    writing = asyncio.create_task(_written(columns, parts, pipe))
    try:
        while (data := await pipe.queue.get()) is not None:
            yield data
        await writing
    finally:
        pipe.stop.set()
        while not pipe.queue.empty():
            pipe.queue.get_nowait()
        await asyncio.wait([writing])
        if not writing.cancelled():
            writing.exception()  # whoever would read it has gone, or has been told


async def _written(columns: Sequence[Column], parts: AsyncIterator[Part], pipe: _Pipe) -> None:
    _busy.add(pipe)
    try:
        await asyncio.get_running_loop().run_in_executor(_threads, _write, columns, parts, pipe)
    finally:
        _busy.discard(pipe)
        if not pipe.stop.is_set():
            await pipe.queue.put(None)


def _write(columns: Sequence[Column], parts: AsyncIterator[Part], pipe: _Pipe) -> None:
    from arro3.core import DataType, Field, RecordBatchReader, Schema  # only who exports Parquet pays for it
    from arro3.io import write_parquet

    fields = [Field(one.name, getattr(DataType, _TYPES[one.kind])(), nullable=one.optional) for one in columns]
    schema = Schema(fields)
    reader = RecordBatchReader.from_batches(schema, _batches(schema, parts, pipe))
    file = cast("IO[bytes]", pipe)
    write_parquet(reader, file, compression="zstd(1)", max_row_group_size=ROW_GROUP, skip_arrow_metadata=True)


def _batches(schema: Any, parts: AsyncIterator[Part], pipe: _Pipe) -> Iterator[Any]:
    from arro3.core import Array, RecordBatch

    async def following() -> Part | None:
        return await anext(parts, None)

    while (part := pipe.wait(following())) is not None:
        types = [field.type for field in schema]
        arrays = [Array(list(values), type=kind) for values, kind in zip(part.values, types, strict=True)]
        yield RecordBatch.from_arrays(arrays, schema=schema)
