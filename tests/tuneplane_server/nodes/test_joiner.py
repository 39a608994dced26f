"""The joiner: each node is called, proves its storage root and cleans up, and one that does not answer rests alone."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest
from sqlalchemy import event

from tests.tuneplane_server.harness import Harness
from tests.tuneplane_server.nodes.build import announcement, ready
from tests.tuneplane_server.nodes.test_joining import SILENCE
from tuneplane_node.client import NodeClient, NodeUnreachableError
from tuneplane_node.daemon.storage_proof import prove_storage
from tuneplane_node.wire import NodeHello, StorageChallenge, StorageProof, StrangerSeen
from tuneplane_server.background.joiner import Joiner
from tuneplane_server.background.loop import SupervisedLoop
from tuneplane_server.domain.findings import NODES_REFUSED, NODES_UNREACHABLE
from tuneplane_server.domain.nodes import PROVE_EVERY, NodeHealth
from tuneplane_server.features.nodes.node import Node
from tuneplane_server.storage.identity import StorageIdentity


@dataclass
class Machine:
    """What answers at an address: the calls of `NodeClient` that the joiner makes."""

    hello_of: NodeHello
    root: Path
    address: str = ""
    away: bool = False
    left: set[tuple[str, int]] = field(default_factory=set)  # cannot be cleaned up yet
    proofs: int = 0
    calls: int = 0
    go: asyncio.Event | None = None  # until then it does not answer
    cleaned: list[tuple[str, int]] = field(default_factory=list)
    ended_left: list[tuple[str, int, str]] = field(default_factory=list)  # of another node id

    async def hello(self) -> NodeHello:
        self.calls += 1
        if self.go is not None:
            await self.go.wait()
        if self.away:
            raise NodeUnreachableError("node-unreachable", "no route", address=self.address)
        return self.hello_of

    async def prove_storage(self, challenge: StorageChallenge) -> StorageProof:
        self.proofs += 1
        return prove_storage(challenge, self.root, self.hello_of.node_id, looks=1, pause=0)

    async def cleanup_attempt(self, job: str, attempt: int, instance: str = "") -> bool:
        if instance:
            self.ended_left.append((job, attempt, instance))
            return (job, attempt) not in self.left
        self.cleaned.append((job, attempt))
        return (job, attempt) not in self.left

    async def close(self) -> None:
        return None


@dataclass
class Site:
    harness: Harness
    machines: dict[str, Machine]
    loop: SupervisedLoop

    async def join(self, name: str = "gpu-1", **changed: Any) -> Machine:
        told = announcement(name, **changed)
        await self.harness.services.nodes.announce(told, "10.0.0.1")
        root = self.harness.services.settings.storage_root
        return self.machines.setdefault(told.address, Machine(told.hello, root, told.address))

    async def look(self) -> None:
        await self.loop.tick()
        await self.loop.idle()

    async def node(self, name: str = "gpu-1") -> Node:
        found = await self.harness.services.nodes.get(name)
        assert found is not None
        return found

    def found(self, code: str) -> str | None:
        """The nodes that the banner names."""
        return next((str(f.data["names"]) for f in self.harness.services.findings.all() if f.code == code), None)


@pytest.fixture
def site(harness: Harness) -> Site:
    services = harness.services
    services.storage.prepare()
    machines: dict[str, Machine] = {}
    connect = cast(Callable[[str], NodeClient], machines.__getitem__)
    identity = StorageIdentity(services.settings.storage_root, looks=1, pause=0)
    role = Joiner(services.clock, services.nodes, identity, connect, services.findings)
    loop = SupervisedLoop(role, harness.roles._leases, services.wakeups, services.clock)
    return Site(harness, machines, loop)


async def test_a_console_with_nodes_has_the_role(harness: Harness) -> None:
    assert harness.loop("joiner").role.topics == ("joiner",)


async def test_a_node_is_proved_at_joining_and_again_now_and_then(site: Site) -> None:
    machine = await site.join()
    await site.look()
    assert (await site.node()).health is NodeHealth.READY
    await site.look()
    assert machine.proofs == 1
    for _time in range(2):
        site.harness.time.pass_(PROVE_EVERY.total_seconds() / 2)
        await site.join()
        await site.look()
    assert machine.proofs == 2
    machine.hello_of = announcement(started_at=5000.0).hello
    await site.join(started_at=5000.0)
    assert (await site.node()).health is NodeHealth.UNPROVED
    await site.look()
    assert (machine.proofs, (await site.node()).health) == (3, NodeHealth.READY)


async def test_another_directory_under_the_same_name_is_refused_until_it_is_mended(site: Site, tmp_path: Path) -> None:
    """Scenario: a node sees another directory under the same name."""
    machine = await site.join()
    mine, machine.root = machine.root, tmp_path / "other"
    machine.root.mkdir()
    await site.look()
    node = await site.node()
    assert (node.health, node.placeable) == (NodeHealth.REFUSED, False)
    assert node.problem is not None
    await site.look()
    assert site.found(NODES_REFUSED) == "gpu-1"
    machine.root = mine
    site.harness.time.pass_(16)
    await site.join()
    await site.look()
    await site.look()
    assert ((await site.node()).health, site.found(NODES_REFUSED)) == (NodeHealth.READY, None)


async def test_a_node_that_is_not_reached_rests_and_comes_back(site: Site) -> None:
    machine = await site.join()
    machine.away = True
    await site.join("gpu-2")
    await site.look()
    node = await site.node()
    assert (node.health, node.problem and node.problem.code) == (NodeHealth.UNREACHABLE, "node-unreachable")
    assert (await site.node("gpu-2")).health is NodeHealth.READY
    await site.look()
    assert site.found(NODES_UNREACHABLE) == "gpu-1"
    machine.away = False
    site.harness.time.pass_(10)  # it announces itself, so it does not rest longer
    await site.join()
    for _look in range(2):
        await site.look()
    assert ((await site.node()).health, site.found(NODES_UNREACHABLE)) == (NodeHealth.READY, None)


async def test_a_silent_node_rests_longer_and_longer_until_it_is_heard_of(site: Site) -> None:
    machine = await site.join()
    await site.look()
    machine.away = True
    site.harness.time.pass_(SILENCE)
    for _minute in range(30):
        await site.look()
        site.harness.time.pass_(60)
    calls = machine.calls
    assert calls < 25
    machine.away = False
    await site.join(started_at=9000.0)  # the machine is up again
    machine.hello_of = announcement(started_at=9000.0).hello
    await site.look()
    assert (machine.calls, (await site.node()).health) == (calls + 1, NodeHealth.READY)


async def test_a_node_that_is_heard_of_again_is_called_at_once(site: Site) -> None:
    machine = await site.join()
    await site.look()
    machine.away = True
    site.harness.time.pass_(SILENCE)
    for _minute in range(5):
        await site.look()
        site.harness.time.pass_(60)
    machine.away = False
    await site.join()
    with site.harness.services.wakeups.listen("joiner") as woken:
        site.harness.time.pass_(SILENCE)
        await site.join()
        assert woken.is_set()
    await site.look()
    assert (await site.node()).health is NodeHealth.READY


async def test_a_silent_node_is_called(site: Site) -> None:
    """It cannot reach the console, and the console can reach it: that is a sign of life."""
    await site.join()
    await site.look()
    site.harness.time.pass_(SILENCE)
    assert (await site.node()).health is NodeHealth.UNREACHABLE
    await site.look()
    assert (await site.node()).health is NodeHealth.READY


async def test_whoever_else_answers_at_the_address_is_not_the_node(site: Site) -> None:
    machine = await site.join()
    machine.hello_of = announcement(node_id="id-other").hello
    await site.look()
    node = await site.node()
    assert (node.health, node.problem and node.problem.code) == (NodeHealth.UNREACHABLE, "node-answer")
    assert machine.proofs == 0


async def test_a_machine_that_has_another_name_now_is_no_sign_of_life_of_the_old_one(site: Site) -> None:
    machine = await site.join()
    await site.look()
    machine.hello_of = announcement("gpu-9", node_id="id-gpu-1").hello
    site.harness.time.pass_(SILENCE)
    await site.look()
    assert not (await site.node()).heard


async def test_a_node_that_comes_back_cleans_up_what_was_given_up_there(site: Site) -> None:
    """Scenario 28: its attempt was superseded meanwhile."""
    machine = await site.join()
    await site.look()
    nodes = site.harness.services.nodes
    await nodes.fence("gpu-1", "a" * 16, 1)
    await nodes.fence("gpu-1", "b" * 16, 2)
    machine.left = {("b" * 16, 2)}
    await site.look()
    assert [(fence.job_id, fence.attempt) for fence in (await site.node()).fences] == [("b" * 16, 2)]
    assert not (await site.node()).placeable
    machine.left = set()
    site.harness.time.pass_(10)
    await site.look()
    assert (await site.node()).placeable
    assert machine.cleaned == [("a" * 16, 1), ("b" * 16, 2), ("b" * 16, 2)]


async def test_a_machine_that_has_lost_its_name_cleans_up_all_the_same(site: Site) -> None:
    old = await site.join()
    await site.look()
    await site.harness.services.nodes.fence("gpu-1", "a" * 16, 1)
    site.harness.time.pass_(SILENCE)
    await site.join(node_id="id-new", address="http://new:8643")
    await site.look()
    assert (await site.node()).placeable
    assert old.cleaned == []
    await site.join()  # the old one is back, and refused
    await site.look()
    assert old.cleaned == [("a" * 16, 1)]
    assert await site.harness.services.nodes.fences() == []


async def test_a_removed_node_is_left_alone_but_for_what_it_must_clean_up(site: Site) -> None:
    machine = await site.join()
    await site.look()
    nodes = site.harness.services.nodes
    await nodes.fence("gpu-1", "a" * 16, 1)
    await nodes.remove("gpu-1", "root")
    await site.look()
    assert machine.cleaned == [("a" * 16, 1)]
    site.harness.time.pass_(PROVE_EVERY.total_seconds())
    await site.join()
    await site.look()
    assert machine.proofs == 1


async def test_of_nodes_that_were_taken_out_of_use_the_banner_says_nothing(site: Site) -> None:
    await ready(site.harness.services.nodes)
    (await site.join()).away = True
    await site.harness.services.nodes.cordon("gpu-1", "root")
    site.harness.time.pass_(SILENCE)
    await site.look()
    assert site.found(NODES_UNREACHABLE) is None
    await site.harness.services.nodes.uncordon("gpu-1", "root")
    await site.look()
    assert site.found(NODES_UNREACHABLE) == "gpu-1"


async def test_many_nodes_are_proved_in_few_transactions(site: Site) -> None:
    names = [f"gpu-{number:02d}" for number in range(30)]
    for name in names:
        await site.join(name, node_id=f"id-{name}", address=f"http://{name}:8643")
    commits: list[int] = []
    event.listen(site.harness.services.database.engine.sync_engine, "commit", lambda _connection: commits.append(1))
    await site.look()
    assert [(await site.node(name)).health for name in names] == [NodeHealth.READY] * 30
    assert len(commits) < 10, "two batches and their leases"
    assert [site.machines[f"http://{name}:8643"].proofs for name in names] == [1] * 30


async def test_a_node_that_takes_its_time_keeps_no_other_of_its_batch_waiting(site: Site) -> None:
    slow = await site.join("gpu-1", node_id="id-1", address="http://gpu-1:8643")
    await site.join("gpu-2", node_id="id-2", address="http://gpu-2:8643")
    slow.go = asyncio.Event()
    with site.harness.services.wakeups.listen("placer") as woken:  # a node may get work now
        await site.loop.tick()
        await asyncio.wait_for(woken.wait(), 60)
    assert (await site.node("gpu-2")).health is NodeHealth.READY
    assert (await site.node("gpu-1")).health is NodeHealth.UNPROVED
    slow.go.set()
    await site.loop.idle()
    assert (await site.node("gpu-1")).health is NodeHealth.READY


async def test_what_a_machine_ran_before_its_state_was_lost_is_ended_when_it_was_given_up(site: Site) -> None:
    """It is back under another id, perhaps under another name, and tells what it found running."""
    old = await site.join()
    await site.look()
    old.away = True
    nodes = site.harness.services.nodes
    await nodes.fence("gpu-1", "a" * 16, 1)
    await nodes.fence("gpu-1", "b" * 16, 1)
    site.harness.time.pass_(SILENCE)
    left = tuple(StrangerSeen(f"docker/tp-{x}-1-0", x * 16, 1, "id-gpu-1", gpus=(0,)) for x in ("a", "b", "c"))
    told = replace(announcement("gpu-9", node_id="id-new", address="http://new:8643"), strangers=left)
    await nodes.announce(told, "10.0.0.1")
    root = site.harness.services.settings.storage_root
    machine = site.machines[told.address] = Machine(told.hello, root, told.address, left={("b" * 16, 1)})
    await site.look()
    assert machine.ended_left == [("a" * 16, 1, "id-gpu-1"), ("b" * 16, 1, "id-gpu-1")], "of the third nothing is known"
    assert machine.cleaned == []
    assert [fence.job_id for fence in await nodes.fences()] == ["b" * 16]
    machine.left = set()
    site.harness.time.pass_(10)
    await nodes.announce(told, "10.0.0.1")
    await site.look()
    assert await nodes.fences() == []
    assert (await site.node("gpu-9")).placeable
