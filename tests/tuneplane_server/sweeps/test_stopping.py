"""Early stopping and what is best, from what the trials' runs have reported."""

from __future__ import annotations

import pytest

from tests.tuneplane_server.sweeps.build import Sweeps, request
from tests.tuneplane_server.sweeps.reporting import report
from tuneplane_server.features.sweeps.presenting import present

ASHA = {
    "method": "asha",
    "params": {"env.LR": {"min": 1e-6, "max": 1e-2, "log": True}},
    "trials": 3,
    "seed": 7,
    "max_parallel": 3,
    "objective": {"metric": "train/loss", "goal": "min"},
    "early_stopping": {"min_steps": 10, "factor": 3},
}


@pytest.fixture
async def jobs(sweeps: Sweeps) -> list[str]:
    """The jobs of a sweep of three trials, which run."""
    row = await sweeps.create(request(ASHA))
    await sweeps.harness.round(4)
    assert row.metric == "train/loss"
    return [trial.job_id or "" for trial in await sweeps.trials(row.id)]


async def test_a_trial_that_falls_below_is_ended_with_a_reason_of_its_own(sweeps: Sweeps, jobs: list[str]) -> None:
    [sweep_id] = await sweeps.harness.services.sweep_progress.active()
    await report(sweeps.harness, jobs[0], {9: 1.0, 10: 3.0, 12: 0.1})
    await report(sweeps.harness, jobs[1], {8: 2.0})
    await sweeps.look()
    assert [len(trial.rungs) for trial in await sweeps.trials(sweep_id)] == [1, 0, 0]
    await report(sweeps.harness, jobs[1], {11: 4.0}, seq=2)
    await report(sweeps.harness, jobs[2], {10: 2.0, 31: 1.5})
    await sweeps.look()
    rungs = [trial.rungs for trial in await sweeps.trials(sweep_id)]
    assert [(one["step"], one["value"], one["kept"]) for one in rungs[0]] == [(10, 3.0, True)]
    assert [(one["step"], one["value"], one["kept"]) for one in rungs[1]] == [(11, 4.0, False)]
    assert [(one["step"], one["value"], one["kept"]) for one in rungs[2]] == [(10, 2.0, True), (31, 1.5, True)]
    await sweeps.harness.round(4)
    stopped = await sweeps.harness.job(jobs[1])
    assert (stopped.phase, stopped.reason) == ("cancelled", {"code": "sweep-pruned", "data": {}})
    for job_id in (jobs[0], jobs[2]):
        await sweeps.end(job_id)
    await sweeps.look()
    assert await sweeps.states(sweep_id) == ["succeeded", "pruned", "succeeded"]
    done = await sweeps.get(sweep_id)
    assert done.state == "done"
    shown = await present(sweeps.harness.services, done)
    assert shown.best is not None
    assert (shown.best.number, shown.best.value, shown.best.job_id) == (0, 0.1, jobs[0])


async def test_a_comparison_is_made_once_also_when_the_console_is_killed_behind_it(
    sweeps: Sweeps, jobs: list[str]
) -> None:
    [sweep_id] = await sweeps.harness.services.sweep_progress.active()
    await report(sweeps.harness, jobs[0], {10: 1.0})
    await sweeps.look()
    before = [trial.rungs for trial in await sweeps.trials(sweep_id)]
    await sweeps.harness.restart()
    await sweeps.look()
    assert [trial.rungs for trial in await sweeps.trials(sweep_id)] == before
    await report(sweeps.harness, jobs[1], {10: 2.0})
    await sweeps.look()
    await sweeps.harness.round(3)
    assert (await sweeps.harness.job(jobs[1])).reason == {"code": "sweep-pruned", "data": {}}


async def test_a_bayesian_search_goes_on_with_the_variants_it_would_have_had(sweeps: Sweeps) -> None:
    search = {**ASHA, "method": "bayes", "early_stopping": None, "trials": 2, "max_parallel": 1}
    row = await sweeps.create(request({key: value for key, value in search.items() if value is not None}))
    await sweeps.harness.round(4)
    [first] = await sweeps.trials(row.id)
    await report(sweeps.harness, first.job_id or "", {5: 0.5})
    await sweeps.end(first.job_id or "")
    await sweeps.harness.restart()
    await sweeps.harness.round(2)
    trials = await sweeps.trials(row.id)
    assert (trials[0].value, trials[0].value_step) == (0.5, 5)
    assert trials[0].params != trials[1].params
    assert all(1e-6 <= trial.params["env.LR"] <= 1e-2 for trial in trials)
