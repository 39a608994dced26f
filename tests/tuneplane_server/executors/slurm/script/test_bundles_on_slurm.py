"""The profile `oci` on a real Slurm: its own containers, made by runc as the job's user, from a registered bundle."""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from tests.services.slurm import SlurmCluster
from tuneplane_server.executors.slurm.script import Part, read_bundle

from .on_slurm import SHOWS, WAITS, Stage, end_all, stage_on

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]


@pytest.fixture
async def stage(slurm_clusters: Callable[[str], SlurmCluster]) -> AsyncIterator[Stage]:
    made = stage_on(slurm_clusters("24.11"))
    yield made
    await end_all(made)


@pytest.fixture
def bundle(stage: Stage) -> Path:
    """As an administrator makes one (`runc spec --rootless`); its root file system is the cluster's own, read-only."""
    place = stage.cluster.folder / f"bundle-{uuid.uuid4().hex[:8]}"
    stage.cluster.run("mkdir", "-p", str(place / "rootfs"), user=stage.cluster.user)
    stage.cluster.run("sh", "-c", f"cd {place} && runc spec --rootless", user=stage.cluster.user)
    config = json.loads((place / "config.json").read_text())
    config["mounts"] += [
        {"destination": path, "type": "none", "source": path, "options": ["rbind", "ro"]}
        for path in ("/usr", "/bin", "/lib", "/lib64")
    ]
    config["process"]["env"] += ["GREETING=of the image", "FROM_IMAGE=yes"]
    config["root"]["readonly"] = False
    (place / "config.json").unlink()
    (place / "config.json").write_text(json.dumps(config))
    return place


async def test_a_bundle_gets_the_jobs_environment_cards_and_directories(stage: Stage, bundle: Path) -> None:
    run = await stage.submit(
        f'touch "$HOME/here" && ! touch "${{0%/*}}/no" && {SHOWS}',
        Part(2, 8),
        profile="oci",
        image=bundle,
        bundle=read_bundle(str(bundle)),
        GREETING="a 'b' $c",
    )
    assert (await run.ended()).states == {"COMPLETED"}, run.output
    seen = [run.environment(rank) for rank in range(2)]
    assert [item["TUNEPLANE_MACHINE_RANK"] for item in seen] == ["0", "1"]
    assert {item["GREETING"] for item in seen} == {"a 'b' $c"}
    assert {item["FROM_IMAGE"] for item in seen} == {"yes"}
    assert {item["CUDA_VISIBLE_DEVICES"] for item in seen} == {"0,1,2,3,4,5,6,7"}
    assert not [name for item in seen for name in item if name.startswith(("SLURM_", "TUNEPLANE_IN_"))]


async def test_a_signalled_bundle_saves_on_every_machine(stage: Stage, bundle: Path) -> None:
    run = await stage.submit(WAITS, Part(2, 1), profile="oci", image=bundle, bundle=read_bundle(str(bundle)))
    await run.running()
    await stage.client.cancel(run.id)
    assert "CANCELLED" in (await run.ended()).states
    assert [run.saved(rank) for rank in range(2)] == [True, True], run.output
