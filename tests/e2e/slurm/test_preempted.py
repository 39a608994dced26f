"""What Slurm itself ends: a run that has to make room, and one whose time in Slurm is over. Both may save first, and say why."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.e2e.harness import Client
from tests.e2e.slurm.consoles import slurm_client
from tests.e2e.slurm.holding import hold
from tests.services.slurm import SlurmCluster
from tests.tuneplane_server.executors.slurm.script.on_slurm import end_all, stage_on
from tuneplane_server.executors.slurm.script import Part

pytestmark = [pytest.mark.services, pytest.mark.timeout(600)]


@pytest.fixture
def client(slurm: SlurmCluster) -> Iterator[Client]:
    """Runs the test twice, on real Slurm 22.05 and 24.11, in the partition whose jobs make room for others after 20 seconds."""
    with slurm_client(slurm, TUNEPLANE_SLURM_PARTITION="low") as made:
        yield made


def test_a_run_that_makes_room_saves_first(slurm: SlurmCluster, client: Client) -> None:
    held = hold(client, slurm, "humble", profile="h200:32")
    held.until_held()

    async def take_it_all() -> None:
        stage = stage_on(slurm)
        try:
            other = await stage.submit("exit 0\n", Part(4, 8), partition="main")
            assert (await other.ended()).states == {"COMPLETED"}, other.output
        finally:
            await end_all(stage)

    asyncio.run(take_it_all())
    job = client.wait(held.run, "failed", 240)
    assert job["reason"]["code"] == "preempted"
    assert "saved 1" in client.printed(held.run)
