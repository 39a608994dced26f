"""A launch that is given up half-way: what it had asked for happens before it says so, never afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.tuneplane_node.bench import Bench
from tests.tuneplane_node.test_process_runtime import changed_supervisor
from tuneplane_node.engine.runtimes import process
from tuneplane_node.engine.supervisor import supervisor_command


class Gate:
    """Stands between us and an engine; a request that holds `word` in its first line waits until `open` is set."""

    def __init__(self, socket: Path, engine: str, word: bytes) -> None:
        self.socket, self._engine, self._word = socket, engine.removeprefix("unix://"), word
        self.reached, self.open = asyncio.Event(), asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if self._word in head.splitlines()[0]:
            self.reached.set()
            await self.open.wait()
        below_reader, below_writer = await asyncio.open_unix_connection(self._engine)
        below_writer.write(head)
        await asyncio.gather(_copy(below_reader, writer), _copy(reader, below_writer))


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(65536):
            target.write(data)
            await target.drain()
    except ConnectionError:
        return
    finally:
        target.close()


@asynccontextmanager
async def gate_before(bench: Bench, folder: Path, word: bytes) -> AsyncIterator[Gate]:
    gate = Gate(folder / "gate", bench.address, word)
    server = await asyncio.start_unix_server(gate.serve, gate.socket)
    async with server:
        yield gate
        gate.open.set()


async def given_up_at(bench: Bench, folder: Path, word: bytes, script: str) -> None:
    """Launch, cancel while the call with this word is under way, let the call through, and return when the launch has."""
    async with gate_before(bench, folder, word) as gate:
        engine = bench.new_engine(docker_host=f"unix://{gate.socket}", podman_host=f"unix://{gate.socket}")
        launching = asyncio.create_task(engine.launch(bench.request(script)))
        await gate.reached.wait()
        launching.cancel()
        _done, pending = await asyncio.wait([launching], timeout=0.2)
        assert pending, "it says that it is over, and its call has not even arrived"
        gate.open.set()
        with pytest.raises(asyncio.CancelledError):
            await launching


async def test_a_container_created_after_the_cancel_is_gone_when_the_launch_is_over(
    container_bench: Bench, tmp_path: Path
) -> None:
    await given_up_at(container_bench, tmp_path, b"/containers/create", f"touch {container_bench.directory}/ran")
    assert await container_bench.engine.owned() == []
    assert not (container_bench.directory / "ran").exists()


async def test_a_container_started_after_the_cancel_is_there_to_be_found(
    container_bench: Bench, tmp_path: Path
) -> None:
    """A console that is told to stop gives its launches up as well: what has begun goes on, and the next one adopts it."""
    await given_up_at(container_bench, tmp_path, b"/start", container_bench.waiting_job(5))
    (found,) = await container_bench.engine.owned()
    assert (await container_bench.engine.observe(found.handle)).state == "running"
    container_bench.let_go()
    assert (await container_bench.ended(found.handle)).exit_code == 5


async def test_a_process_started_after_the_cancel_is_there_to_be_found(
    process_bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = process_bench.fifo("gate")
    start = "    if os.fork():\n        os._exit(0)"
    waiting = (
        f"    open({str(process_bench.directory / 'reached')!r}, 'w').close(); open({str(gate)!r}).read()\n{start}"
    )
    folder = changed_supervisor(tmp_path, {start: waiting})
    monkeypatch.setattr(process, "supervisor_command", lambda record: supervisor_command(record, folder))
    launching = asyncio.create_task(process_bench.launch(process_bench.waiting_job(5)))
    await process_bench.exists("reached")
    launching.cancel()
    _done, pending = await asyncio.wait([launching], timeout=0.2)
    assert pending
    await asyncio.to_thread(gate.write_text, "go")
    with pytest.raises(asyncio.CancelledError):
        await launching
    (found,) = await process_bench.engine.owned()
    assert (await process_bench.engine.observe(found.handle)).state == "running"
    process_bench.let_go()
    assert (await process_bench.ended(found.handle)).exit_code == 5
