"""A node that is silent for too long is given up and fenced; nothing less gives it up, and nothing of it counts as free before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.tuneplane_server.executors.nodes import LOST_AFTER, Machines
from tests.tuneplane_server.executors.test_gang import NAMES, SLEEPS, over, plan_of, seen_until
from tuneplane_server.clock import Clock
from tuneplane_server.domain.members import verdict_of
from tuneplane_server.domain.nodes import NodeHealth, NodeState
from tuneplane_server.domain.phases import Phase
from tuneplane_server.executors.agent.executor import AgentExecutor
from tuneplane_server.executors.port import (
    CleanupState,
    ExecutorUnreachableError,
    Handle,
    LaunchDelayedError,
    LaunchPlan,
)


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    made = Machines(tmp_path_factory.mktemp("nodes"), NAMES)
    asyncio.run(made.start())
    yield made
    asyncio.run(made.stop())


class Silence:
    """A run on two nodes, of which n2's daemon was killed; time passes when the test says so."""

    def __init__(self, machines: Machines, after: timedelta | None = LOST_AFTER) -> None:
        self.machines, self.passed = machines, timedelta()
        self.executor: AgentExecutor = machines.executor(clock=Clock(now=self._now), after=after)
        self.plan: LaunchPlan = plan_of(machines, SLEEPS)
        self.handle = Handle(self.plan.job_id, 1)

    def _now(self) -> datetime:
        return datetime.now(UTC) + self.passed

    async def begin(self) -> Silence:
        self.handle = await self.executor.launch(self.plan)
        await self.machines.daemons["n2"].kill()
        self.machines.directory.change("n2", health=NodeHealth.UNREACHABLE)
        self.pass_(5, heard=True)
        assert (await self.executor.observe(self.handle)).presence == "unknown"
        return self

    def pass_(self, seconds: float, *, heard: bool = False, wall: bool = True) -> None:
        """On both clocks; `heard`: the node announces itself at the end of it, `wall`: also on the one that people set."""
        self.machines.seconds += seconds
        if wall:
            self.passed += timedelta(seconds=seconds)
        if heard:
            self.machines.directory.change("n2", last_heard=self._now())

    def fences(self) -> set[tuple[str, int]]:
        return self.machines.directory.fenced("n2")


@pytest.fixture
async def machines(three: Machines) -> AsyncIterator[Machines]:
    yield three
    await three.mend()


@pytest.fixture
async def silence(machines: Machines) -> AsyncIterator[Silence]:
    made = await Silence(machines).begin()
    yield made
    await made.executor.close()


MOST = LOST_AFTER.total_seconds()


async def test_silence_shorter_than_the_limit_costs_only_delay(silence: Silence) -> None:
    silence.pass_(MOST - 60)
    seen = await silence.executor.observe(silence.handle)
    assert (seen.presence, silence.fences()) == ("unknown", set())
    assert "not heard of since" in seen.detail
    await silence.machines.restart("n2")
    silence.pass_(5, heard=True)
    assert (await silence.executor.observe(silence.handle)).running


async def test_after_the_limit_it_is_lost_and_fenced_and_the_rest_of_the_run_is_ended(silence: Silence) -> None:
    silence.pass_(MOST + 60)
    seen = await seen_until(silence.executor, silence.handle, over)
    assert silence.fences() == {(silence.plan.job_id, 1)}
    assert {member.rank: member.end.exit_code for member in seen.members} == {0: 143, 1: None}
    verdict = verdict_of(seen.members, {}, None)
    assert verdict.reason is not None
    assert (verdict.phase, verdict.reason.code, verdict.reason.data["node"]) == (Phase.LOST, "node-lost", "n2")
    assert "is silent since" in str(verdict.reason.data["detail"])
    await silence.executor.stop(silence.handle, timedelta(seconds=20))  # nobody is left to be told
    assert await silence.executor.cleanup(silence.handle) is CleanupState.CONFIRMED


async def test_a_run_that_was_given_up_stays_given_up_when_its_node_comes_back(silence: Silence) -> None:
    """Its node gets no work before it has cleaned up, though it answers; and no other attempt begins beside what runs there."""
    silence.pass_(MOST + 60)
    await silence.executor.observe(silence.handle)
    await silence.machines.restart("n2")
    silence.pass_(5, heard=True)
    seen = await seen_until(silence.executor, silence.handle, over)
    assert {member.rank: member.end.cause for member in seen.members} == {0: None, 1: "node-lost"}
    assert await silence.executor.cleanup(silence.handle) is CleanupState.CONFIRMED
    info = {node.name: node for node in await silence.executor.nodes()}
    assert (info["n1"].placeable, info["n2"].placeable) == (True, False)
    assert silence.plan.job_id in info["n2"].why
    assert (await silence.machines.containers())["n2"] == []


@pytest.mark.parametrize("what", ["heard", "runner", "console", "clock"])
async def test_one_sign_of_life_is_enough_not_to_give_it_up(silence: Silence, what: str) -> None:
    """Announced to another console; its runner's heartbeat; a console that was away itself; a clock that jumped."""
    if what == "heard":
        silence.pass_(MOST + 60, heard=True)
    elif what == "runner":
        silence.pass_(MOST + 60)
        at = silence._now() - timedelta(seconds=30)
        silence.machines.heartbeats[silence.plan.job_id, 1] = {0: silence._now(), 1: at}
    elif what == "console":
        silence.passed += timedelta(seconds=MOST + 60)
        silence.executor = silence.machines.executor(clock=Clock(now=silence._now))
    else:
        silence.passed += timedelta(days=3)
    assert (await silence.executor.observe(silence.handle)).presence == "unknown"
    assert await silence.executor.cleanup(silence.handle) is CleanupState.UNKNOWN
    assert silence.fences() == set()


async def test_the_heartbeat_of_another_machine_is_no_sign_of_life_of_this_one(silence: Silence) -> None:
    silence.pass_(MOST + 60)
    silence.machines.heartbeats[silence.plan.job_id, 1] = {0: silence._now()}
    await silence.executor.observe(silence.handle)
    assert silence.fences() == {(silence.plan.job_id, 1)}


async def test_a_cleanup_that_nobody_answers_is_confirmed_only_by_a_fence(silence: Silence) -> None:
    """Also of a launch nobody saw the end of."""
    planned = Handle(silence.plan.job_id, 1, nodes=("n1", "n2"))
    assert await silence.executor.cleanup(planned) is CleanupState.UNKNOWN
    silence.pass_(MOST + 60)
    assert await silence.executor.cleanup(planned) is CleanupState.CONFIRMED
    assert silence.fences() == {(silence.plan.job_id, 1)}


async def test_with_the_limit_switched_off_it_is_waited_for_ever(machines: Machines) -> None:
    silence = await Silence(machines, after=None).begin()
    silence.pass_(10 * MOST)
    assert (await silence.executor.observe(silence.handle)).presence == "unknown"
    assert silence.fences() == set()
    await silence.executor.close()


async def test_a_node_that_an_administrator_removed_is_given_up_at_once(silence: Silence) -> None:
    silence.machines.directory.change("n2", state=NodeState.REMOVED, state_by="grace")
    seen = await seen_until(silence.executor, silence.handle, over)
    lost = next(member for member in seen.members if member.rank == 1)
    assert (lost.end.cause, lost.end.detail) == ("node-lost", "n2 was removed by grace")
    assert silence.fences() == {(silence.plan.job_id, 1)}
    assert [node.name for node in await silence.executor.nodes()] == ["n1", "n3"]


async def test_a_node_removed_by_force_ends_what_it_has_before_another_attempt_may_begin(machines: Machines) -> None:
    executor = machines.executor()
    plan = plan_of(machines, SLEEPS)
    handle = await executor.launch(plan)
    machines.directory.change("n2", state=NodeState.REMOVED, state_by="grace")
    assert await executor.cleanup(handle) is CleanupState.CONFIRMED
    assert (await machines.containers())["n2"] == []
    await executor.close()


@pytest.mark.parametrize("state", [NodeState.REMOVED, NodeState.READY])
async def test_nothing_begins_on_a_node_that_was_given_up_since_it_was_placed_there(
    machines: Machines, state: NodeState
) -> None:
    """Removed, or with a fence."""
    executor = machines.executor()
    if state is NodeState.READY:
        await machines.directory.fence("n2", "another", 1)
    machines.directory.change("n2", state=state, state_by="grace")
    with pytest.raises(LaunchDelayedError) as delayed:
        await executor.launch(plan_of(machines, SLEEPS))
    assert (delayed.value.reason, delayed.value.data["node"]) == ("node-unreachable", "n2")
    assert not any((await machines.containers()).values())
    await executor.close()


async def test_another_daemon_at_the_address_of_a_node_says_nothing_of_its_jobs(machines: Machines) -> None:
    """As one whose state was wiped: it has another id, and calls nothing its own."""
    executor = machines.executor()
    handle = await executor.launch(plan_of(machines, SLEEPS))
    machines.directory.change("n2", address=machines.directory.nodes["n3"].address)
    machines.seconds += 5  # what was heard before is not asked for again that soon
    seen = await executor.observe(handle)
    assert seen.presence == "unknown"
    assert "another node answers there" in seen.detail
    assert await executor.cleanup(handle) is CleanupState.UNKNOWN
    await machines.announce("n2")
    assert (await machines.containers())["n2"] != []
    await executor.close()


async def test_absent_is_said_of_what_was_looked_at_after_the_launch(machines: Machines) -> None:
    """Another console looked at the node a moment before this one launched there."""
    other, executor = machines.executor(), machines.executor()
    first, second = await executor.launch(plan_of(machines, SLEEPS)), plan_of(machines, SLEEPS)
    assert (await other.observe(first)).running
    launched = await executor.launch(second)
    machines.seconds -= 60  # what the other one keeps does not age meanwhile
    assert (await other.observe(launched)).running
    await other.close()
    await executor.close()


async def test_nodes_that_are_not_well_are_listed_and_say_why_they_get_no_work(machines: Machines) -> None:
    before = dict(machines.directory.nodes)
    executor = machines.executor()
    machines.directory.change("n1", state=NodeState.CORDONED, state_by="grace")
    machines.directory.change("n2", health=NodeHealth.UNPROVED)
    found = {node.name: node for node in await executor.nodes()}
    assert {name: node.placeable for name, node in found.items()} == {"n1": False, "n2": False, "n3": True}
    assert "grace" in found["n1"].why
    assert "storage root" in found["n2"].why
    assert len(found["n1"].gpus) == 8
    machines.directory.nodes = before
    await executor.close()


async def test_nodes_that_run_jobs_in_another_way_than_most_get_none(machines: Machines) -> None:
    """The capabilities are those of most; without any node they are those of containers."""
    before = dict(machines.directory.nodes)
    executor = machines.executor()
    machines.directory.change("n3", runtime="docker", isolates=True, image_form="oci")
    found = {node.name: node for node in await executor.nodes()}
    assert {name: node.placeable for name, node in found.items()} == {"n1": True, "n2": True, "n3": False}
    assert "docker" in found["n3"].why
    able = executor.capabilities()
    assert (able.runtime, able.image_form, able.isolates) == ("process", "environment", False)
    assert (able.multi_node, able.one_console, able.on_this_machine) == (True, False, False)
    machines.directory.nodes = {}
    assert (await executor.nodes(), executor.capabilities().image_form) == ([], "oci")
    machines.directory.nodes = before
    await executor.close()


async def test_a_node_that_nobody_reaches_stands_in_nobodys_way(silence: Silence) -> None:
    """Orphans of the others are found, and other runs start."""
    plan = plan_of(silence.machines, SLEEPS, ("n1", "n3"))
    handle = await silence.executor.launch(plan)
    assert (await silence.executor.observe(handle)).running
    assert {item.job_id for item in await silence.executor.owned()} == {plan.job_id, silence.plan.job_id}
    with pytest.raises(ExecutorUnreachableError):
        await silence.executor.sample("n2")


async def test_a_run_of_one_machine_on_a_lost_node_is_lost(machines: Machines, tmp_path: Path) -> None:
    silence = Silence(machines)
    silence.plan = replace(silence.plan, machines=(replace(silence.plan.machines[1], rank=0),))
    await silence.begin()
    silence.pass_(MOST + 60)
    seen = await silence.executor.observe(silence.handle)
    assert (seen.presence, seen.members) == ("absent", ())
    assert seen.exit is not None
    assert seen.exit.cause == "node-lost"
    await silence.executor.close()
