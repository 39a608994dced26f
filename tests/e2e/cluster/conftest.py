"""One cluster of three nodes for all tests of a module; each test leaves it as it found it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.cluster.bench import ClusterBench, prepare
from tests.services.cluster import Cluster, start_cluster
from tests.services.cluster_network import Network

NAMES = ("node-a", "node-b", "node-c")


@pytest.fixture(scope="module")
def cluster(cluster_network: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = start_cluster(cluster_network, tmp_path_factory.mktemp("cluster"), *NAMES)
    yield made
    made.close()


@pytest.fixture(scope="module")
def module_bench(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> ClusterBench:
    return prepare(cluster, tmp_path_factory.mktemp("bench"))


@pytest.fixture
def bench(module_bench: ClusterBench) -> Iterator[ClusterBench]:
    """Three ready nodes with four free cards each, whatever the test before did to them."""
    cluster = module_bench.cluster
    for node in cluster.nodes.values():
        if not node.running:
            node.spawn()
    if not cluster.console.running:
        cluster.console.start()
    cluster.wait_ready(*NAMES)
    yield module_bench
    for node in cluster.nodes.values():
        node.machine.mend()
        if not node.running:
            node.spawn()
    module_bench.end_all()
