"""How sweeps begin, stop, end and go on; what quotas say to all of it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tuneplane_server.harness import gpu_pool, jobspec
from tests.tuneplane_server.sweeps.build import GRID, Sweeps, request
from tuneplane.contract.refusals import RefusedError
from tuneplane_server.web.problems import ProblemError


async def refusals(sweeps: Sweeps, raw: dict[str, Any]) -> dict[str, str]:
    """Code -> message of what is said against it; nothing is made."""
    with pytest.raises(RefusedError) as refused:
        await sweeps.create(raw)
    assert await sweeps.harness.services.sweep_progress.active() == []
    return {item.code: item.message for item in refused.value.refusals}


async def quota(sweeps: Sweeps, **limits: Any) -> None:
    from tuneplane_server.features.governance.quotas import Subject

    admin = await sweeps.harness.user("root", admin=True)
    subject = Subject("user", sweeps.user.user_id, sweeps.user.username)
    await sweeps.harness.services.governance.set_quota(admin, subject, limits, 0, "")


async def test_everything_wrong_is_said_at_once_and_nothing_is_made(sweeps: Sweeps) -> None:
    sweep = {
        "method": "grid",
        "params": {"learning_rat": {"values": [1]}, "max_steps": {"values": ["many", 5]}, "seed": {"min": 1, "max": 2}},
        "trials": 3,
    }
    job = jobspec("trl/sft")
    job["provenance"]["package_digest"] = "0" * 64
    found = await refusals(sweeps, request(sweep, job))
    assert {"param-unknown", "param-type", "sweep-invalid", "package-missing"} <= set(found)


MISSHAPEN: list[Any] = [
    None,
    [],
    {},
    {"sweep": GRID},
    {"sweep": {"method": "grid", "params": {}}, "job": jobspec()},
    {"sweep": GRID | {"method": "guess"}, "job": jobspec()},
    {"sweep": GRID | {"trails": 3}, "job": jobspec()},
    {"sweep": GRID | {"params": {"env.A": {"values": [1], "min": 2}}}, "job": jobspec()},
    {"sweep": GRID | {"params": {"env.A": {"min": 2}}}, "job": jobspec()},
    {"sweep": GRID | {"max_parallel": 0}, "job": jobspec()},
    {"sweep": GRID | {"seed": 1.5}, "job": jobspec()},
    {"sweep": GRID, "job": {"apiVersion": "tuneplane/v1"}},
]


async def test_what_has_no_right_form_is_refused(sweeps: Sweeps) -> None:
    for raw in MISSHAPEN:
        with pytest.raises(RefusedError):
            await sweeps.create(raw or {"nothing": raw})


async def test_a_grid_of_ten_thousand_variants_is_refused_with_the_count(sweeps: Sweeps) -> None:
    hundred = {"values": list(range(100))}
    found = await refusals(sweeps, request({"method": "grid", "params": {"env.A": hundred, "env.B": hundred}}))
    assert "10000 variants" in found["sweep-too-large"]


async def test_a_quota_is_checked_for_the_whole_sweep_before_the_first_job(sweeps: Sweeps) -> None:
    await quota(sweeps, gpus=8, jobs=3, queued_jobs=3, gpu_hours_month=10)
    job = jobspec(resources=gpu_pool(4), limits={"max_duration": 3600})
    found = await refusals(sweeps, request(GRID | {"max_parallel": 3}, job))
    assert "3 trials at once want 12" in found["quota-never-fits"]
    assert "3 trials of 4 GPUs for up to 1 h want 12" in found["quota-exceeded"]
    assert await sweeps.jobs() == []


async def test_without_a_number_as_many_run_at_once_as_the_quota_lets(sweeps: Sweeps) -> None:
    await quota(sweeps, gpus=8)
    sweep = {"method": "grid", "params": {"env.A": {"values": [1, 2, 3, 4, 5]}}}
    row = await sweeps.create(request(sweep, jobspec(resources=gpu_pool(4))))
    assert row.max_parallel == 2


async def test_the_same_key_gets_the_first_sweep_and_another_sweep_is_refused(sweeps: Sweeps) -> None:
    first = await sweeps.create(key="mine")
    assert (await sweeps.create(key="mine")).id == first.id
    with pytest.raises(ProblemError) as refused:
        await sweeps.create(request(GRID | {"seed": 3}), key="mine")
    assert refused.value.code == "idempotency-conflict"


async def test_a_cancel_ends_every_trial_and_begins_none(sweeps: Sweeps) -> None:
    row = await sweeps.create()
    await sweeps.harness.round(3)
    await sweeps.cancel(row.id)
    await sweeps.cancel(row.id)
    await sweeps.harness.round(4)
    ended = await sweeps.get(row.id)
    assert (ended.state, ended.cancelled_by) == ("cancelled", "ada")
    assert await sweeps.states(row.id) == ["cancelled", "cancelled"]
    with pytest.raises(ProblemError) as refused:
        await sweeps.cancel(row.id)
    assert refused.value.code == "conflict"


async def test_a_resumed_sweep_runs_what_is_left_and_tries_again_what_was_cancelled(sweeps: Sweeps) -> None:
    row = await sweeps.create()
    await sweeps.harness.round(3)
    first = (await sweeps.trials(row.id))[0]
    await sweeps.end(first.job_id or "")
    await sweeps.cancel(row.id)
    await sweeps.harness.round(4)
    before = await sweeps.trials(row.id)
    await sweeps.resume(row.id)
    with pytest.raises(ProblemError):
        await sweeps.resume(row.id)
    await sweeps.harness.round(3)
    for _round in range(3):
        for trial in await sweeps.trials(row.id):
            if trial.state == "submitted":
                await sweeps.end(trial.job_id or "")
        await sweeps.look()
    assert (await sweeps.get(row.id)).state == "done"
    assert await sweeps.states(row.id) == ["succeeded"] * 3
    after = await sweeps.trials(row.id)
    assert [trial.params for trial in after][: len(before)] == [trial.params for trial in before]
    assert after[0].job_id == first.job_id
    assert after[1].earlier_jobs == [before[1].job_id]
    assert after[1].tries == 2


async def test_a_sweep_stops_when_one_trial_after_the_other_fails(sweeps: Sweeps) -> None:
    row = await sweeps.create(
        request({"method": "grid", "params": {"env.A": {"values": list(range(9))}}, "max_parallel": 1})
    )
    for _trial in range(5):
        await sweeps.harness.round(3)
        [trial] = [trial for trial in await sweeps.trials(row.id) if trial.state == "submitted"]
        await sweeps.end(trial.job_id or "", "failed")
    await sweeps.look()
    await sweeps.look()
    ended = await sweeps.get(row.id)
    assert (ended.state, ended.why) == ("stopped", {"code": "trials-failing", "data": {"count": 5}})
    assert len(await sweeps.jobs()) == 5


async def test_a_trial_that_is_refused_stops_the_sweep_and_resuming_goes_on(sweeps: Sweeps) -> None:
    row = await sweeps.create()
    catalog, entry = sweeps.harness.services.catalog, sweeps.harness.services.catalog.entry
    catalog.entry = lambda method: None  # type: ignore[method-assign]
    await sweeps.look()
    await sweeps.look()
    stopped = await sweeps.get(row.id)
    assert stopped.state == "stopped"
    assert stopped.why is not None
    assert stopped.why["data"]["refusals"][0]["code"] == "method-unknown"
    catalog.entry = entry  # type: ignore[method-assign]
    await sweeps.resume(row.id)
    await sweeps.look()
    assert await sweeps.states(row.id) == ["submitted", "submitted"]


async def test_a_full_queue_is_waited_for(sweeps: Sweeps) -> None:
    row = await sweeps.create(request(GRID | {"max_parallel": 1}))
    await quota(sweeps, queued_jobs=1)
    other = await sweeps.harness.submit(sweeps.user)
    await sweeps.look()
    waiting = await sweeps.get(row.id)
    assert (waiting.state, (waiting.why or {})["code"]) == ("running", "trial-waits")
    await sweeps.harness.services.jobs.cancel(sweeps.user, other)
    await sweeps.look()
    assert await sweeps.states(row.id) == ["submitted"]
    assert (await sweeps.get(row.id)).why is None
