"""A node that is gone for longer than the deadline, and one that comes back to find its attempt superseded."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.processes import job_processes
from tests.e2e.cluster.bench import ClusterBench, prepare
from tests.e2e.harness import wait_until
from tests.services.cluster import Cluster, start_cluster
from tests.services.cluster_network import Network

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]
DEADLINE = 5


@pytest.fixture(scope="module")
def impatient(cluster_network: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("impatient")
    made = start_cluster(cluster_network, folder, "node-a", "node-b", TUNEPLANE_NODE_LOST_SECONDS=str(DEADLINE))
    yield made
    made.close()


@pytest.fixture(scope="module")
def bench(impatient: Cluster, tmp_path_factory: pytest.TempPathFactory) -> ClusterBench:
    return prepare(impatient, tmp_path_factory.mktemp("bench"))


def test_a_run_of_a_lost_node_goes_on_elsewhere_and_the_node_is_fenced_until_it_is_clean(
    bench: ClusterBench, tmp_path: Path
) -> None:
    gate = tmp_path / "go"
    run = bench.submit(retries=1, STEPS="4", HOLD=str(gate))
    (place,) = bench.machines(run)
    bench.wait(run, "running")
    lost = bench.cluster.nodes[place["host"]]
    lost.machine.cut()

    wait_until("it is tried again", lambda: bench.show(run)["attempt"] == 2, 120)
    first = bench.show(run)["attempts"][0]
    assert (first["phase"], first["reason"]["code"], first["reason"]["class"]) == ("lost", "node-lost", "infra")
    assert lost.name in first["reason"]["text"] + first["reason"]["detail"]
    (second,) = bench.machines(run, attempt=2)
    assert second["host"] != lost.name
    seen = bench.cluster.listed()[lost.name]
    assert [(fence["job_id"], fence["attempt"]) for fence in seen["fences"]] == [(run, 1)]
    assert alive(bench, run, 1), "the old attempt trains on behind the cut: that is what the fence is for"

    lost.machine.mend()
    wait_until("nothing of the old attempt is left", lambda: not alive(bench, run, 1), 120)
    wait_until("the fence is gone", lambda: not bench.cluster.listed()[lost.name]["fences"], 120)
    bench.cluster.wait_ready(lost.name)
    gate.touch()
    job = bench.wait(run, "succeeded")
    assert job["attempt"] == 2
    assert bench.lines(run, 2) == bench.points(run, 2) == [1, 2, 3, 4]
    assert bench.points(run, 1) == [1, 2]
    assert not (bench.out(run, 1) / "outcome.json").exists() or job["attempts"][0]["phase"] == "lost"


def test_without_retries_it_is_lost(bench: ClusterBench, tmp_path: Path) -> None:
    run = bench.submit(STEPS="2", HOLD=str(tmp_path / "never"))
    (place,) = bench.machines(run)
    bench.wait(run, "running")
    node = bench.cluster.nodes[place["host"]]
    node.power_off()
    wait_until("it is given up", lambda: bench.show(run)["phase"] == "lost", 120)
    assert bench.show(run)["reason"]["code"] == "node-lost"
    assert bench.cluster.listed()[node.name]["fences"]
    node.spawn()
    bench.cluster.wait_ready(node.name)
    assert bench.wait(run, "lost")["cleanup"] == "confirmed"
    assert bench.held(run) == []


def alive(bench: ClusterBench, run: str, attempt: int) -> list[str]:
    found = job_processes(bench.cluster.storage, without=-1)
    return [item.kind for item in found if (item.job, item.attempt) == (run, attempt)]


def test_a_machine_that_lost_its_state_directory_ends_what_it_ran_before(bench: ClusterBench, tmp_path: Path) -> None:
    """It is another node to everybody, itself included, and its earlier self's job holds its cards."""
    run = bench.submit(STEPS="2", HOLD=str(tmp_path / "never"))
    (place,) = bench.machines(run)
    bench.wait(run, "running")
    node = bench.cluster.nodes[place["host"]]
    before = bench.cluster.listed()[node.name]["node_id"]
    node.kill()
    shutil.rmtree(node.state)
    node.spawn()
    wait_until("it is given up", lambda: bench.show(run)["phase"] == "lost", 120)
    wait_until("nothing of it is left", lambda: not alive(bench, run, 1), 120)
    bench.cluster.wait_ready(node.name)
    assert bench.cluster.listed()[node.name]["node_id"] != before
    assert bench.wait(run, "lost")["cleanup"] == "confirmed"
    after = bench.submit(STEPS="1", gpus=4)
    assert bench.wait(after, "succeeded")["attempt"] == 1
