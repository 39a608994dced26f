"""A plan holds as long as nothing that it was made from changes: looking costs the database little and reads no jobs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from tests.tuneplane_server.harness import Harness, gpu_pool, jobspec
from tests.tuneplane_server.jobs.test_looks import statements
from tuneplane_server.domain.transitions import Event
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.governance.quotas import Subject
from tuneplane_server.features.queue.service import HOLDS_FOR

type Change = Callable[[Harness, Principal, str, str], Awaitable[object]]


async def _full(harness: Harness, ada: Principal) -> tuple[str, str]:
    """(a run that holds all cards, a job that waits for them)."""
    spec = jobspec(resources=gpu_pool(8))
    running = await harness.running_job(ada, spec)
    return running, await harness.submit(ada, spec)


async def test_a_plan_that_still_holds_is_not_made_again(harness: Harness, ada: Principal) -> None:
    await _full(harness, ada)
    queue = harness.services.queue
    made = await queue.current()
    harness.time.pass_(5)
    with statements(harness) as asked:
        assert await queue.current() is made
    assert len(asked) == 3  # of jobs, of holds, of quotas and policies: whether there is anything new
    assert await queue.recent() is made  # and readers need not ask again
    harness.time.pass_(HOLDS_FOR.total_seconds())
    assert await queue.current() is not made


async def _submit(harness: Harness, ada: Principal, _running: str, _waiting: str) -> None:
    await harness.submit(ada, jobspec(resources=gpu_pool(8)))


async def _pause(harness: Harness, _ada: Principal, _running: str, waiting: str) -> None:
    await harness.services.ledger.apply(waiting, Event.PAUSE, harness.services.ledger.evidence())


async def _cancel(harness: Harness, _ada: Principal, _running: str, waiting: str) -> None:
    await harness.services.ledger.apply(waiting, Event.CANCEL, harness.services.ledger.evidence())


async def _told_of_the_run(harness: Harness, _ada: Principal, running: str, _waiting: str) -> None:
    evidence = harness.services.ledger.evidence(condition="stalled")
    await harness.services.ledger.apply(running, Event.CONDITION, evidence)


async def _limited(harness: Harness, _ada: Principal, _running: str, _waiting: str) -> None:
    root = await harness.user("root", admin=True)
    await harness.services.governance.set_quota(root, Subject("user", "", ""), {"gpus": 8}, 0)


async def _drained(harness: Harness, _ada: Principal, _running: str, _waiting: str) -> None:
    root = await harness.user("root", admin=True)
    await harness.services.governance.set_policy(root, "drain", {"on": True, "text": ""}, 0)


async def _more_machines(harness: Harness, _ada: Principal, _running: str, _waiting: str) -> None:
    harness.scripted.cpus += 1
    harness.time.pass_(11)  # an inventory is ten seconds old at most


@pytest.mark.parametrize("change", [_submit, _pause, _cancel, _told_of_the_run, _limited, _drained, _more_machines])
async def test_whatever_a_plan_is_made_from_makes_a_new_one(harness: Harness, ada: Principal, change: Change) -> None:
    running, waiting = await _full(harness, ada)
    made = await harness.services.queue.current()
    assert await harness.services.queue.current() is made
    await change(harness, ada, running, waiting)
    assert await harness.services.queue.current() is not made


async def test_a_plan_does_not_outlive_the_rest_of_a_job_or_the_limit_of_a_run(
    harness: Harness, ada: Principal
) -> None:
    limit = 20
    running = await harness.running_job(ada, jobspec(resources=gpu_pool(8), limits={"max_duration": limit}))
    await harness.submit(ada, jobspec(resources=gpu_pool(8)))
    made = await harness.services.queue.current()
    (live,) = made.live
    assert live.job_id == running
    assert live.ends_at is not None
    assert made.holds_until == min(live.ends_at, made.made_at + HOLDS_FOR)
    harness.time.now = live.ends_at - timedelta(seconds=5)
    late = await harness.services.queue.current()
    assert late.holds_until == live.ends_at


async def test_a_plan_that_places_somebody_holds_for_no_second_look(harness: Harness, ada: Principal) -> None:
    job_id = await harness.submit(ada, jobspec(resources=gpu_pool(8)))
    made = await harness.services.queue.current()
    assert [item.job_id for item in made.plan.placements] == [job_id]
    assert await harness.services.queue.current() is not made
