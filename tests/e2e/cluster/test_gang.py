"""Jobs over several machines: the right ranks, an address that the others reach, ports that do not clash (scenarios 23 and 28)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.cluster.bench import ClusterBench, is_held
from tests.e2e.harness import wait_until
from tests.services.cluster_machine import FABRIC, MANAGEMENT

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]


@pytest.fixture(scope="module", autouse=True)
def silent(package_bench: ClusterBench) -> Iterator[str]:
    """A run that says nothing beside all of these tests; a minute of that is too long here."""
    package_bench.cluster.set_policy("watchdog", stalled_minutes=1)
    run = package_bench.submit(STEPS="2", HOLD="go")
    package_bench.runs.remove(run)
    yield run
    package_bench.runs.append(run)
    package_bench.end_all()
    package_bench.cluster.set_policy("watchdog")


def test_two_nodes_meet_at_an_address_that_the_other_one_reaches(bench: ClusterBench) -> None:
    """Scenario 28: ranks right, the main address reachable from rank 1, the interface recorded."""
    run = bench.submit(nodes=2, gpus=4, STEPS="3")
    first, second = bench.machines(run, 2)
    assert (first["rank"], first["met"], second["rank"], second["met"]) == (0, [1], 1, ["seen"])
    assert first["host"] != second["host"]
    assert first["main"] == second["main"]
    master = bench.cluster.nodes[first["host"]].machine
    cards = {master.address: MANAGEMENT, master.fabric_address: FABRIC}
    assert first["main"][0] in cards
    for told in (first, second):
        assert told["TUNEPLANE_NIC"] == cards[first["main"][0]]
        assert (told["TUNEPLANE_CLUSTER_NUM_NODES"], told["TUNEPLANE_CLUSTER_GPUS_PER_NODE"]) == ("2", "4")
    job = bench.wait(run, "succeeded")
    assert job["simulated"] is True
    assert bench.lines(run) == bench.points(run) == [1, 2, 3]


def test_without_the_fabric_they_meet_where_they_can(bench: ClusterBench) -> None:
    for node in bench.cluster.nodes.values():
        node.machine.cut(FABRIC)
    try:
        run = bench.submit(nodes=3, gpus=1)
        first, *others = bench.machines(run, 3)
        assert first["met"] == [1, 2]
        assert {told["host"] for told in (first, *others)} == set(bench.cluster.nodes)
        assert first["main"][0] == bench.cluster.nodes[first["host"]].machine.address
        bench.wait(run, "succeeded")
    finally:
        for node in bench.cluster.nodes.values():
            node.machine.mend(FABRIC)


def test_two_jobs_on_the_same_nodes_have_ports_of_their_own(bench: ClusterBench) -> None:
    """Scenario 28."""
    gate = bench.gate()
    runs = [bench.submit(nodes=3, STEPS="2", HOLD=str(gate)) for _ in range(2)]
    mains = [bench.machines(run, 3)[0] for run in runs]
    by_host: dict[str, set[int]] = {}
    for told in mains:
        by_host.setdefault(told["host"], set()).add(told["main"][1])
    assert sum(map(len, by_host.values())) == 2, mains
    assert mains[0]["main"] != mains[1]["main"]
    gate.touch()
    for run in runs:
        bench.wait(run, "succeeded")


def test_a_cancel_kills_what_is_deaf_on_every_node_before_its_cards_are_free(
    bench: ClusterBench, tmp_path: Path
) -> None:
    """Scenario 23, through one console and two daemons: whoever looks at whatever moment finds the cards held as long as a process lives."""
    for rank in range(2):
        os.mkfifo(tmp_path / f"held-{rank}")
    run = bench.submit(nodes=2, gpus=2, grace=1, DEAF=str(tmp_path))
    wait_until("both are deaf", lambda: all((tmp_path / f"up-{rank}").exists() for rank in range(2)), 120)
    nodes = [told["host"] for told in bench.machines(run, 2)]
    wait_until("it runs", lambda: bench.show(run)["phase"] == "running")
    held = bench.held(run)
    assert {node for node, _ in held} == set(nodes)
    assert len(held) == 4
    bench.api.cancel(run)
    looks = 0
    while not (job := bench.show(run)).get("finished_at") or job["cleanup"] != "confirmed":
        kept = {node for node, _ in bench.held(run)}
        for rank, node in enumerate(nodes):
            assert node in kept or not is_held(tmp_path / f"held-{rank}"), f"{node} is free and still in use"
        looks += 1
    assert looks
    assert job["phase"] == "cancelled"
    assert bench.held(run) == []
    assert not any(is_held(tmp_path / f"held-{rank}") for rank in range(2))


def test_one_machine_that_ends_badly_ends_the_others(bench: ClusterBench) -> None:
    run = bench.submit(nodes=2, gpus=1, STEPS="4", HOLD=str(bench.gate()))
    places = bench.machines(run, 2)
    victim = bench.cluster.nodes[places[1]["host"]]
    kill_trainer(bench, run, victim.name)
    job = bench.wait(run, "failed")
    assert job["reason"]["code"] == "killed"
    assert places[1]["host"] in job["reason"]["detail"]
    assert bench.held(run) == []


def test_a_run_that_says_nothing_is_stalled_and_is_left_alone(bench: ClusterBench, silent: str) -> None:
    """Scenario 32; that a phase which reports itself does not trip it is in tests/tuneplane_server/domain/test_watch.py."""
    wait_until("it is noticed", lambda: "stalled" in bench.conditions(silent), 240)
    (told,) = [item["text"] for item in bench.show(silent)["conditions"] if item["type"] == "stalled"]
    assert "1 minutes" in told
    assert bench.show(silent)["phase"] == "running"
    (bench.out(silent) / "go").touch()
    job = bench.wait(silent, "succeeded")
    assert (job["attempt"], bench.launches(silent)) == (1, 1)


def kill_trainer(bench: ClusterBench, run: str, node: str) -> None:
    """The user's own process on one node."""
    from tests.chaos.processes import TRAINER, job_processes

    inside = set(bench.cluster.nodes[node].machine.processes())
    found = [item for item in job_processes(bench.cluster.storage, without=-1) if item.job == run]
    (trainer, *_) = [item for item in found if item.kind == TRAINER and item.process in inside]
    assert trainer.kill()
