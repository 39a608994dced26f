"""One cluster of three nodes for all tests of this folder that need no other; each test leaves it as it found it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.cluster.bench import ClusterBench, prepare
from tests.services.cluster import Cluster, start_cluster
from tests.services.cluster_network import Network
from tests.services.plugin import network_or_skip

NAMES = ("node-a", "node-b", "node-c")


@pytest.fixture(scope="package")
def network(pytestconfig: pytest.Config) -> Iterator[Network]:
    with network_or_skip(pytestconfig) as made:
        yield made


@pytest.fixture(scope="package")
def cluster(network: Network, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    made = start_cluster(network, tmp_path_factory.mktemp("cluster"), *NAMES)
    yield made
    made.close()


@pytest.fixture(scope="package")
def package_bench(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> ClusterBench:
    return prepare(cluster, tmp_path_factory.mktemp("bench"))


@pytest.fixture
def bench(package_bench: ClusterBench) -> Iterator[ClusterBench]:
    """Three ready nodes with four free cards each, whatever the test before did to them."""
    cluster = package_bench.cluster
    for node in cluster.nodes.values():
        if not node.running:
            node.spawn()
    if not cluster.console.running:
        cluster.console.start()
    cluster.wait_ready(*NAMES)
    yield package_bench
    for node in cluster.nodes.values():
        node.machine.mend()
        if not node.running:
            node.spawn()
    package_bench.end_all()
