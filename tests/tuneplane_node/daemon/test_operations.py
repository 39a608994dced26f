"""Launches, stops and cleanups outlive whoever asked for them, are joined by who asks again, and never come too late."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, override

import httpx2
import pytest

from tests.tuneplane_node.bench import PATIENCE, Bench, until, until_told
from tests.tuneplane_node.daemon.served import TOKEN, ServedNode
from tuneplane_node.daemon.node import Node
from tuneplane_node.daemon.operations import Operations
from tuneplane_node.daemon.removals import Removals
from tuneplane_node.daemon.tasks import MOST_KEPT, Shared
from tuneplane_node.engine import (
    LABEL_ATTEMPT,
    LABEL_JOB,
    Engine,
    LaunchRequest,
    NodeError,
    OwnedContainer,
    RuntimeHandle,
)
from tuneplane_node.wire import LaunchCall


class SlowEngine(Engine):
    """The real engine on process mode, whose launches wait for a door, as for an image that is pulled."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.door = asyncio.Event()
        self.begun = 0

    @override
    async def launch(self, request: LaunchRequest) -> RuntimeHandle:
        self.begun += 1
        async with asyncio.timeout(PATIENCE):
            await self.door.wait()
        return await super().launch(request)


@pytest.fixture
async def slow(process_bench: Bench) -> AsyncIterator[SlowEngine]:
    engine = SlowEngine(process_bench.instance, process_bench.state_root, runtime="process")
    yield engine
    await engine.close()


@pytest.fixture
async def operations(slow: SlowEngine, tmp_path: Path) -> AsyncIterator[Operations]:
    """A call waits hardly at all."""
    made = Operations(slow, tmp_path / "storage", Removals(tmp_path / "removals.json"), wait_seconds=0.01)
    yield made
    await made.close(PATIENCE)


async def until_done[T](call: Any) -> T:
    """Asks again as the client does."""
    return await until_told(call, lambda answer: answer is not None and answer is not False)


def labelled(job: str) -> dict[str, str]:
    return {LABEL_JOB: job, LABEL_ATTEMPT: "1"}


# --- launches ---------------------------------------------------------------------------------------------------------


async def test_a_launch_goes_on_without_its_caller_and_is_begun_once(
    operations: Operations, slow: SlowEngine, process_bench: Bench
) -> None:
    request = process_bench.request(process_bench.waiting_job())
    assert await operations.launch(LaunchCall(request, operation="a")) is None
    assert await operations.launch(LaunchCall(request, operation="another console")) is None
    slow.door.set()
    handle = await until_done(lambda: operations.launch(LaunchCall(request, operation="a")))
    assert handle == await operations.launch(LaunchCall(request, operation="another console"))
    assert slow.begun == 1
    assert (await slow.observe(process_bench.handle())).state == "running"


async def test_who_lost_the_refusal_gets_it_when_asking_again_and_others_try_anew(
    operations: Operations, slow: SlowEngine, process_bench: Bench
) -> None:
    slow.door.set()
    request = process_bench.request("", command=["no-such-command"])

    async def refused(operation: str) -> bool:
        try:
            return await operations.launch(LaunchCall(request, operation=operation)) is not None
        except NodeError as problem:
            return problem.code == "command-not-found"

    for operation, begun in (("a", 1), ("a", 1), ("b", 2)):
        assert await until_told(lambda operation=operation: refused(operation), bool)
        assert slow.begun == begun


async def test_a_launch_of_another_job_under_the_same_name_is_refused_while_one_is_in_flight(
    operations: Operations, process_bench: Bench
) -> None:
    assert await operations.launch(LaunchCall(process_bench.request("true"), operation="a")) is None
    other = process_bench.request("true", labels=labelled("another"))
    with pytest.raises(NodeError) as refusal:
        await operations.launch(LaunchCall(other, operation="b"))
    assert refusal.value.code == "name-conflict"


async def test_a_cleanup_ends_a_launch_in_flight(
    operations: Operations, slow: SlowEngine, process_bench: Bench
) -> None:
    request = process_bench.request("true")
    assert await operations.launch(LaunchCall(request, operation="a")) is None
    await until_done(lambda: operations.cleanup(process_bench.handle()))
    slow.door.set()
    with pytest.raises(NodeError) as refusal:
        await operations.launch(LaunchCall(request, operation="a"))
    assert refusal.value.code == "launch-superseded"
    assert await slow.owned() == []
    assert operations.launching == 0


async def test_a_cleanup_of_an_attempt_ends_its_launches_and_removes_what_it_has(
    operations: Operations, slow: SlowEngine, process_bench: Bench
) -> None:
    slow.door.set()
    for name, job in (("a", "j1"), ("b", "j1"), ("c", "j2")):
        request = process_bench.request(process_bench.waiting_job(), name, labels=labelled(job))
        await until_done(lambda request=request, name=name: operations.launch(LaunchCall(request, operation=name)))
    slow.door.clear()
    pending = process_bench.request("true", "d", labels=labelled("j1"))
    assert await operations.launch(LaunchCall(pending, operation="d")) is None
    assert await until_done(lambda: operations.cleanup_attempt("j1", 1))
    assert [item.handle for item in await slow.owned()] == [process_bench.handle("c")]
    assert operations.launching == 0


async def test_a_launch_that_began_before_a_cleanup_comes_too_late(
    operations: Operations, slow: SlowEngine, process_bench: Bench
) -> None:
    """As a packet does that waited in the queue of a daemon which was stopped for a while."""
    slow.door.set()
    request, tickets = process_bench.request("true"), operations._removals
    for cleanup in (
        lambda: operations.cleanup(process_bench.handle()),
        lambda: operations.cleanup_attempt("0123456789abcdef", 1),
    ):
        ticket = tickets.ticket()
        assert await until_done(cleanup)
        with pytest.raises(NodeError) as refusal:
            await operations.launch(LaunchCall(request, operation="late", ticket=ticket))
        assert (refusal.value.code, refusal.value.retry) == ("launch-superseded", True)
    assert slow.begun == 0
    assert await until_done(lambda: operations.launch(LaunchCall(request, operation="new", ticket=tickets.ticket())))


async def test_a_daemon_that_ends_begins_nothing_and_leaves_nothing_half_made(
    operations: Operations, slow: SlowEngine, process_bench: Bench
) -> None:
    request = process_bench.request("true")
    assert await operations.launch(LaunchCall(request, operation="a")) is None
    await operations.close(PATIENCE)
    for operation in ("a", "b"):
        with pytest.raises(NodeError) as refusal:
            await operations.launch(LaunchCall(request, operation=operation))
        assert (refusal.value.code, refusal.value.retry) == ("node-stopping", True)
    assert await slow.owned() == []


# --- what is launched is what was sent ----------------------------------------------------------------------------------


def capsule(root: Path) -> dict[str, str]:
    folder = root / "projects/capsule"
    folder.mkdir(parents=True)
    files = {"capsule.json": b"{}", "runner.pex": b"x" * 100_000}
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return {str(folder / name): hashlib.sha256(content).hexdigest() for name, content in files.items()}


async def test_files_that_are_as_they_were_sent_are_launched(
    operations: Operations, slow: SlowEngine, process_bench: Bench, tmp_path: Path
) -> None:
    slow.door.set()
    call = LaunchCall(process_bench.request("true"), capsule(tmp_path / "storage"), "a")
    assert await until_done(lambda: operations.launch(call))


async def test_a_capsule_altered_on_its_way_starts_nothing(
    operations: Operations, slow: SlowEngine, process_bench: Bench, tmp_path: Path
) -> None:
    slow.door.set()
    digests = {how: capsule(tmp_path / "storage" / how) for how in ("altered", "missing")}
    altered, missing = (tmp_path / "storage" / how / "projects/capsule/runner.pex" for how in digests)
    altered.write_bytes(b"y" * 100_000)
    missing.unlink()

    async def refusal(how: str) -> NodeError | None:
        try:
            assert await operations.launch(LaunchCall(process_bench.request("true", how), digests[how], how)) is None
        except NodeError as problem:
            return problem
        return None

    waits = [
        until_told(lambda how=how: refusal(how), bool) for how in digests
    ]  # a file that is on its way is waited for
    first, second = await asyncio.gather(*waits)
    assert first is not None
    assert second is not None
    assert (first.code, str(altered) in first.text()) == ("capsule-altered", True)
    assert (second.code, str(missing) in second.text()) == ("capsule-unreadable", True)
    assert slow.begun == 0


@pytest.mark.parametrize("path", ["/etc/passwd", "{root}/../secret", "capsule.json", "{root}"])
async def test_only_files_below_the_storage_root_are_looked_at(
    operations: Operations, slow: SlowEngine, process_bench: Bench, tmp_path: Path, path: str
) -> None:
    slow.door.set()
    named = path.format(root=tmp_path / "storage")
    call = LaunchCall(process_bench.request("true"), {named: "0" * 64}, "a")

    async def refusal() -> str:
        try:
            return str(await operations.launch(call) or "")
        except NodeError as problem:
            return problem.code

    assert await until_told(refusal, bool) in ("path-outside-storage", "capsule-unreadable")
    assert slow.begun == 0


# --- stops --------------------------------------------------------------------------------------------------------------


async def test_a_stop_goes_on_without_its_caller(
    operations: Operations, slow: SlowEngine, process_bench: Bench
) -> None:
    slow.door.set()
    fifo = process_bench.fifo("door")
    # It reads the fifo when it is told to end: so long the stop lasts.
    script = f"trap 'cat {fifo}; exit 5' TERM; touch {process_bench.directory}/ready; while :; do sleep 0.05; done"
    handle = await until_done(lambda: operations.launch(LaunchCall(process_bench.request(script), operation="a")))
    await process_bench.exists("ready")
    assert not await operations.stop(handle, PATIENCE, "s")
    assert not await operations.stop(handle, PATIENCE, "of another console")
    await asyncio.to_thread(fifo.write_text, "go")
    assert await until_done(lambda: operations.stop(handle, PATIENCE, "s"))
    assert await operations.stop(handle, PATIENCE, "of another console")
    assert (await slow.observe(handle)).exit_code == 5


async def test_a_second_stop_with_less_grace_shortens_the_first(
    operations: Operations, slow: SlowEngine, process_bench: Bench
) -> None:
    slow.door.set()
    script = f"trap '' TERM; touch {process_bench.directory}/ready; while :; do sleep 0.05; done"
    handle = await until_done(lambda: operations.launch(LaunchCall(process_bench.request(script), operation="a")))
    await process_bench.exists("ready")
    assert not await operations.stop(handle, 86_400, "patient")
    await operations.stop(handle, 0.1, "impatient")  # on a slow machine it may be over by the time this one has waited
    assert await until_done(lambda: operations.stop(handle, 86_400, "patient"))
    assert (await slow.observe(handle)).exit_code == 137


async def test_a_stop_ends_a_launch_in_flight(operations: Operations, slow: SlowEngine, process_bench: Bench) -> None:
    request = process_bench.request("true")
    assert await operations.launch(LaunchCall(request, operation="a")) is None
    assert await until_done(lambda: operations.stop(process_bench.handle(), 1, "s"))
    with pytest.raises(NodeError) as refusal:
        await operations.launch(LaunchCall(request, operation="a"))
    assert refusal.value.code == "launch-superseded"


# --- shared tasks -------------------------------------------------------------------------------------------------------


async def test_results_that_nobody_fetches_are_forgotten_oldest_first() -> None:
    shared: Shared[int] = Shared()

    async def number(value: int) -> int:
        return value

    for value in range(MOST_KEPT + 5):
        task = shared.start_or_join(str(value), f"op-{value}", lambda value=value: number(value))
        assert await shared.result(task, PATIENCE) == value
    assert shared.of_operation("op-4") is None
    kept = shared.of_operation("op-5")
    assert kept is not None
    assert kept.result() == 5
    assert shared.running == 0


async def test_a_task_in_flight_is_never_forgotten() -> None:
    shared: Shared[int] = Shared()
    door = asyncio.Event()

    async def waits() -> int:
        await door.wait()
        return 7

    async def quick() -> int:
        return 1

    long = shared.start_or_join("long", "long", waits)
    for value in range(MOST_KEPT + 5):
        await shared.result(shared.start_or_join(str(value), f"op-{value}", quick), PATIENCE)
    assert shared.of_operation("long") is long
    door.set()
    assert await shared.result(long, PATIENCE) == 7


# --- over HTTP ----------------------------------------------------------------------------------------------------------


async def test_the_client_asks_until_a_slow_launch_is_done(
    slow: SlowEngine, process_bench: Bench, tmp_path: Path
) -> None:
    served = await ServedNode(slow, tmp_path / "node").start()
    served.node.operations._wait = 0.01
    client = served.client()
    launching = asyncio.create_task(client.launch(process_bench.request("true")))
    await until(lambda: slow.begun, bool)
    slow.door.set()
    assert await launching == process_bench.handle()
    await served.stop()


async def test_what_was_launched_is_in_every_look_that_is_asked_for_later(process_bench: Bench, tmp_path: Path) -> None:
    """A look that began before may have passed it by: who asks after the launch gets one of its own."""
    seen, door = asyncio.Event(), asyncio.Event()

    class SlowLook(Engine):
        @override
        async def owned(self) -> list[OwnedContainer]:
            found = await super().owned()
            seen.set()
            async with asyncio.timeout(PATIENCE):
                await door.wait()
            return found

    engine = SlowLook(process_bench.instance, process_bench.state_root, runtime="process")
    node = Node(engine, "0123456789ab", "n", state_root=tmp_path / "state", storage_root=tmp_path)
    before = asyncio.create_task(node.containers())
    async with asyncio.timeout(PATIENCE):
        await seen.wait()
    handle = await engine.launch(process_bench.request(process_bench.waiting_job()))
    after = asyncio.create_task(node.containers())
    await asyncio.sleep(0)
    door.set()
    assert [item.handle for item in await before] == []
    assert [item.handle for item in await after] == [str(handle)]
    await node.close(PATIENCE)


async def test_a_client_that_goes_away_ends_no_launch(slow: SlowEngine, process_bench: Bench, tmp_path: Path) -> None:
    served = await ServedNode(slow, tmp_path / "node").start()
    first = served.client()
    request = process_bench.request("true")
    launching = asyncio.create_task(first.launch(request))
    await until(lambda: slow.begun, bool)
    launching.cancel()
    await asyncio.gather(launching, return_exceptions=True)
    await first.close()
    slow.door.set()
    assert await served.client().launch(request) == process_bench.handle()
    assert slow.begun <= 2, "the second joined the first, or found what it had made"
    assert len(await served.client().containers()) == 1
    await served.stop()


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/launch", b""),
        ("POST", "/launch", b"{}"),
        ("POST", "/launch", b"["),
        ("POST", "/launch", b"[" * 100_000),
        ("POST", "/launch", b"\xff"),
        ("POST", "/launch", b'{"request": {"name": "A B", "labels": {}, "command": []}}'),
        ("POST", "/launch", b" " * (8 * 1024 * 1024 + 1)),
        ("POST", "/containers/docker/tp-x/stop", b'{"grace_seconds": -1}'),
        ("POST", "/containers/docker/tp-x/stop", b'{"grace_seconds": 1e300}'),
        ("POST", "/containers/docker/..%2f..%2fx/kill", b""),
        ("GET", "/containers/no-such-engine/tp-x", b""),
        ("GET", "/containers/process/TP_X", b""),
        ("GET", "/containers/process/tp-x/logs?tail_bytes=-5", b""),
        ("GET", "/containers/process/tp-x/logs?tail_bytes=99999999999999999999", b""),
        ("POST", "/ports/reserve", b'{"job": 5}'),
    ],
)
async def test_a_call_that_makes_no_sense_is_refused_with_the_place(
    served: ServedNode, method: str, path: str, body: bytes
) -> None:
    async with httpx2.AsyncClient(timeout=PATIENCE, headers={"Authorization": f"Bearer {TOKEN}"}) as client:
        answer = await client.request(method, f"{served.address}/node/v1{path}", content=body)
    if answer.status_code == 404:
        assert "%2f" in path
        return
    assert answer.status_code == 409
    assert answer.json()["problem"]["code"] == "request-invalid"
