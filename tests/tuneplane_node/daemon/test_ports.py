"""Ports of jobs: free, different, kept over a restart, given back; real sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.services.ports import free_port
from tests.tuneplane_node.bench import until
from tuneplane_node.daemon.main_probe import greeting, reach
from tuneplane_node.daemon.ports import Ports
from tuneplane_node.engine import NodeError

JOB = "0123456789abcdef"
BOUND = 60.0


class Here:
    """Which attempts have something on this machine."""

    def __init__(self) -> None:
        self.attempts: set[tuple[str, int]] = set()

    async def holds(self, job: str, attempt: int) -> bool:
        return (job, attempt) in self.attempts


@pytest.fixture
def here() -> Here:
    return Here()


@pytest.fixture
async def make(tmp_path: Path, here: Here) -> AsyncIterator[Callable[..., Ports]]:
    made: list[Ports] = []

    def new(**options: float) -> Ports:
        made.append(Ports(tmp_path / "state" / "ports.json", here.holds, **options))  # ty: ignore[invalid-argument-type]
        return made[-1]

    yield new
    for each in made:
        await each.aclose()


@pytest.fixture
def taken() -> Iterator[Callable[[int, str], None]]:
    """Listen on a port as another program."""
    with ExitStack() as stack:

        def take(port: int, address: str) -> None:
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            listening = stack.enter_context(socket.socket(family))
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((address, port))
            listening.listen()

        yield take


async def says(port: int, address: str = "127.0.0.1") -> bytes:
    async with asyncio.timeout(BOUND):
        reader, writer = await asyncio.open_connection(address, port)
        said = await reader.readline()
    writer.close()
    return said


def refuses(port: int) -> bool:
    with socket.socket() as asking:
        return asking.connect_ex(("127.0.0.1", port)) != 0


async def test_every_job_has_a_port_of_its_own_and_keeps_it(make: Callable[..., Ports]) -> None:
    ports = make()
    mine = await ports.reserve(JOB, 1)
    assert 20_000 <= mine <= 29_999
    assert await ports.reserve(JOB, 1) == mine
    others = {await ports.reserve(JOB, 2), await ports.reserve("another", 1)}
    assert len(others | {mine}) == 3
    assert await make().reserve(JOB, 1) == mine, "a daemon that was started again knows it"


async def test_two_jobs_that_would_look_at_the_same_port_first_get_different_ones(make: Callable[..., Ports]) -> None:
    """Scenario 28."""
    first = free_port()
    ports = make(first=first, last=first)
    assert await ports.reserve(JOB, 1) == first
    with pytest.raises(NodeError) as refused:
        await ports.reserve("another", 1)
    assert refused.value.code == "job-ports-exhausted"
    await ports.release(JOB, 1)
    assert await ports.reserve("another", 1) == first, "what was given back is free for the next"


@pytest.mark.parametrize("address", ["127.0.0.1", "0.0.0.0", "::1"])
async def test_a_port_that_another_program_has_on_any_address_is_not_free(
    address: str, make: Callable[..., Ports], taken: Callable[[int, str], None], here: Here
) -> None:
    ports = make()
    port = await ports.reserve(JOB, 1)
    taken(port, address)
    here.attempts.add((JOB, 1))
    assert await ports.reserve(JOB, 1) == port, "the job itself listens there"
    here.attempts.clear()
    other = await ports.reserve(JOB, 1)
    assert other != port
    assert await make().reserve(JOB, 1) == other


async def test_an_open_port_says_whose_it_is_until_it_is_closed(make: Callable[..., Ports]) -> None:
    ports = make()
    port = await ports.reserve(JOB, 1)
    await ports.open(JOB, 1)
    assert await says(port) == greeting(JOB, 1)
    await ports.open(JOB, 1)
    assert await says(port) == greeting(JOB, 1)
    assert await ports.reserve(JOB, 1) == port
    await ports.close(JOB, 1)
    assert refuses(port)
    await ports.close(JOB, 1)
    with socket.socket() as trainer:  # without SO_REUSEADDR: nothing of ours lingers on the port
        trainer.bind(("0.0.0.0", port))
        trainer.listen()


async def test_a_client_that_stays_is_sent_away_when_the_port_is_closed(make: Callable[..., Ports]) -> None:
    ports = make()
    port = await ports.reserve(JOB, 1)
    await ports.open(JOB, 1)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    assert await reader.readline() == greeting(JOB, 1)
    await ports.close(JOB, 1)
    async with asyncio.timeout(BOUND):
        with suppress(ConnectionResetError):
            assert await reader.read() == b""
    writer.close()
    with socket.socket() as trainer:
        trainer.bind(("0.0.0.0", port))
        trainer.listen()


async def test_an_open_port_closes_by_itself(make: Callable[..., Ports]) -> None:
    ports = make(open_seconds=0.05)
    port = await ports.reserve(JOB, 1)
    await ports.open(JOB, 1)
    await until(lambda: refuses(port), bool)


async def test_a_port_is_opened_only_when_it_is_reserved(make: Callable[..., Ports]) -> None:
    with pytest.raises(NodeError) as refused:
        await make().open(JOB, 1)
    assert refused.value.code == "job-port-not-reserved"


async def test_a_reserved_port_that_another_program_took_meanwhile_is_told(
    make: Callable[..., Ports], taken: Callable[[int, str], None], here: Here
) -> None:
    ports = make()
    port = await ports.reserve(JOB, 1)
    taken(port, "127.0.0.1")
    with pytest.raises(NodeError) as refused:
        await ports.open(JOB, 1)
    assert (refused.value.code, refused.value.retry) == ("job-port-taken", True)
    here.attempts.add((JOB, 1))
    await ports.open(JOB, 1)  # it is the job's own, from an earlier launch
    await ports.close(JOB, 1)
    assert not refuses(port)


async def test_reservations_of_attempts_that_are_gone_are_given_back(make: Callable[..., Ports]) -> None:
    ports = make()
    kept, gone, opened = [await ports.reserve(name, 1) for name in ("kept", "gone", "opened")]
    await ports.open("opened", 1)
    assert await ports.keep_only({("kept", 1)}, older_than_seconds=3600) == []
    assert await ports.keep_only({("kept", 1)}, older_than_seconds=-1) == [gone]
    assert await ports.reserve("kept", 1) == kept
    assert await ports.reserve("opened", 1) == opened


async def test_a_damaged_record_costs_no_job(make: Callable[..., Ports], tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "ports.json").write_text('{"ports": [1, 2]}')
    ports = make()
    port = await ports.reserve(JOB, 1)
    assert await make().reserve(JOB, 1) == port


async def test_a_state_that_cannot_be_written_is_told(make: Callable[..., Ports], tmp_path: Path) -> None:
    (tmp_path / "state").write_text("a file in the place of the directory")
    with pytest.raises(NodeError) as refused:
        await make().reserve(JOB, 1)
    assert refused.value.code == "record-unusable"


# --- reaching the first machine ---------------------------------------------------------------------------------------


async def test_the_first_address_that_says_the_right_thing_is_reached(make: Callable[..., Ports]) -> None:
    ports = make()
    port = await ports.reserve(JOB, 1)
    await ports.open(JOB, 1)
    answer = await reach(["127.0.0.9", "127.0.0.1"], port, greeting(JOB, 1), frozenset())
    assert (answer.address, answer.own) == ("127.0.0.9", "127.0.0.1"), "the order of the addresses counts"
    answer = await reach(["not an address", "127.0.0.1"], port, greeting(JOB, 1), frozenset())
    assert answer.address == "127.0.0.1"
    assert list(answer.tried) == ["not an address"]


async def test_the_port_of_another_job_is_not_the_one(make: Callable[..., Ports]) -> None:
    """Each machine has 172.17.0.1: whoever answers there need not be the first machine of this job."""
    ports = make()
    port = await ports.reserve("another", 7)
    await ports.open("another", 7)
    answer = await reach(["127.0.0.1"], port, greeting(JOB, 1), frozenset())
    assert answer.address is None
    assert "another program" in answer.tried["127.0.0.1"]


async def test_a_trainer_that_listens_already_counts_unless_the_address_is_ours_too(
    taken: Callable[[int, str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuneplane_node.daemon.main_probe.SILENCE_SECONDS", 0.05)
    port = free_port()
    taken(port, "127.0.0.1")
    answer = await reach(["127.0.0.1"], port, greeting(JOB, 1), frozenset())
    assert answer.address == "127.0.0.1"
    answer = await reach(["127.0.0.1"], port, greeting(JOB, 1), frozenset({"127.0.0.1"}))
    assert answer.address is None
