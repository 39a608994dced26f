"""Ranks that say nothing while others do, of a run that was really placed on three machines, over rows of real heartbeats."""

from __future__ import annotations

import pytest

from tests.tuneplane_server.background.test_watchdog import MINUTE, beat, conditions, look, policy, send
from tests.tuneplane_server.harness import Harness, jobspec
from tests.tuneplane_server.telemetry.build import log
from tuneplane_server.executors.port import Capabilities, GpuInfo, NodeInfo
from tuneplane_server.features.accounts.principal import Principal


@pytest.fixture
async def gang(harness: Harness, ada: Principal, monkeypatch: pytest.MonkeyPatch) -> str:
    """A running job on three machines."""
    cards = tuple(GpuInfo(index, "h200", "invented", None, simulated=True) for index in range(8))

    async def three() -> list[NodeInfo]:
        return [NodeInfo(name, 128, 1024, cards) for name in ("n1", "n2", "n3")]

    can = Capabilities("scripted", "environment", on_this_machine=True, isolates=False, multi_node=True)
    monkeypatch.setattr(harness.scripted, "nodes", three)
    monkeypatch.setattr(harness.scripted, "capabilities", lambda: can)
    pool = {"name": "main", "series": "h200", "nodes": 3, "gpus_per_node": 8}
    job_id = await harness.running_job(ada, jobspec(resources={"pools": [pool]}))
    (attempt,) = (await harness.services.jobs.attempts([job_id]))[job_id]
    assert len({item["node"] for item in attempt.placement}) == 3
    return job_id


async def heard(harness: Harness, job_id: str, count: int, *ranks: int) -> None:
    """Minutes in which these machines are heard and the run prints something."""
    for _minute in range(count):
        harness.time.pass_(MINUTE)
        await beat(harness, job_id, *ranks)
        await look(harness)


async def test_the_ranks_that_fall_silent_are_named_until_they_are_heard_again(harness: Harness, gang: str) -> None:
    await heard(harness, gang, 12, 0, 1, 2)
    assert await conditions(harness, gang) == []
    await heard(harness, gang, 9, 0)
    assert await conditions(harness, gang) == []
    await heard(harness, gang, 3, 0)
    job = await harness.job(gang)
    (condition,) = job.conditions
    assert (condition["type"], condition["data"]["ranks"], job.phase) == ("rank-silent", "1, 2", "running")
    await heard(harness, gang, 2, 0, 2)
    (condition,) = (await harness.job(gang)).conditions
    assert condition["data"]["ranks"] == "1"
    await heard(harness, gang, 2, 0, 1, 2)
    assert await conditions(harness, gang) == []
    assert harness.scripted.stopped == []


async def test_a_machine_that_was_never_heard_is_silent_too(harness: Harness, gang: str) -> None:
    await send(harness, gang, logs=[log(1, "step 1\n")])
    await heard(harness, gang, 12, 0, 1)
    (condition,) = (await harness.job(gang)).conditions
    assert (condition["type"], condition["data"]["ranks"]) == ("rank-silent", "2")


async def test_nobody_looks_for_silent_ranks_where_the_policy_says_so(harness: Harness, gang: str) -> None:
    await policy(harness, silent_minutes=None)
    await heard(harness, gang, 20, 0)
    assert await conditions(harness, gang) == []


async def test_heartbeats_of_an_earlier_attempt_say_nothing_of_this_one(harness: Harness, gang: str) -> None:
    for _minute in range(12):
        harness.time.pass_(MINUTE)
        await beat(harness, gang, 0)
        await beat(harness, gang, 1, 2, attempt=7)
        await look(harness)
    (condition,) = (await harness.job(gang)).conditions
    assert condition["data"]["ranks"] == "1, 2"
