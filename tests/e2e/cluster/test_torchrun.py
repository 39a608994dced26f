"""A real torchrun job over two nodes: one process on each, meeting over gloo."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.harness import Client
from tests.services.cluster import Cluster, start_cluster
from tests.services.cluster_network import Network

pytestmark = [pytest.mark.training, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def cluster(
    cluster_network: Network, framework_env: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    made = start_cluster(
        cluster_network,
        tmp_path_factory.mktemp("torchrun"),
        "node-a",
        "node-b",
        nodes={"TUNEPLANE_SIMULATED_GPUS": "h200:1"},
        TUNEPLANE_IMAGE_PYTORCH=str(framework_env("pytorch")),
    )
    yield made
    made.close()


def test_two_nodes_train_one_model(cluster: Cluster, tmp_path: Path) -> None:
    client = Client(tmp_path / "client", cluster.console, cluster.console.add_user("ann")).prepare()
    client.new("digits", "pytorch/image-classification")
    answer = client.tp(
        "submit", "digits", "--profile", "h200:2", "--set", "epochs=1", "--env", "OMP_NUM_THREADS=1", "--json"
    )
    run = answer.json["id"]
    job = client.wait(run)
    assert [(pool["nodes"], pool["gpus_per_node"]) for pool in job["pools"]] == [(2, 1)]
    placed = next(item for item in client.api(f"/jobs/{run}/events?limit=200")["items"] if item["kind"] == "placed")
    assert {"node-a", "node-b"} <= set(placed["text"].replace(",", " ").split())
    losses = [value for _, value in client.curve(run, "train/loss")]
    assert losses[-1] < losses[0]
    assert client.curve(run, "validation/accuracy")[-1][1] > 0.5  # a guess is right once in ten
    second = client.api(f"/jobs/{run}/logs?rank=1&limit=1000")["items"]
    assert {item["rank"] for item in second} <= {1}
    ranks = client.console.storage / "projects" / "ann" / "lab" / "jobs" / run / "attempts" / "1" / "out" / "ranks"
    assert sorted(path.name for path in ranks.iterdir()) == ["machine-0", "machine-1"]
    assert client.api(f"/jobs/{run}/artifacts")["checkpoints"][-1]["complete"]
