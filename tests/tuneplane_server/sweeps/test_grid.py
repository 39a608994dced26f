"""A grid: every variant is a job, a few at a time, until all are over."""

from __future__ import annotations

from tests.tuneplane_server.sweeps.build import Sweeps


async def test_a_grid_runs_each_variant_once_and_never_more_than_allowed_at_once(sweeps: Sweeps) -> None:
    row = await sweeps.create()
    assert (row.state, row.total, row.max_parallel) == ("running", 3, 2)
    await sweeps.harness.round(2)
    trials = await sweeps.trials(row.id)
    assert [(trial.number, trial.params, trial.state) for trial in trials] == [
        (0, {"env.LR": 1}, "submitted"),
        (1, {"env.LR": 2}, "submitted"),
    ]
    job = await sweeps.harness.job(trials[1].job_id or "")
    assert job.spec["spec"]["env"] == {"LR": "2"}
    assert job.spec["metadata"]["labels"] == {"sweep": row.id, "trial": "1"}
    assert job.display_name == "first #1"
    await sweeps.harness.round()
    await sweeps.end(trials[0].job_id or "")
    await sweeps.harness.round()
    assert await sweeps.states(row.id) == ["succeeded", "submitted", "submitted"]
    for trial in (await sweeps.trials(row.id))[1:]:
        await sweeps.end(trial.job_id or "", "failed")
    await sweeps.look()
    assert await sweeps.states(row.id) == ["succeeded", "failed", "failed"]
    ended = await sweeps.get(row.id)
    assert (ended.state, ended.why) == ("done", None)
    assert ended.ended_at is not None
    assert len(await sweeps.jobs()) == 3


async def test_trials_that_wait_in_the_queue_of_the_executor_are_not_joined_by_more(sweeps: Sweeps) -> None:
    harness = sweeps.harness
    harness.scripted.own_queue = True
    row = await sweeps.create()
    await harness.round(4)
    assert await sweeps.states(row.id) == ["submitted", "submitted"]
    [first, second] = await sweeps.trials(row.id)
    for trial in (first, second):
        job = await harness.job(trial.job_id or "")
        assert [item["type"] for item in job.conditions] == ["executor-queue"]
    harness.scripted.containers[first.job_id or "", 1].begin("h1")
    await harness.round()
    await sweeps.end(first.job_id or "")
    await harness.round()
    assert await sweeps.states(row.id) == ["succeeded", "submitted", "submitted"]
