"""Of hundreds of runs that just run, the observer looks at some at a time; of every other run at each look."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.tuneplane_server.harness import Harness
from tuneplane_server.background.batches import Turns
from tuneplane_server.background.observer import Observer
from tuneplane_server.executors.port import Handle, Observation
from tuneplane_server.features.accounts.principal import Principal


async def test_runs_that_just_run_are_looked_at_in_turn_and_those_that_are_stopped_each_time(
    harness: Harness, ada: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [await harness.running_job(ada) for _number in range(5)]
    role = harness.loop("observer").role
    assert isinstance(role, Observer)
    role._turns = Turns(2)
    seen: Counter[str] = Counter()
    observe = harness.scripted.observe

    async def counted(handle: Handle) -> Observation:
        seen[handle.job_id] += 1
        return await observe(handle)

    monkeypatch.setattr(harness.scripted, "observe", counted)

    paced = [work.after for work in await role.due() if work.now]
    assert paced[0] == 0.0 < paced[1] < role.interval, "looks that take turns are spread"

    async def look() -> None:
        await harness.loop("observer").tick()
        await harness.loop("observer").idle()

    for _look in range(5):
        await look()
    assert seen == Counter(dict.fromkeys(ids, 2))
    assert harness.loop("observer").held == 5, "whose turn it is not keeps its lease"
    await harness.services.jobs.cancel(ada, ids[4])
    seen.clear()
    for _look in range(4):
        await look()
    assert seen[ids[4]] == 4
    assert [seen[job_id] for job_id in ids[:4]] == [2, 2, 2, 2]
