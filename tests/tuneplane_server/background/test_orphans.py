"""What is out there and should not be is removed; what the ledger does not know is left alone."""

from __future__ import annotations

import pytest

from tests.tuneplane_server.executors.scripted import Container
from tests.tuneplane_server.harness import Harness
from tuneplane_server.executors.port import CleanupState, Handle
from tuneplane_server.features.accounts.principal import Principal


async def test_a_container_of_an_attempt_that_is_over_is_removed(harness: Harness, ada: Principal) -> None:
    job_id = await harness.running_job(ada)
    plan = harness.scripted.containers[job_id, 1].plan
    await harness.services.jobs.cancel(ada, job_id)
    await harness.round(2)
    assert (await harness.job(job_id)).cleanup == "confirmed"
    harness.scripted.containers[job_id, 1] = Container(plan)  # a launch that was paused past its lease
    await harness.round()
    assert harness.scripted.containers == {}


async def test_live_runs_and_runs_of_nobody_are_left_alone(harness: Harness, ada: Principal) -> None:
    job_id = await harness.running_job(ada)
    plan = harness.scripted.containers[job_id, 1].plan
    harness.scripted.containers["0" * 16, 1] = Container(plan)
    await harness.round(2)
    assert sorted(harness.scripted.containers) == sorted([(job_id, 1), ("0" * 16, 1)])


async def test_an_executor_that_is_away_has_no_orphans(harness: Harness, ada: Principal) -> None:
    job_id = await harness.running_job(ada)
    harness.scripted.reachable = False
    await harness.round()
    harness.scripted.reachable = True
    assert list(harness.scripted.containers) == [(job_id, 1)]


async def test_an_orphan_that_cannot_be_removed_is_in_no_others_way(
    harness: Harness, ada: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = []
    for _number in range(2):
        job_id = await harness.running_job(ada)
        plan = harness.scripted.containers[job_id, 1].plan
        await harness.services.jobs.cancel(ada, job_id)
        await harness.round(2)
        over.append((job_id, plan))
    for job_id, plan in over:
        harness.scripted.containers[job_id, 1] = Container(plan)
    cleanup = harness.scripted.cleanup

    async def bad(handle: Handle) -> CleanupState:
        if handle.job_id == over[0][0]:
            raise OSError("no")
        return await cleanup(handle)

    monkeypatch.setattr(harness.scripted, "cleanup", bad)
    await harness.round()
    assert list(harness.scripted.containers) == [(over[0][0], 1)]
    monkeypatch.undo()
    await harness.round()
    assert harness.scripted.containers == {}
