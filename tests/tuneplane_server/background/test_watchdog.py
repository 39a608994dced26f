"""The watchdog over real rows (scenario 32): conditions come and go by themselves, and only a policy stops a run."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import event

from tests.tuneplane_server.harness import Api, Harness, gpu_pool, jobspec
from tests.tuneplane_server.telemetry.build import event as reported
from tests.tuneplane_server.telemetry.build import log, metric
from tuneplane_server.background.loop import SupervisedLoop
from tuneplane_server.executors.port import CardFigures, NodeFigures
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.ingest import repo as ingest
from tuneplane_server.features.telemetry.records import Batch
from tuneplane_server.storage.space import Space

MINUTE = 60


def watchdog(harness: Harness) -> SupervisedLoop:
    return next(loop for loop in harness.roles.loops if loop.role.name == "watchdog")


async def look(harness: Harness) -> None:
    """One round of the watchdog."""
    await watchdog(harness).tick()
    await watchdog(harness).idle()


async def beat(harness: Harness, job_id: str, *ranks: int, ahead: float = 0.0, attempt: int = 1) -> None:
    """A heartbeat of each of these machines now; `ahead`: of their clocks, in seconds."""
    now = harness.time.now
    async with harness.services.database.begin() as session:
        for rank in ranks or (0,):
            values: dict[str, object] = {"state": "running", "sent_at": now.timestamp() + ahead, "received_at": now}
            await ingest.save_heartbeats(session, [{"job_id": job_id, "attempt": attempt, "rank": rank, **values}])


async def send(harness: Harness, job_id: str, **records: Any) -> None:
    await harness.services.telemetry.store(job_id, 1, Batch(**records))


async def conditions(harness: Harness, job_id: str) -> list[str]:
    return [item["type"] for item in (await harness.job(job_id)).conditions]


async def minutes(harness: Harness, job_id: str, count: int) -> None:
    """Minutes in which its machine is heard and the watchdog looks."""
    for _minute in range(count):
        harness.time.pass_(MINUTE)
        await beat(harness, job_id)
        await look(harness)


async def policy(harness: Harness, **fields: Any) -> None:
    admin = await harness.user("root", admin=True)
    now = await harness.services.governance.policy("watchdog")
    await harness.services.governance.set_policy(admin, "watchdog", fields, now.version)


# --- scenario 32 ------------------------------------------------------------------------------------------------------


async def test_a_run_in_which_nothing_moves_is_stalled_until_something_does(harness: Harness, ada: Principal) -> None:
    """Scenario 32: all ranks running, no metric, no log → condition `stalled`, with what was looked at; no phase changes."""
    job_id = await harness.running_job(ada)
    await send(harness, job_id, logs=[log(1, "step 1\n")])
    await minutes(harness, job_id, 29)
    assert await conditions(harness, job_id) == []
    await minutes(harness, job_id, 2)
    job = await harness.job(job_id)
    assert (job.phase, [item["type"] for item in job.conditions]) == ("running", ["stalled"])
    await minutes(harness, job_id, 5)
    await send(harness, job_id, metrics=[metric(1, {"train/loss": [0.5]})])
    await minutes(harness, job_id, 1)
    assert await conditions(harness, job_id) == []
    kinds = await harness.kinds(job_id)
    assert (kinds.count("condition"), kinds.count("condition-cleared")) == (1, 1)
    assert harness.scripted.stopped == []


async def test_figures_of_the_machine_are_no_sign_of_life_of_the_training(harness: Harness, ada: Principal) -> None:
    """Scenario 32."""
    job_id = await harness.running_job(ada)
    for seq in range(1, 33):
        await send(harness, job_id, metrics=[metric(seq, {"system/gpu.0.utilization": [0.0]})])
        await minutes(harness, job_id, 1)
    assert await conditions(harness, job_id) == ["stalled"]


async def gpu_minutes(harness: Harness, job_id: str, count: int, use: float) -> None:
    """Minutes in which its machine is heard, its two cards work so much, and the watchdog looks."""
    for _minute in range(count):
        harness.time.pass_(MINUTE)
        now = harness.time.now.timestamp()
        cards = tuple(CardFigures(index, False, {"use": use}) for index in range(2))
        harness.scripted.measured = lambda now=now, cards=cards: NodeFigures("node", now, {"cpu": 1.0}, cards)
        for name in ("sampler", "watchdog"):
            await harness.loop(name).tick()
            await harness.loop(name).idle()
            await beat(harness, job_id)


async def test_all_ranks_running_and_silent_with_idle_gpus_is_stalled_and_working_gpus_are_not(
    api: Api, ada: Principal
) -> None:
    """Scenario 32: all ranks running, no metric, no log, GPUs idle for T → `stalled` with a notice; a phase that reports itself does
    not trip it."""
    harness = api.harness
    await policy(harness, stalled_minutes=3)
    harness.scripted.invented = False
    job_id = await harness.running_job(ada, jobspec(resources=gpu_pool(2)))
    await beat(harness, job_id)
    await gpu_minutes(harness, job_id, 4, use=98.0)
    assert await conditions(harness, job_id) == [], "silent, and its cards compute"
    await gpu_minutes(harness, job_id, 2, use=0.0)
    assert await conditions(harness, job_id) == [], "idle for less than T"
    await gpu_minutes(harness, job_id, 2, use=0.0)
    assert await conditions(harness, job_id) == ["stalled"]
    client = await api.client(ada)
    (shown,) = (await client.get(f"/api/v1/jobs/{job_id}")).json()["conditions"]
    assert "its GPUs are idle" in shown["text"]
    await harness.loop("alerter").tick()
    await harness.loop("alerter").idle()
    (told,) = (await client.get("/api/v1/notifications")).json()["items"]
    assert (told["rule"], told["job_id"]) == ("no-progress", job_id)
    now = harness.time.now.timestamp()
    phase = reported(1, "phase", {"name": "evaluating", "max_minutes": 6})._replace(time=now)
    await send(harness, job_id, events=[phase])
    await gpu_minutes(harness, job_id, 5, use=0.0)
    assert await conditions(harness, job_id) == [], "it says itself that it takes its time"
    await gpu_minutes(harness, job_id, 2, use=0.0)
    assert await conditions(harness, job_id) == ["stalled"]
    await gpu_minutes(harness, job_id, 1, use=98.0)
    job = await harness.job(job_id)
    assert (job.phase, job.conditions) == ("running", [])


async def test_a_phase_that_reports_itself_is_not_stalled(harness: Harness, ada: Principal) -> None:
    """Scenario 32: `log_event("phase", {"max_minutes": …})` gives a silent phase its time, and no more than that."""
    job_id = await harness.running_job(ada)
    now = harness.time.now.timestamp()
    phase = reported(1, "phase", {"name": "evaluating", "max_minutes": 90})._replace(time=now)
    await send(harness, job_id, events=[phase])
    await minutes(harness, job_id, 89)
    assert await conditions(harness, job_id) == []
    await minutes(harness, job_id, 2)
    assert await conditions(harness, job_id) == ["stalled"]


@pytest.mark.parametrize("data", [{}, {"max_minutes": "long"}, {"max_minutes": -1}, {"max_minutes": True}])
async def test_a_phase_without_a_usable_bound_is_an_event_like_any_other(
    harness: Harness, ada: Principal, data: dict[str, Any]
) -> None:
    job_id = await harness.running_job(ada)
    await send(harness, job_id, events=[reported(1, "phase", data)])
    await minutes(harness, job_id, 32)
    assert await conditions(harness, job_id) == ["stalled"]


async def test_a_stalled_run_is_stopped_where_the_policy_says_so(harness: Harness, ada: Principal) -> None:
    """Scenario 32: conditions first; the action is the policy's."""
    await policy(harness, stalled_minutes=5, stop_stalled=True)
    job_id = await harness.running_job(ada)
    await minutes(harness, job_id, 6)
    assert "stalled" in await conditions(harness, job_id)
    await harness.round(3)
    job = await harness.job(job_id)
    assert (job.phase, job.reason and job.reason["code"]) == ("failed", "stalled")
    assert harness.scripted.stopped == [(job_id, 1)]
    assert (await harness.kinds(job_id)).count("policy-stop") == 1


async def test_a_console_that_was_away_does_not_take_its_own_absence_for_a_stall(
    harness: Harness, ada: Principal
) -> None:
    job_id = await harness.running_job(ada)
    await minutes(harness, job_id, 5)
    harness.time.pass_(60 * MINUTE)
    await harness.restart()
    await minutes(harness, job_id, 29)
    assert await conditions(harness, job_id) == []
    await minutes(harness, job_id, 2)
    assert await conditions(harness, job_id) == ["stalled"]


# --- the other conditions ---------------------------------------------------------------------------------------------


async def test_a_loss_that_is_no_number_is_told_and_forgotten_when_it_is_one_again(
    harness: Harness, ada: Principal
) -> None:
    job_id = await harness.running_job(ada)
    for seq, values in enumerate(([0.5], [float("nan")], [float("nan")], [float("inf")]), start=1):
        await send(harness, job_id, metrics=[metric(seq, {"train/loss": values, "train/lr": [0.1]})])
        await beat(harness, job_id)
        await look(harness)
    job = await harness.job(job_id)
    assert [item["type"] for item in job.conditions] == ["loss-not-finite"]
    assert job.conditions[0]["data"] == {"metric": "train/loss", "step": 4, "rank": 0, "value": "+inf"}
    await send(harness, job_id, metrics=[metric(5, {"train/loss": [0.4]})])
    await look(harness)
    assert await conditions(harness, job_id) == []


async def test_a_loss_that_is_no_number_ends_the_run_where_the_policy_says_so(harness: Harness, ada: Principal) -> None:
    await policy(harness, not_finite_reports=1, stop_not_finite=True)
    job_id = await harness.running_job(ada)
    await send(harness, job_id, metrics=[metric(1, {"validation/loss": [float("nan")]})])
    await harness.round(3)
    job = await harness.job(job_id)
    assert (job.phase, job.reason and job.reason["code"]) == ("failed", "loss-not-finite")


async def test_a_clock_that_is_off_is_found_by_several_heartbeats(harness: Harness, ada: Principal) -> None:
    job_id = await harness.running_job(ada)
    for ahead in (0.0, 500.0, 0.0):
        harness.time.pass_(5)
        await beat(harness, job_id, ahead=ahead)
        await look(harness)
        await look(harness)  # the same heartbeat counts once
    assert await conditions(harness, job_id) == []
    for _time in range(3):
        harness.time.pass_(5)
        await beat(harness, job_id, ahead=300.0)
        await look(harness)
    assert await conditions(harness, job_id) == ["clock-off"]
    for _time in range(3):
        harness.time.pass_(5)
        await beat(harness, job_id)
        await look(harness)
    assert await conditions(harness, job_id) == []


async def test_the_end_of_a_limit_is_told_before_it_comes(harness: Harness, ada: Principal) -> None:
    job_id = await harness.running_job(ada, jobspec(limits={"max_duration": 100}))
    harness.time.pass_(85)
    await look(harness)
    assert await conditions(harness, job_id) == []
    harness.time.pass_(10)
    await look(harness)
    assert await conditions(harness, job_id) == ["near-limit"]


async def test_a_disk_that_fills_is_told_of_every_run_and_of_the_console(api: Api, ada: Principal) -> None:
    harness = api.harness
    job_id = await harness.running_job(ada)
    harness.space = Space(5 * 10**9, 100 * 10**9)
    await look(harness)
    assert await conditions(harness, job_id) == ["disk-low"]
    async with api.anonymous() as client:
        health = (await client.get("/healthz")).json()
        assert (health["status"], [item["code"] for item in health["findings"]]) == ("degraded", ["disk-low"])
        assert str(harness.folder) not in str(health)
        metrics = (await client.get("/metrics")).text
        assert 'tuneplane_finding{code="disk-low"} 1.0' in metrics
        assert "tuneplane_storage_free_bytes 5e+09" in metrics
    harness.space = Space(11 * 10**9, 100 * 10**9)
    await look(harness)
    assert await conditions(harness, job_id) == ["disk-low"]
    harness.space = Space(13 * 10**9, 100 * 10**9)
    await look(harness)
    assert await conditions(harness, job_id) == []
    assert harness.services.findings.all() == []


async def test_conditions_of_the_watchdog_end_with_the_running(harness: Harness, ada: Principal) -> None:
    job_id = await harness.running_job(ada)
    await minutes(harness, job_id, 32)
    assert await conditions(harness, job_id) == ["stalled"]
    await harness.write_outcome(job_id)
    await harness.round()
    job = await harness.job(job_id)
    assert (job.phase, job.conditions) == ("finishing", [])


async def test_a_round_takes_as_many_reads_for_many_runs_as_for_one(harness: Harness, ada: Principal) -> None:
    reads: list[str] = []
    engine = harness.services.database._reader.sync_engine
    event.listen(engine, "before_cursor_execute", lambda *given: reads.append(given[2]))
    await harness.running_job(ada)
    counts = []
    for _time in range(2):
        await watchdog(harness).role.due()  # from then on it knows the runs
        reads.clear()
        await watchdog(harness).role.due()
        counts.append(len([text for text in reads if text.lstrip().lower().startswith("select")]))
        await harness.put_live_jobs(ada, 50)
    assert counts[0] == counts[1]


@pytest.mark.parametrize("name", ["watchdog", "alerter"])
async def test_cards_and_phases_are_looked_up_of_runs_in_which_nothing_may_have_moved_for_long_enough(
    harness: Harness, ada: Principal, name: str
) -> None:
    reads: list[str] = []
    engine = harness.services.database._reader.sync_engine
    event.listen(engine, "before_cursor_execute", lambda *given: reads.append(given[2]))
    job_id = await harness.running_job(ada)
    await send(harness, job_id, metrics=[metric(1, {"train/loss": [0.5]})])

    async def looked_up() -> set[str]:
        reads.clear()
        await harness.loop(name).role.due()
        return {table for table in ("figure_series", "run_events") if any(table in text for text in reads)}

    assert await looked_up() == set()
    harness.time.pass_(61 * MINUTE)
    assert await looked_up() == {"figure_series", "run_events"}
