"""Nodes that run jobs in real containers of a real Docker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.chaos.docker_host import image_settings
from tests.e2e.cluster.bench import ClusterBench, prepare
from tests.e2e.harness import wait_until
from tests.services.cluster import Cluster, start_cluster
from tests.services.cluster_network import Network
from tests.services.containers import Engine

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def docker_cluster(
    cluster_network: Network, docker_engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """One node, whose containers are in this machine's network, as those of a daemon of Docker's always are in its own."""
    settings = image_settings(docker_engine)
    image = settings.pop("TUNEPLANE_IMAGE_CUSTOM")
    folder = tmp_path_factory.mktemp("docker")
    made = start_cluster(cluster_network, folder, "node-a", nodes=settings, TUNEPLANE_IMAGE_CUSTOM=image)
    yield made
    made.close()


@pytest.fixture(scope="module")
def bench(docker_cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> ClusterBench:
    return prepare(docker_cluster, tmp_path_factory.mktemp("bench"))


def test_a_container_outlives_its_daemon_and_is_removed_when_it_is_over(
    bench: ClusterBench, docker_engine: Engine
) -> None:
    node = bench.cluster.nodes["node-a"]
    run = bench.submit(STEPS="20", HOLD="go")
    wait_until("it has told half", lambda: bench.points(run)[-1:] == [10], 120)
    bench.wait(run, "running")
    assert bench.show(run)["runtime"]["ran_in"] == "docker"
    assert bench.cluster.listed()["node-a"]["isolated"] is True
    node.kill()
    (container,) = containers_of(docker_engine, run)
    assert container["State"] == "running"
    node.spawn()
    bench.cluster.wait_ready()
    (bench.out(run) / "go").touch()
    job = bench.wait(run, "succeeded")
    assert (job["attempt"], bench.launches(run)) == (1, 1)
    assert bench.lines(run) == bench.points(run) == list(range(1, 21))
    assert containers_of(docker_engine, run) == []


def containers_of(engine: Engine, run: str) -> list[dict[str, Any]]:
    with engine.client() as client:
        listed = client.get("/containers/json", params={"all": 1}).raise_for_status().json()
    return [item for item in listed if item["Labels"].get("tuneplane.job") == run]
