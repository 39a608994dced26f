"""Admission for Slurm: what its partitions never give is refused, naming the setting to change, before Slurm is asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.tuneplane_server.executors.scripted import ScriptedExecutor
from tests.tuneplane_server.harness import Harness, jobspec
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane_server.executors.port import Capabilities, NodeInfo
from tuneplane_server.executors.slurm.cards import node_infos
from tuneplane_server.executors.slurm.rest.models import Partition, SlurmNode
from tuneplane_server.executors.slurm.rules import SlurmRules
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.runtimes.registry import RuntimeRegistry
from tuneplane_server.slurm_settings import SlurmSettings, slurm_settings

SLURM = {
    "TUNEPLANE_EXECUTOR": "slurm",
    "TUNEPLANE_SLURM_URL": "http://slurm.example.org:6820",
    "TUNEPLANE_SLURM_USER": "tuneplane",
    "TUNEPLANE_SLURM_TOKEN": "eyJhbGciOiJIUzI1NiJ9",
    "TUNEPLANE_SLURM_CONTAINER": "apptainer",
    "TUNEPLANE_SLURM_PARTITION": "small,h200=gpu",
    "TUNEPLANE_IMAGE_CUSTOM": "/shared/custom.sif",
}
IDLE = frozenset({"IDLE"})
UP = frozenset({"UP"})
GIB = 1024


def machine(name: str, partition: str, cards: Mapping[str, int], architecture: str = "x86_64") -> SlurmNode:
    return SlurmNode(
        name, name, IDLE, cpus=64, memory_mb=512 * GIB, gpus=cards, partitions=(partition,), architecture=architecture
    )


@dataclass
class Cluster(ScriptedExecutor):
    """Slurm's machines, made into ours as its executor makes them."""

    slurm: SlurmSettings | None = None
    machines: Sequence[SlurmNode] = field(
        default_factory=lambda: [
            machine("c1", "small", {}),
            machine("g1", "gpu", {"h200": 8}),
            machine("g2", "gpu", {"h200": 8}),
            machine("b1", "big", {"h200": 8}),
        ]
    )
    partitions: Sequence[Partition] = (
        Partition("small", UP, default=True),
        Partition("gpu", UP, max_minutes=60, max_nodes=2),
        Partition("big", UP),
    )

    def capabilities(self) -> Capabilities:
        return Capabilities("apptainer", "sif", heterogeneous_pools=True, multi_node=True, own_queue=True)

    async def nodes(self) -> list[NodeInfo]:
        self._ask()
        assert self.slurm is not None
        return node_infos(self.machines, self.partitions, SlurmRules(self.slurm, Path("/")))


def made(url: str, folder: Path, **settings: str) -> Harness:
    cluster = Cluster()
    harness = Harness(url, folder, cluster, SLURM | settings)
    cluster.slurm = slurm_settings(harness.services.settings)
    return harness


@pytest.fixture
async def harness(migrated_sqlite_url: str, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Harness]:
    """On SQLite: the rules are functions of plain values. Parametrised indirectly with settings that differ from `SLURM`."""
    harness = made(migrated_sqlite_url, tmp_path, **getattr(request, "param", {}))
    yield harness
    await harness.close()


def settings(**values: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "harness", [{f"TUNEPLANE_{name}": value for name, value in values.items()}], indirect=True
    )


async def refusals(harness: Harness, who: Principal, *pools: dict[str, Any], **spec: Any) -> list[Refusal]:
    resources: dict[str, Any] = {"pools": [{"name": f"p{n}", **pool} for n, pool in enumerate(pools)]}
    if len(pools) > 1:
        resources["roles"] = {f"role-{n}": f"p{n}" for n in range(len(pools))}
    wanted = jobspec(resources=resources, **spec)
    return await _submitted(harness, who, wanted)


async def _submitted(harness: Harness, who: Principal, wanted: dict[str, Any]) -> list[Refusal]:
    try:
        await harness.services.jobs.submit(who, wanted, key=None, ingest_address="https://tuneplane.example.org")
    except RefusedError as error:
        return error.refusals
    return []


def gpus(count: int, nodes: int = 1, **more: Any) -> dict[str, Any]:
    return {"series": "h200", "nodes": nodes, "gpus_per_node": count, **more}


CPU = {"series": "cpu", "nodes": 1, "gpus_per_node": 0, "cpus": 1, "memory_gb": 1}


async def test_what_the_partitions_have_is_admitted(harness: Harness, ada: Principal) -> None:
    assert await refusals(harness, ada, CPU) == []
    assert await refusals(harness, ada, gpus(8, 2), limits={"max_duration": 3600}) == []


@pytest.mark.parametrize(
    ("pool", "field", "said"),
    [
        (gpus(8, 3), "spec.resources.pools.0", "the partition gpu has 2 of them"),
        (gpus(8, cpus=65), "spec.resources.pools.0", "65 CPUs"),
        (gpus(8, memory_gb=513), "spec.resources.pools.0", "513 GB"),
        (CPU | {"nodes": 2}, "spec.resources.pools.0", "the partition small has 1 of them"),
        (gpus(9), "spec.resources.pools.0.gpus_per_node", "largest has 8"),
        (gpus(1) | {"series": "b200"}, "spec.resources.pools.0.series", "no profile “b200”"),
    ],
)
async def test_machines_that_no_partition_has_are_refused_with_the_setting(
    harness: Harness, ada: Principal, pool: dict[str, Any], field: str, said: str
) -> None:
    (refusal,) = await refusals(harness, ada, pool)
    assert (refusal.code, refusal.field) in (("pool-impossible", field), ("profile-unknown", field))
    assert said in refusal.message
    assert "TUNEPLANE_SLURM_PARTITION" in refusal.hint


async def test_what_was_not_asked_for_is_not_named_and_the_largest_machine_is(harness: Harness, ada: Principal) -> None:
    (many,) = await refusals(harness, ada, gpus(8, 3))
    assert many.message == "the pool p0 wants 3 machines with 8 h200 each; the partition gpu has 2 of them"
    (memory,) = await refusals(harness, ada, gpus(8, memory_gb=600))
    assert memory.message.startswith("the pool p0 wants 1 machine with 8 h200 and 600 GB of memory; ")
    assert "the largest machine for it, g2, has 8 h200, 64 CPUs and " in memory.message


@settings(SLURM_PARTITION="big,h200=gpu,cpu=small")
async def test_machines_of_another_partition_that_counts_are_named(harness: Harness, ada: Principal) -> None:
    (refusal,) = await refusals(harness, ada, gpus(8, 3))
    assert "also in: big" in refusal.hint


async def test_more_machines_than_the_partition_gives_one_job(harness: Harness, ada: Principal) -> None:
    cluster = harness.scripted
    assert isinstance(cluster, Cluster)
    cluster.machines = [*cluster.machines, machine("g3", "gpu", {"h200": 8})]
    (refusal,) = await refusals(harness, ada, gpus(8, 3))
    assert (refusal.code, refusal.field) == ("pool-impossible", "spec.resources.pools.0.nodes")
    assert "gives a job 2 machines at most" in refusal.message


async def test_longer_than_the_partition_lets_a_job_run(harness: Harness, ada: Principal) -> None:
    (refusal,) = await refusals(harness, ada, gpus(1), limits={"max_duration": 3601})
    assert (refusal.code, refusal.field) == ("duration-over-limit", "spec.limits.max_duration")
    assert "the partition gpu ends jobs after 60 minutes" in refusal.message
    assert "3600 s" in refusal.hint
    assert "TUNEPLANE_SLURM_PARTITION" in refusal.hint
    assert await refusals(harness, ada, CPU, limits={"max_duration": 3601}) == [], "its partition has no limit"


@settings(SLURM_TIME_LIMIT="61")
async def test_a_default_that_the_partition_does_not_give_is_a_setting_to_lower(
    harness: Harness, ada: Principal
) -> None:
    (refusal,) = await refusals(harness, ada, gpus(1))
    assert refusal.code == "duration-over-limit"
    assert "TUNEPLANE_SLURM_TIME_LIMIT" in refusal.hint
    assert await refusals(harness, ada, gpus(1), limits={"max_duration": 60}) == []


@settings(SLURM_PARTITION="")
async def test_without_a_setting_slurms_default_partition_counts(harness: Harness, ada: Principal) -> None:
    assert await refusals(harness, ada, CPU) == []
    (refusal,) = await refusals(harness, ada, CPU | {"nodes": 2})
    assert "the partition small has 1 of them" in refusal.message


@settings(SLURM_PARTITION="")
async def test_where_slurm_does_not_say_which_partition_is_its_default_any_may_be(
    harness: Harness, ada: Principal
) -> None:
    """As on 24.11."""
    cluster = harness.scripted
    assert isinstance(cluster, Cluster)
    cluster.partitions = [replace(partition, default=False) for partition in cluster.partitions]
    assert await refusals(harness, ada, gpus(8, 3), limits={"max_duration": 36000}) == []
    (refusal,) = await refusals(harness, ada, gpus(8, 4))
    assert "the partition (Slurm's default) has 3 of them" in refusal.message


async def test_two_pools_that_fit_alone_and_not_together(harness: Harness, ada: Principal) -> None:
    found = await refusals(harness, ada, gpus(8, 2), gpus(8))
    assert [refusal.code for refusal in found if refusal.code == "pool-impossible"] == ["pool-impossible"]
    assert "TUNEPLANE_SLURM_PARTITION on the console" in " ".join(refusal.hint for refusal in found)
    assert found[0].message == "the pool p1 wants 1 machine with 8 h200; the other pools of the job leave 0 of them"


async def test_an_image_of_another_architecture_is_refused_where_the_machines_are_known(
    harness: Harness, ada: Principal, tmp_path: Path
) -> None:
    file = tmp_path / "runtimes.yaml"
    file.write_text("runtimes:\n  trl-1.16: {sif: {path: /shared/trl.sif, architecture: arm64}}\n")
    registry = RuntimeRegistry(file, harness.services.findings)
    object.__setattr__(harness.services.planner, "registry", registry)
    cluster = harness.scripted
    assert isinstance(cluster, Cluster)
    (refusal,) = await _submitted(harness, ada, jobspec("trl/sft"))
    assert refusal.code == "runtime-form"
    assert refusal.message == "the runtime trl-1.16 is an image for arm64, and the machines are amd64"
    for architecture in ("", "aarch64"):  # unknown is no reason to refuse
        cluster.machines = [machine("c1", "small", {}, architecture)]
        harness.time.pass_(60)
        assert await _submitted(harness, ada, jobspec("trl/sft")) == []


async def test_while_slurm_is_away_and_nothing_is_known_nothing_of_it_is_refused(
    harness: Harness, ada: Principal
) -> None:
    harness.scripted.reachable = False
    found = [refusal.code for refusal in await refusals(harness, ada, CPU)]
    assert found == []
