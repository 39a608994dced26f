"""Pools of different shape on a real Slurm: one heterogeneous job, whose machines count through the pools in their order."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import Client
from tests.e2e.slurm.consoles import slurm_client
from tests.services.slurm import VERSIONS, SlurmCluster
from tests.tuneplane.recipes.organisations import SCRIPT, write_recipe

pytestmark = [pytest.mark.services, pytest.mark.timeout(600)]
METHOD = "custom/acme-script"
TRAIN = "exec python3 meet.py\n"
# Every machine says its place; the others tell rank 0 theirs at the main address.
MEET = """\
import json, os, socket, time
from pathlib import Path

env = os.environ
rank, count = int(env["TUNEPLANE_MACHINE_RANK"]), int(env["TUNEPLANE_MACHINE_COUNT"])
main = env["TUNEPLANE_MAIN_PROCESS_IP"], int(env["TUNEPLANE_MAIN_PROCESS_PORT"])
names = ("TUNEPLANE_CLUSTER_NUM_NODES", "TUNEPLANE_CLUSTER_GPUS_PER_NODE", "CUDA_VISIBLE_DEVICES", "TUNEPLANE_POOL_TOPOLOGY")
mine = {"rank": rank, "slurm": [name for name in env if name.startswith("SLURM")]} | {name: env.get(name) for name in names}
if rank:
    deadline = time.monotonic() + 120
    while True:
        try:
            with socket.create_connection(main, timeout=60) as connection:
                connection.sendall(json.dumps(mine).encode() + b"\\n")
                connection.makefile().readline()
            break
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)
else:
    told = [mine]
    with socket.create_server(main) as server:
        while len(told) < count:
            connection, _ = server.accept()
            with connection:
                told.append(json.loads(connection.makefile().readline()))
                connection.sendall(b"seen\\n")
    told.sort(key=lambda item: item["rank"])
    Path(env["TUNEPLANE_OUT_DIR"], "machines.json").write_text(json.dumps(told))
"""


@pytest.fixture(params=sorted(VERSIONS))
def client(
    request: pytest.FixtureRequest, slurm_clusters: Callable[[str], SlurmCluster], tmp_path: Path
) -> Iterator[Client]:
    house = str(write_recipe(tmp_path / "house", SCRIPT, roles=["train", "rollout"]))
    with slurm_client(slurm_clusters(request.param), TUNEPLANE_RECIPE_PATH=house) as made:
        yield made.with_env(TUNEPLANE_RECIPE_PATH=house)


def test_two_machines_train_and_a_third_of_another_shape_rolls_out(client: Client) -> None:
    experiment = client.new("meet", METHOD)
    (experiment / "train.sh").write_text(TRAIN)
    (experiment / "meet.py").write_text(MEET)
    shape = ("--profile", "train=h200:16", "--profile", "rollout=h200:4")
    run = client.tp("submit", "meet", *shape, "--observability", "platform", "--json").json["id"]
    job = client.wait(run)
    assert [(pool["name"], pool["nodes"], pool["gpus_per_node"]) for pool in job["pools"]] == [
        ("train", 2, 8),
        ("rollout", 1, 4),
    ]
    assert len(set(job["nodes"])) == 3
    (attempt,) = client.console.storage.glob(f"projects/*/*/jobs/{run}/attempts/1")
    machines: list[dict[str, Any]] = json.loads((attempt / "out" / "machines.json").read_text())
    assert [item["rank"] for item in machines] == [0, 1, 2]
    assert [len(item["CUDA_VISIBLE_DEVICES"].split(",")) for item in machines] == [8, 8, 4]
    assert [item["TUNEPLANE_CLUSTER_GPUS_PER_NODE"] for item in machines] == ["8", "8", "4"]
    assert {item["TUNEPLANE_CLUSTER_NUM_NODES"] for item in machines} == {"3"}
    topology = json.loads(machines[0]["TUNEPLANE_POOL_TOPOLOGY"])
    assert [pool["name"] for pool in topology] == ["train", "rollout"]
    assert not [name for item in machines for name in item["slurm"]]
    names = [line.split()[1] for line in (attempt / "slurm" / "nodes").read_text().splitlines()]
    assert names == job["nodes"]
