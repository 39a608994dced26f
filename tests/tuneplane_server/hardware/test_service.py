"""Profiles and holds: no card is ever held twice, whoever asks at the same time."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy.exc import IntegrityError

from tests.tuneplane_server.harness import Harness
from tuneplane_server.domain.placement import Assignment, NoRoom, PoolRequest, free_rooms, place
from tuneplane_server.features.hardware import repo
from tuneplane_server.features.hardware.service import HardwareService, Holder, machines_of

CPU = PoolRequest("main", "cpu", 1, 0, cpus=2, memory_gb=8)


def cards(count: int) -> PoolRequest:
    return PoolRequest("main", "h200", 1, count)


async def hold(harness: Harness, hardware: HardwareService, job: str, pool: PoolRequest) -> list[Assignment] | NoRoom:
    """Place a pool on what is free and hold it, in one transaction."""
    nodes = await hardware.nodes()
    async with harness.services.database.begin() as session:
        await hardware.lock_placement(session)
        held = [item for attempt in await hardware.held(session) for item in attempt.holds]
        placed = place([pool], free_rooms(machines_of(nodes), held))
        if not isinstance(placed, NoRoom):
            assert await hardware.hold(session, Holder(job, 1, "owner", "project", 60), placed, nodes)
        return placed


async def test_profiles_are_cpu_and_the_cards_that_are_there(harness: Harness) -> None:
    cpu, h200 = await harness.services.hardware.profiles()
    assert (cpu.name, cpu.gpus_per_node, cpu.nodes, cpu.cpus) == ("cpu", 0, 1, 10_000)
    assert (h200.name, h200.gpus_per_node, h200.total_gpus, h200.free_gpus, h200.simulated) == ("h200", 8, 8, 8, True)


async def test_many_that_ask_at_once_get_each_card_once(harness: Harness) -> None:
    replica = harness.replica()
    both = (harness.services.hardware, replica.services.hardware)
    answers = await asyncio.gather(
        *(hold(harness, both[number % 2], f"job-{number:02d}", cards(1)) for number in range(20))
    )
    given = [item.gpus for answer in answers if not isinstance(answer, NoRoom) for item in answer]
    assert sorted(given) == [(index,) for index in range(8)]
    assert await harness.held_gpus() == list(range(8))
    await replica.close()


async def test_the_table_itself_refuses_a_card_that_is_held(harness: Harness) -> None:
    async def insert(job: str) -> None:
        async with harness.services.database.begin() as session:
            await repo.hold(session, job, 1, [Assignment("main", "node", (3,), 0, 0)], harness.time.now)

    await insert("one")
    with pytest.raises(IntegrityError):
        await insert("two")


async def test_released_cards_are_free_and_those_of_others_are_not(harness: Harness) -> None:
    hardware = harness.services.hardware
    await hold(harness, hardware, "one", cards(5))
    await hold(harness, hardware, "two", cards(3))
    assert isinstance(await hold(harness, hardware, "three", cards(1)), NoRoom)
    async with harness.services.database.begin() as session:
        await hardware.release(session, "one", 2)  # another attempt holds nothing
        await hardware.release(session, "two", 1)
    placed = await hold(harness, hardware, "three", cards(3))
    assert isinstance(placed, list)
    assert placed[0].gpus == (5, 6, 7)


async def test_cpus_and_memory_are_held_too(harness: Harness) -> None:
    harness.scripted.cpus = 4
    hardware = harness.services.hardware
    assert isinstance(await hold(harness, hardware, "one", CPU), list)
    assert isinstance(await hold(harness, hardware, "two", CPU), list)
    assert isinstance(await hold(harness, hardware, "three", CPU), NoRoom)
    assert hardware.ever_fits([CPU], await hardware.nodes()) is None
    too_many = PoolRequest("main", "cpu", 1, 0, cpus=5)
    assert hardware.ever_fits([too_many], await hardware.nodes()) == NoRoom(too_many, 0, 0)


async def test_the_last_known_machines_are_shown_while_the_executor_is_away(harness: Harness) -> None:
    hardware = harness.services.hardware
    seen = await hardware.nodes()
    harness.scripted.reachable = False
    harness.time.pass_(60)
    assert await hardware.nodes() == seen
    fresh = HardwareService(harness.services.database, harness.services.clock, harness.executor)
    assert await fresh.nodes() == []
    harness.scripted.reachable = True
    assert await fresh.nodes() == seen
