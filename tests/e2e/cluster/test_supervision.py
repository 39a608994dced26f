"""What happens to jobs while a daemon, the console or a cable is away (scenarios 4 and 5)."""

from __future__ import annotations

import asyncio
import json
import shutil
from pathlib import Path

import pytest

from tests.chaos.processes import job_processes
from tests.e2e.cluster.bench import ClusterBench
from tests.e2e.harness import wait_until
from tests.services.cluster import Node
from tuneplane_node.client import NodeClient, NodeUnreachableError

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]
STEPS = 40


def begun(bench: ClusterBench, exit_code: int = 0) -> tuple[str, Node, Path]:
    """A run that waits in the middle, its node, and the gate that lets it go on."""
    gate = bench.gate()
    run = bench.submit(STEPS=str(STEPS), PAUSE="0.01", HOLD=str(gate), EXIT=str(exit_code))
    (place,) = bench.machines(run)
    wait_until("it has told half", lambda: bench.points(run)[-1:] == [STEPS // 2])
    bench.wait(run, "running")
    return run, bench.cluster.nodes[place["host"]], gate


def whole(bench: ClusterBench, run: str) -> None:
    """It ran once, from its beginning to its end, and all of it is here once."""
    job = bench.wait(run, "succeeded")
    assert (job["attempt"], bench.launches(run)) == (1, 1)
    assert bench.lines(run) == bench.points(run) == list(range(1, STEPS + 1))
    assert bench.phases(run) == ["queued", "starting", "running", "finishing", "succeeded"]


def test_a_daemon_that_is_told_to_stop_leaves_its_jobs_alone(bench: ClusterBench) -> None:
    """Scenario 4."""
    run, node, gate = begun(bench)
    node.stop()
    wait_until("the console says that it cannot ask", lambda: "unreachable" in bench.conditions(run))
    assert bench.show(run)["phase"] == "running"
    assert len(node.machine.processes()) > 0
    node.spawn()
    bench.cluster.wait_ready(node.name)
    wait_until("it can be asked again", lambda: "unreachable" not in bench.conditions(run))
    gate.touch()
    whole(bench, run)


def test_a_job_that_ended_while_its_daemon_was_dead_is_told_as_it_ended(bench: ClusterBench) -> None:
    run, node, gate = begun(bench, exit_code=7)
    node.kill()
    gate.touch()
    outcome = bench.out(run) / "outcome.json"
    wait_until("the runner has written its outcome", outcome.exists)
    wait_until("nothing runs there", lambda: node.machine.processes() == [])
    node.spawn()
    job = bench.wait(run, "failed")
    assert json.loads(outcome.read_text())["exit_code"] == 7
    assert job["reason"]["class"] == "user"
    assert bench.points(run) == list(range(1, STEPS + 1))


def test_a_job_that_disappeared_while_its_daemon_was_away_is_lost_and_tried_again(bench: ClusterBench) -> None:
    """Scenario 5: within one observation, class infra, tried again if it may be."""
    run, node, _ = begun(bench)
    again = bench.submit(retries=1, STEPS="2", HOLD=str(bench.gate()))
    (place,) = bench.machines(again)
    bench.wait(again, "running")
    for each in {node, bench.cluster.nodes[place["host"]]}:
        make_vanish(each)
    job = bench.wait(run, "lost")
    assert (job["reason"]["code"], job["reason"]["class"]) == ("container-lost", "infra")
    wait_until("the other one is tried again", lambda: bench.show(again)["attempt"] == 2)
    assert bench.show(again)["attempts"][0]["reason"]["code"] == "container-lost"
    bench.api.cancel(again)


def make_vanish(node: Node) -> None:
    """Its jobs are gone with all that was known of them, while nobody was there to see it."""
    node.kill()
    node.machine.power_off()
    shutil.rmtree(node.state / "processes")
    node.spawn()


def test_a_cut_cable_costs_only_time(bench: ClusterBench) -> None:
    """Shorter than the deadline: no phase changes, and every line and point arrives once."""
    run, node, gate = begun(bench)
    node.machine.cut()
    wait_until("the console says that it cannot ask", lambda: "unreachable" in bench.conditions(run), 90)
    gate.touch()
    outcome = bench.out(run) / "outcome.json"
    wait_until("it trains to its end", outcome.exists)
    assert bench.show(run)["phase"] == "running"
    assert bench.points(run)[-1] == STEPS // 2
    node.machine.mend()
    whole(bench, run)
    assert json.loads(outcome.read_text())["result"] == "succeeded"
    assert bench.conditions(run) == set()


async def test_a_dead_cable_is_noticed_long_before_an_answer_is_given_up(bench: ClusterBench) -> None:
    node = bench.cluster.nodes["node-a"]
    client = NodeClient(node.address, bench.cluster.token, read_seconds=3600)
    assert (await client.hello()).name == node.name  # the connection is kept
    node.machine.cut()
    async with asyncio.timeout(60):
        with pytest.raises(NodeUnreachableError) as caught:
            await client.hello()
    assert caught.value.code == "node-unreachable"
    node.machine.mend()
    await client.close()


def test_a_job_that_ended_while_the_console_was_away_is_told_afterwards(bench: ClusterBench) -> None:
    run, node, gate = begun(bench)
    bench.cluster.console.kill()
    gate.touch()
    wait_until("the runner has written its outcome", (bench.out(run) / "outcome.json").exists)
    bench.cluster.console.start()
    whole(bench, run)
    assert [event["kind"] for event in bench.events(run)].count("adopted") <= 1
    wait_until("nothing of it is left", lambda: leftovers(bench, node) == [])


def leftovers(bench: ClusterBench, node: Node) -> list[str]:
    inside = set(node.machine.processes())
    found = [
        item.kind for item in job_processes(bench.cluster.storage, without=-1) if item.process in inside and item.job
    ]
    return found + [str(path) for path in node.state.glob("**/processes/tp-*")]
