"""Jobs on several machines, with real daemons: started as one, seen as one, ended as one, whatever breaks at whichever step."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.tuneplane_node.bench import is_held, until, until_told
from tests.tuneplane_server.executors.nodes import Machines
from tuneplane_node.client import NodeClient, NodeUnreachableError
from tuneplane_node.engine import Mount
from tuneplane_server.domain.ids import make_id
from tuneplane_server.domain.members import verdict_of
from tuneplane_server.executors.agent.executor import LINGER_SECONDS, AgentExecutor
from tuneplane_server.executors.port import (
    CleanupState,
    ExecutorUnreachableError,
    Handle,
    LaunchDelayedError,
    LaunchPlan,
    LaunchRefusedError,
    MachinePlan,
    Observation,
    launch_name,
)

NAMES = ("n1", "n2", "n3")
SLEEPS = "trap 'exit 143' TERM\nwhile :; do sleep 0.05; done\n"
PATIENCE = 90


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machines]:
    made = Machines(tmp_path_factory.mktemp("nodes"), NAMES)
    asyncio.run(made.start())
    yield made
    asyncio.run(made.stop())


@pytest.fixture
async def machines(three: Machines) -> AsyncIterator[Machines]:
    """Three daemons that run and have nothing, however the test before left them."""
    yield three
    await three.mend()


@pytest.fixture
async def executor(machines: Machines) -> AsyncIterator[AgentExecutor]:
    made = machines.executor()
    await made.open()
    yield made
    await made.close()


def plan_of(machines: Machines, script: str, names: tuple[str, ...] = NAMES[:2]) -> LaunchPlan:
    """`script` runs on each; it knows `$TUNEPLANE_MACHINE_RANK` and `$0`, which lies in the capsule."""
    job = make_id(uuid.uuid4().int >> 81, uuid.uuid4().bytes[:4])
    capsule = machines.storage / job
    capsule.mkdir()
    (capsule / "bootstrap.sh").write_text(script)
    files = {"bootstrap.sh": hashlib.sha256(script.encode()).hexdigest()}
    placed = tuple(MachinePlan(rank, name, (rank,), None, None) for rank, name in enumerate(names))
    return LaunchPlan(job, 1, None, capsule, {}, (capsule,), (), placed, files=files, grace=timedelta(seconds=20))


async def seen_until(
    executor: AgentExecutor,
    handle: Handle,
    is_so: Callable[[Observation], bool],
    wake: Callable[[], None] = lambda: None,
) -> Observation:
    async with asyncio.timeout(PATIENCE):
        while not is_so(seen := await executor.observe(handle)):
            wake()
            await asyncio.sleep(0.05)
        return seen


async def written(path: Path) -> str:
    """What a file holds, once its last line is whole."""
    return await until(lambda: path.read_text() if path.exists() else "", lambda text: text.endswith("\n"))


def over(seen: Observation) -> bool:
    return not seen.running and seen.exit is not None


async def test_all_machines_start_and_know_where_they_meet(machines: Machines, executor: AgentExecutor) -> None:
    """Each has its rank; address and port are the same on all, the port is the first machine's own, another run has another."""
    script = 'env | grep TUNEPLANE_ > "${0%/*}/env.part"$TUNEPLANE_MACHINE_RANK\necho "$GLOO_SOCKET_IFNAME" >> "${0%/*}/nic"$TUNEPLANE_MACHINE_RANK\n'
    script += 'mv "${0%/*}/env.part"$TUNEPLANE_MACHINE_RANK "${0%/*}/env"$TUNEPLANE_MACHINE_RANK\n' + SLEEPS
    first, second = plan_of(machines, script), plan_of(machines, script)
    handle, other = await asyncio.gather(executor.launch(first), executor.launch(second))
    assert handle.nodes == ("n1", "n2")
    assert await machines.containers() == {
        "n1": sorted(launch_name(plan.job_id, 1, 0) for plan in (first, second)),
        "n2": sorted(launch_name(plan.job_id, 1, 1) for plan in (first, second)),
        "n3": [],
    }
    found = []
    for rank in (0, 1):
        lines = (await written(first.capsule / f"env{rank}")).splitlines()
        env = dict(line.partition("=")[::2] for line in lines)
        assert (env["TUNEPLANE_MACHINE_RANK"], env["TUNEPLANE_MACHINE_COUNT"]) == (str(rank), "2")
        assert env["TUNEPLANE_NIC"] == (await written(first.capsule / f"nic{rank}")).strip()
        found.append(f"{env['TUNEPLANE_MAIN_PROCESS_IP']}:{env['TUNEPLANE_MAIN_PROCESS_PORT']}")
    assert found[0] == found[1] == handle.data["main"] != other.data["main"]
    assert (await executor.observe(handle)).running
    mine = {item.job_id: item for item in await executor.owned()}
    assert mine == {first.job_id: handle, second.job_id: other}
    assert Handle.from_json(json.loads(json.dumps(handle.to_json()))) == handle


async def test_one_that_fails_ends_the_others_with_their_grace_and_is_the_cause(
    machines: Machines, executor: AgentExecutor
) -> None:
    script = 'if [ "$TUNEPLANE_MACHINE_RANK" = 1 ]; then echo last words >&2; exit 3; fi\n'
    script += "trap 'echo told > \"${0%/*}/told\"; exit 143' TERM\nwhile :; do sleep 0.05; done\n"
    plan = plan_of(machines, script)
    handle = await executor.launch(plan)
    seen = await seen_until(executor, handle, over)
    assert await written(plan.capsule / "told") == "told\n"
    ends = {member.rank: member for member in seen.members}
    assert (ends[1].node, ends[1].end.exit_code, ends[0].end.exit_code) == ("n2", 3, 143)
    assert "last words" in ends[1].output
    verdict = verdict_of(seen.members, {}, None)
    assert verdict.reason is not None
    assert (verdict.reason.code, verdict.reason.data["rank"], verdict.reason.data["node"]) == ("runner-failed", 1, "n2")
    assert await executor.cleanup(handle) is CleanupState.CONFIRMED
    assert not any((await machines.containers()).values())


async def test_one_that_vanishes_ends_the_others(machines: Machines, executor: AgentExecutor) -> None:
    plan = plan_of(machines, SLEEPS)
    handle = await executor.launch(plan)
    client = machines.daemons["n1"].client()
    assert await client.cleanup_attempt(plan.job_id, 1)
    await client.close()
    seen = await seen_until(executor, handle, over)
    ends = {member.rank: member.end for member in seen.members}
    assert (seen.presence, ends[0].absent, ends[1].exit_code) == ("present", True, 143)


async def test_others_may_run_on_for_a_while_after_the_first_has_ended_well(
    machines: Machines, executor: AgentExecutor
) -> None:
    plan = plan_of(machines, '[ "$TUNEPLANE_MACHINE_RANK" = 0 ] && exit 0\n' + SLEEPS)
    handle = await executor.launch(plan)
    seen = await seen_until(executor, handle, lambda seen: bool(seen.members))
    assert (seen.running, seen.exit) == (True, None)
    machines.seconds += LINGER_SECONDS + 1
    seen = await seen_until(executor, handle, over)
    assert {member.rank: member.end.exit_code for member in seen.members} == {0: 0, 1: 143}


async def test_of_runs_that_are_over_nothing_is_remembered(machines: Machines, executor: AgentExecutor) -> None:
    """Another console may clean up: who has only looked would keep a line of each run for ever."""
    handle = await executor.launch(plan_of(machines, "exit 0\n"))
    seen = await seen_until(executor, handle, over)
    assert {member.rank: member.end.exit_code for member in seen.members} == {0: 0, 1: 0}
    assert executor._first_done == {}


async def test_stop_ends_all_of_them_and_what_ignores_it_is_killed(machines: Machines, executor: AgentExecutor) -> None:
    """Scenario 23: nobody finds a machine free that a process still holds."""
    deaf = 'trap \'\' TERM\nexec 3<>"${0%/*}/held$TUNEPLANE_MACHINE_RANK"\n: > "${0%/*}/up$TUNEPLANE_MACHINE_RANK"\nwhile :; do sleep 0.05; done\n'
    plan = plan_of(machines, deaf)
    held = [plan.capsule / f"held{rank}" for rank in (0, 1)]
    for path in held:
        os.mkfifo(path)
    handle = await executor.launch(plan)
    await until(lambda: all((plan.capsule / f"up{rank}").exists() for rank in (0, 1)), bool)
    await executor.stop(handle, timedelta(seconds=0.3))
    seen = await executor.observe(handle)
    assert {member.rank: member.end.signal for member in seen.members} == {0: 9, 1: 9}
    assert await executor.cleanup(handle) is CleanupState.CONFIRMED
    assert not any(is_held(path) for path in held)


async def test_a_refusal_of_one_leaves_nothing_on_the_others(machines: Machines, executor: AgentExecutor) -> None:
    """Here what the engine itself says no to, after the other one has begun."""

    class Late(NodeClient):
        async def launch(self, request: Any, *args: Any, **options: Any) -> Any:
            if request.name.endswith("-1"):
                await until_told(self.containers_of_n1, bool)
                request = replace(request, mounts=[Mount("/nowhere", "/elsewhere")])
            return await super().launch(request, *args, **options)

        async def containers_of_n1(self) -> list[str]:
            return (await machines.containers())["n1"]

    late = machines.executor(connect=Late)
    with pytest.raises(LaunchRefusedError) as caught:
        await late.launch(plan_of(machines, SLEEPS))
    assert "/nowhere" in caught.value.data["detail"]
    assert caught.value.data["node"] == "n2"
    assert not any((await machines.containers()).values())
    await late.close()


async def test_a_launch_that_was_held_up_while_its_attempt_was_cleaned_up_starts_nothing(machines: Machines) -> None:
    """Another console took it over, ended it and went on with the next attempt: this one would run beside that."""

    class HeldUp(NodeClient):
        async def launch(self, *args: Any, **options: Any) -> Any:
            assert await self.cleanup_attempt(plan.job_id, plan.attempt)
            return await super().launch(*args, **options)

    plan, late = plan_of(machines, SLEEPS), machines.executor(connect=HeldUp)
    with pytest.raises(LaunchDelayedError):
        await late.launch(plan)
    assert not any((await machines.containers()).values())
    await late.close()


async def test_all_that_stands_in_the_way_is_told_at_once(machines: Machines, executor: AgentExecutor) -> None:
    placed = (MachinePlan(0, "n1", (77,), None, None), MachinePlan(1, "n2", (78,), None, None))
    plan = replace(plan_of(machines, SLEEPS), machines=placed)
    with pytest.raises(LaunchRefusedError) as caught:
        await executor.launch(plan)
    assert caught.value.reason == "gpu-unknown"
    first, second = caught.value.data["detail"].splitlines()
    assert (first[:3], "77" in first, second[:3], "78" in second) == ("n1:", True, "n2:", True)
    assert not any((await machines.containers()).values())


async def test_a_capsule_that_was_altered_on_its_way_starts_nothing(
    machines: Machines, executor: AgentExecutor
) -> None:
    plan = plan_of(machines, SLEEPS)
    (plan.capsule / "bootstrap.sh").write_text("rm -rf everything\n")
    with pytest.raises((LaunchRefusedError, LaunchDelayedError)) as caught:
        await executor.launch(plan)
    assert caught.value.reason == "capsule-altered"
    assert str(plan.capsule / "bootstrap.sh") in caught.value.data["detail"]
    assert not any((await machines.containers()).values())


class Console:
    """A console that is killed after so many calls to nodes, or has its node's daemon killed then."""

    def __init__(self, calls: int, then: Callable[[str], Any]) -> None:
        self.left, self.then, self.count = calls, then, 0

    def connect(self, address: str, token: Any, **options: Any) -> NodeClient:
        console = self

        class Counting(NodeClient):
            async def _post(self, path: str, body: object, shape: Any) -> Any:
                answer = await super()._post(path, body, shape)
                console.count += 1
                if console.count == console.left:
                    await console.then(address)
                return answer

        return Counting(address, token, **options)


class KilledError(BaseException):
    """The console's process is gone: whatever it was about to do is not done."""


LAUNCH_CALLS = 9  # of a launch on two machines that change something: at least so many


@pytest.mark.parametrize("step", range(1, LAUNCH_CALLS))
async def test_a_console_that_dies_in_a_launch_is_followed_by_one_that_goes_on(machines: Machines, step: int) -> None:
    """Whatever was begun is joined: one container for each machine, which meet at one place."""

    async def die(_address: str) -> None:
        raise KilledError

    dying = machines.executor(connect=Console(step, die).connect)
    plan = plan_of(machines, SLEEPS)
    launched: list[Handle] = []
    try:
        launched.append(await dying.launch(plan))
    except KilledError:
        pass
    await dying.close()
    executor = machines.executor()
    handle = await executor.launch(plan)
    assert await machines.containers() == {
        "n1": [launch_name(plan.job_id, 1, 0)],
        "n2": [launch_name(plan.job_id, 1, 1)],
        "n3": [],
    }
    assert all(handle == earlier for earlier in launched)
    labels = await machines.on_each(lambda client: client.containers())
    assert {item.labels["tuneplane.main"] for items in labels.values() for item in items} == {handle.data["main"]}
    assert (await executor.observe(handle)).running
    assert await executor.cleanup(Handle(plan.job_id, 1, nodes=("n1", "n2"))) is CleanupState.CONFIRMED
    assert not any((await machines.containers()).values())
    await executor.close()


@pytest.mark.parametrize("step", range(1, LAUNCH_CALLS))
async def test_a_daemon_that_dies_in_a_launch_costs_a_second_try_and_starts_nothing_twice(
    machines: Machines, step: int
) -> None:
    async def kill(address: str) -> None:
        name = next(node.name for node in machines.directory.nodes.values() if node.address == address)
        await machines.daemons[name].kill()

    shaken = machines.executor(connect=Console(step, kill).connect)
    script = 'echo $$ >> "${0%/*}/starts$TUNEPLANE_MACHINE_RANK"\n' + SLEEPS
    plan = plan_of(machines, script)
    with_luck: list[Handle] = []
    try:
        with_luck.append(await shaken.launch(plan))
    except (ExecutorUnreachableError, LaunchDelayedError):
        pass  # nothing is known, or it may go better later
    for name in ("n1", "n2"):
        if not machines.runs(name):
            await machines.restart(name)
    handle = await shaken.launch(plan)
    assert (await shaken.observe(handle)).running
    for rank in (0, 1):
        assert len((await written(plan.capsule / f"starts{rank}")).splitlines()) == 1
    await shaken.close()


async def test_what_cannot_be_asked_is_unknown_and_never_gone(machines: Machines, executor: AgentExecutor) -> None:
    """With a daemon killed: neither an end, nor an absence, nor a confirmed cleanup; it runs on and is found again."""
    plan = plan_of(machines, SLEEPS)
    handle = await executor.launch(plan)
    await machines.daemons["n2"].kill()
    seen = await seen_until(executor, handle, lambda seen: seen.presence == "unknown")
    assert seen.exit is None
    assert "n2" in seen.detail
    with pytest.raises(ExecutorUnreachableError) as caught:
        await executor.launch(plan)
    assert caught.value.reason == "node-unreachable"
    with pytest.raises(ExecutorUnreachableError):
        await executor.owned(handle.nodes)
    assert [item.job_id for item in await executor.owned()] == [plan.job_id]
    assert ("n2", "node-unreachable") in machines.directory.calls
    await machines.restart("n2")
    machines.seconds += 5  # what was found out about the dead one is forgotten
    assert (await seen_until(executor, handle, lambda seen: seen.presence == "present")).running
    assert machines.directory.calls[-1] == ("n2", "")


async def test_a_stop_that_one_did_not_hear_is_told_again_and_cleanup_waits_for_it(
    machines: Machines, executor: AgentExecutor
) -> None:
    plan = plan_of(machines, SLEEPS)
    handle = await executor.launch(plan)
    await machines.daemons["n1"].kill()
    machines.seconds += 5
    with pytest.raises(ExecutorUnreachableError):
        await executor.stop(handle, timedelta(seconds=20))
    assert await executor.cleanup(handle) is CleanupState.UNKNOWN
    await machines.restart("n1")
    machines.seconds += 5
    await executor.stop(handle, timedelta(seconds=20))
    seen = await executor.observe(handle)
    assert {member.rank: (member.end.absent, member.end.exit_code) for member in seen.members} == {
        0: (False, 143),
        1: (True, None),  # the cleanup reached this one
    }
    assert await executor.cleanup(handle) is CleanupState.CONFIRMED


async def test_a_placement_on_a_node_that_nobody_knows_waits(machines: Machines, executor: AgentExecutor) -> None:
    plan = plan_of(machines, SLEEPS, ("n1", "elsewhere"))
    with pytest.raises(LaunchDelayedError) as caught:
        await executor.launch(plan)
    assert caught.value.reason == "node-unreachable"
    assert await executor.cleanup(Handle(plan.job_id, 1, nodes=("n1", "elsewhere"))) is CleanupState.UNKNOWN
    assert (await executor.observe(Handle(plan.job_id, 1))).presence == "unknown"


async def test_an_address_at_which_nothing_listens_is_told_with_its_place(machines: Machines) -> None:
    executor = machines.executor()
    known = machines.directory.nodes["n3"]
    machines.directory.change("n3", address="http://127.0.0.1:9")
    findings = {finding.code: finding for finding in await executor.check()}
    machines.directory.nodes["n3"] = known
    assert findings["node-unreachable"].text.startswith("n3: ")
    assert "127.0.0.1:9" in findings["node-unreachable"].text
    assert findings["nodes"].text == "3 nodes, 3 of them get work"
    await executor.close()


async def test_five_hundred_looks_are_one_call(machines: Machines) -> None:
    asked: list[str] = []

    class Watched(NodeClient):
        async def containers(self) -> Any:
            asked.append(self.address)
            return await super().containers()

    executor = machines.executor(connect=Watched)
    plan = plan_of(machines, SLEEPS, ("n1",))
    handle = await executor.launch(plan)
    await executor.observe(handle)
    asked.clear()
    machines.seconds += 2
    await asyncio.gather(*(executor.observe(handle) for _look in range(500)))
    assert len(asked) == 1
    await executor.close()


async def test_a_client_that_cannot_connect_says_so_once_for_all(machines: Machines) -> None:
    executor = machines.executor(connect=lambda *given, **options: NodeClient(*given, connect_seconds=1, **options))
    await machines.daemons["n3"].kill()
    handle = Handle("0" * 16, 1, {"agent": 1, "machines": [{"node": "n3", "where": ""}]}, nodes=("n3",))
    seen = await asyncio.gather(*(executor.observe(handle) for _look in range(50)))
    assert {item.presence for item in seen} == {"unknown"}
    assert machines.directory.calls.count(("n3", "node-unreachable")) >= 1
    with pytest.raises(NodeUnreachableError):
        await machines.daemons["n3"].client(connect_seconds=1).hello()
    await executor.close()
