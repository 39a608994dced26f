"""Two machines of eight cards each on a real Slurm: sixteen ranks of torchrun meet over gloo (scenario 28)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.harness import Client
from tests.e2e.slurm.consoles import slurm_client
from tests.services.slurm import VERSIONS, SlurmCluster

pytestmark = [pytest.mark.training, pytest.mark.timeout(900)]

TRAIN = """\
exec torchrun --nnodes "$TUNEPLANE_MACHINE_COUNT" --node-rank "$TUNEPLANE_MACHINE_RANK" \\
  --nproc-per-node "$TUNEPLANE_CLUSTER_GPUS_PER_NODE" \\
  --master-addr "$TUNEPLANE_MAIN_PROCESS_IP" --master-port "$TUNEPLANE_MAIN_PROCESS_PORT" meet.py
"""
# Every rank adds its own number to the others', and says where it was.
MEET = """\
import json, os
from datetime import timedelta
from pathlib import Path

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=timedelta(minutes=5))
rank, world = dist.get_rank(), dist.get_world_size()
total = torch.tensor([float(rank)])
dist.all_reduce(total)
names = ("TUNEPLANE_MACHINE_RANK", "LOCAL_RANK", "CUDA_VISIBLE_DEVICES", "TUNEPLANE_CLUSTER_NUM_NODES")
mine = {"rank": rank, "slurm": [name for name in os.environ if name.startswith("SLURM")]} | {name: os.environ.get(name) for name in names}
everybody = [None] * world
dist.all_gather_object(everybody, mine)
if rank == 0:
    from tuneplane import report

    report.init()
    report.log({"train/total": total.item()}, step=1)
    report.finish()
    Path(os.environ["TUNEPLANE_OUT_DIR"], "ranks.json").write_text(json.dumps({"total": total.item(), "ranks": everybody}))
dist.destroy_process_group()
"""


@pytest.fixture(scope="module", params=sorted(VERSIONS))
def client(
    request: pytest.FixtureRequest, slurm_clusters: Callable[[str], SlurmCluster], training_runtime: Path
) -> Iterator[Client]:
    cluster = slurm_clusters(request.param)
    with slurm_client(cluster, TUNEPLANE_IMAGE_CUSTOM=str(cluster.image("torch.sif", training_runtime))) as made:
        yield made


def test_sixteen_ranks_on_two_machines_meet(client: Client) -> None:
    experiment = client.new("meet", "custom/custom")
    (experiment / "train.sh").write_text(TRAIN)
    (experiment / "meet.py").write_text(MEET)
    told = ("--observability", "platform", "--env", "OMP_NUM_THREADS=1", "--json")
    run = client.tp("submit", "meet", "--profile", "h200:16", *told).json["id"]
    job = client.wait(run)
    assert [(pool["nodes"], pool["gpus_per_node"]) for pool in job["pools"]] == [(2, 8)]
    assert len(set(job["nodes"])) == 2
    found = json.loads((_attempt(client, run) / "out" / "ranks.json").read_text())
    ranks: list[dict[str, Any]] = found["ranks"]
    assert found["total"] == sum(range(16))
    places = [(item["TUNEPLANE_MACHINE_RANK"], item["LOCAL_RANK"]) for item in ranks]
    assert places == [(str(machine), str(local)) for machine in range(2) for local in range(8)]
    assert {item["CUDA_VISIBLE_DEVICES"] for item in ranks} == {"0,1,2,3,4,5,6,7"}
    assert {item["TUNEPLANE_CLUSTER_NUM_NODES"] for item in ranks} == {"2"}
    assert not [name for item in ranks for name in item["slurm"]]
    assert client.curve(run, "train/total") == [(1, float(sum(range(16))))]
    outcomes = sorted(path.name for path in (_attempt(client, run) / "out").glob("outcome*.json"))
    assert len(outcomes) == 2, outcomes


def _attempt(client: Client, run: str) -> Path:
    (found,) = client.console.storage.glob(f"projects/*/*/jobs/{run}/attempts/1")
    return found
