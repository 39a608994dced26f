"""A job's life through the roles, and what interrupts it (scenarios 1 to 6), on both databases."""

from __future__ import annotations

import asyncio
import hashlib

import pytest
from sqlalchemy import select

from tests.tuneplane_server.harness import Harness, gpu_pool, jobspec
from tuneplane_server.domain.classify import Exit
from tuneplane_server.executors.port import Handle, LaunchDelayedError, LaunchRefusedError, Observation
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.jobs.tables import JobRow


class KilledError(BaseException):
    """Stands for the end of the process: nothing that handles errors may handle it."""


async def test_a_job_goes_from_queue_to_success(harness: Harness, ada: Principal) -> None:
    job_id = await harness.running_job(ada, jobspec(resources=gpu_pool(2)))
    assert await harness.held_gpus() == [0, 1]
    await harness.write_outcome(job_id)
    harness.scripted.containers[job_id, 1].exit = Exit(False, 0)
    await harness.round()
    job = await harness.job(job_id)
    assert (job.phase, job.reason, job.cleanup) == ("succeeded", None, "confirmed")
    assert await harness.held_gpus() == []
    assert await harness.kinds(job_id) == ["submitted", "placed", "launched", "running", "ended", "cleaned", "settled"]
    assert harness.scripted.created == [(job_id, 1)]
    (attempt,) = (await harness.services.jobs.attempts([job_id]))[job_id]
    assert (attempt.phase, attempt.outcome and attempt.outcome["exit_code"]) == ("succeeded", 0)
    capsule = harness.services.storage.attempt("ada", "lab", job_id, 1).capsule / "capsule.json"
    assert attempt.capsule_digest == hashlib.sha256(capsule.read_bytes()).hexdigest()


async def test_the_capsule_and_the_environment_of_a_launch(harness: Harness, ada: Principal) -> None:
    job_id = await harness.running_job(ada, jobspec(env={"ODD": "a=b 'c' \"d\"\n"}))
    plan = harness.scripted.containers[job_id, 1].plan
    assert sorted(path.name for path in plan.capsule.iterdir()) == ["bootstrap.sh", "capsule.json", "runner.pex"]
    assert plan.env["TUNEPLANE_ENV_ODD"] == "a=b 'c' \"d\"\n"
    assert "ODD" not in plan.env
    assert plan.env["TUNEPLANE_RUN_ID"] == job_id
    token = plan.env["TUNEPLANE_INGEST_TOKEN"]
    assert token not in (plan.capsule / "capsule.json").read_text()
    assert token not in repr(plan)


async def test_every_job_is_told_of_the_judge_that_the_console_names(harness: Harness, ada: Principal) -> None:
    plan = harness.scripted.containers[await harness.running_job(ada), 1].plan
    assert not [name for name in plan.env if "JUDGE" in name]
    harness.extra |= {
        "TUNEPLANE_JOB_JUDGE_ENDPOINT": "https://judge.example.org/v1/",
        "TUNEPLANE_JOB_JUDGE_TOKEN": "a-token-of-the-judge",
    }
    await harness.restart()
    plan = harness.scripted.containers[await harness.running_job(ada), 1].plan
    assert plan.env["TUNEPLANE_JOB_JUDGE_ENDPOINT"] == "https://judge.example.org/v1"
    assert plan.env["TUNEPLANE_JOB_JUDGE_TOKEN"] == "a-token-of-the-judge"
    assert "a-token-of-the-judge" not in (plan.capsule / "capsule.json").read_text() + repr(plan)


async def test_the_trainers_end_is_seen_while_the_runner_still_sends(harness: Harness, ada: Principal) -> None:
    job_id = await harness.running_job(ada)
    await harness.write_outcome(job_id)
    await harness.round()
    assert (await harness.job(job_id)).phase == "finishing"
    harness.scripted.containers[job_id, 1].exit = Exit(False, 0)
    await harness.round()
    assert (await harness.job(job_id)).phase == "succeeded"


async def test_a_runner_that_never_goes_is_ended_at_its_deadline(harness: Harness, ada: Principal) -> None:
    job_id = await harness.running_job(ada)
    await harness.write_outcome(job_id)
    await harness.round()
    harness.time.pass_(120)
    await harness.round(2)
    job = await harness.job(job_id)
    assert (job.phase, job.cleanup) == ("succeeded", "confirmed")
    assert "overdue" in await harness.kinds(job_id)
    assert harness.scripted.containers == {}


# --- scenario 1 -------------------------------------------------------------------------------------------------------


async def test_a_backend_that_cannot_be_asked_changes_no_phase_and_kills_nobody(
    harness: Harness, ada: Principal
) -> None:
    """Scenario 1."""
    job_id = await harness.running_job(ada)
    harness.scripted.reachable = False
    for _minute in range(5):
        harness.time.pass_(60)
        await harness.round()
        job = await harness.job(job_id)
        assert job.phase == "running"
        assert [item["type"] for item in job.conditions] == ["unreachable"]
    harness.scripted.reachable = True
    await harness.round()
    job = await harness.job(job_id)
    assert (job.phase, job.conditions) == ("running", [])
    assert harness.scripted.stopped == harness.scripted.cleaned == []


# --- scenario 2 -------------------------------------------------------------------------------------------------------


async def test_a_killed_console_adopts_every_live_job_and_creates_nothing(harness: Harness, ada: Principal) -> None:
    """Scenario 2, with 300 jobs; real processes are in `test_real_replicas.py`."""
    jobs = await harness.put_live_jobs(ada, 300)
    before = {row.id: (row.phase, row.handle) for row in await _rows(harness)}
    created = list(harness.scripted.created)
    await harness.restart()
    await harness.round()
    assert {row.id: (row.phase, row.handle) for row in await _rows(harness)} == before
    assert len(before) == 300
    for job_id in jobs:
        assert (await harness.kinds(job_id)).count("adopted") == 1
    assert harness.scripted.created == created
    assert harness.scripted.stopped == harness.scripted.cleaned == []


async def _rows(harness: Harness) -> list[JobRow]:
    async with harness.services.database.session() as session:
        return list(await session.scalars(select(JobRow)))


async def _killed_in_the_middle_of_a_launch(harness: Harness, principal: Principal) -> str:
    """The container exists, and the process is gone before the ledger hears of it; another one has started."""
    job_id = await harness.submit(principal)

    def die() -> None:
        raise KilledError

    harness.scripted.before_launch_returns = die
    await harness.place()
    launcher = harness.loop("launcher")
    work = await launcher.role.due()
    (lease,) = await harness.roles._leases.claim("launcher", [job_id])
    with pytest.raises(KilledError):
        await launcher.role.handle(work[0], lease)
    harness.scripted.before_launch_returns = None
    assert ((await harness.job(job_id)).phase, (await harness.job(job_id)).handle) == ("starting", None)
    await harness.restart()
    return job_id


async def test_a_console_killed_in_the_middle_of_a_launch_launches_once(harness: Harness, ada: Principal) -> None:
    job_id = await _killed_in_the_middle_of_a_launch(harness, ada)
    await harness.round()
    assert (await harness.job(job_id)).phase == "running"
    assert harness.scripted.created == [(job_id, 1)]


# --- scenarios 4, 5, 6 ------------------------------------------------------------------------------------------------


async def test_a_run_stopped_by_something_else_ends_interrupted(harness: Harness, ada: Principal) -> None:
    job_id = await harness.running_job(ada)
    await harness.write_outcome(job_id, "cancelled", exit_code=143)
    harness.scripted.containers[job_id, 1].exit = Exit(False, 143, 15)
    await harness.round()
    job = await harness.job(job_id)
    assert (job.phase, job.reason and job.reason["code"]) == ("failed", "interrupted")


async def test_a_container_that_disappeared_is_lost_within_one_observation(harness: Harness, ada: Principal) -> None:
    job_id = await harness.running_job(ada)
    del harness.scripted.containers[job_id, 1]
    await harness.round()
    job = await harness.job(job_id)
    assert (job.phase, job.reason and job.reason["code"]) == ("lost", "container-lost")


async def test_a_lost_attempt_is_followed_by_another_from_its_newest_complete_checkpoint(
    harness: Harness, ada: Principal
) -> None:
    """Scenarios 5 and 31: an incomplete checkpoint is passed over."""
    job_id = await harness.running_job(ada, jobspec(limits={"retries": {"infra": 1}}, resources=gpu_pool(8)))
    first = await harness.job(job_id)
    for step, whole in ((10, True), (20, True), (30, False)):
        checkpoint = harness.out(first) / "checkpoints" / f"checkpoint-{step}"
        checkpoint.mkdir(parents=True)
        (checkpoint / "weights.bin").write_bytes(b"x")
        if whole:
            (checkpoint / "COMPLETE").touch()
    await _lose(harness, job_id)
    again = await harness.job(job_id)
    assert (again.attempt, again.phase) == (2, "running")
    attempts = (await harness.services.jobs.attempts([job_id]))[job_id]
    assert [(item.n, item.phase) for item in attempts] == [(1, "lost"), (2, "running")]
    assert attempts[1].resume_from == str(harness.out(first, 1) / "checkpoints" / "checkpoint-20")
    await _lose(harness, job_id)
    job = await harness.job(job_id)
    assert (job.phase, job.attempt) == ("lost", 2)
    assert await harness.held_gpus() == []


async def _lose(harness: Harness, job_id: str) -> None:
    del harness.scripted.containers[job_id, (await harness.job(job_id)).attempt]
    await harness.round()
    harness.time.pass_(60)  # a further attempt rests before it starts
    await harness.round()


async def test_a_wrapper_that_left_no_outcome_is_no_success(harness: Harness, ada: Principal) -> None:
    job_id = await harness.running_job(ada)
    harness.scripted.containers[job_id, 1].exit = Exit(False, 0)
    await harness.round()
    job = await harness.job(job_id)
    assert (job.phase, job.reason and job.reason["code"]) == ("failed", "no-outcome")


# --- cancel -----------------------------------------------------------------------------------------------------------


async def test_cancel_stops_cleans_and_ends(harness: Harness, ada: Principal) -> None:
    job_id = await harness.running_job(ada, jobspec(resources=gpu_pool(4)))
    await harness.services.jobs.cancel(ada, job_id)
    assert (await harness.job(job_id)).phase == "running"
    await harness.round(2)
    job = await harness.job(job_id)
    assert (job.phase, job.reason and job.reason["code"], job.cleanup) == ("cancelled", "cancelled", "confirmed")
    assert harness.scripted.stopped == [(job_id, 1)]
    assert await harness.held_gpus() == []


@pytest.mark.parametrize("gone", [True, False], ids=["ended", "still-draining"])
async def test_a_cancel_that_ends_the_run_while_it_is_looked_at_is_the_cause(
    harness: Harness, ada: Principal, monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    job_id = await harness.running_job(ada)
    look = harness.scripted.observe

    async def ends_meanwhile(handle: Handle) -> Observation:
        monkeypatch.undo()
        await harness.services.jobs.cancel(ada, job_id)
        await harness.write_outcome(job_id, "cancelled", exit_code=143)
        harness.scripted.containers[job_id, 1].exit = Exit(False, 143, 15) if gone else None
        return await look(handle)

    monkeypatch.setattr(harness.scripted, "observe", ends_meanwhile)
    await harness.round(3)
    job = await harness.job(job_id)
    assert (job.phase, job.reason and job.reason["code"]) == ("cancelled", "cancelled")


async def test_a_cancel_survives_a_crash(harness: Harness, ada: Principal) -> None:
    job_id = await harness.running_job(ada)
    await harness.services.jobs.cancel(ada, job_id)
    await harness.restart()
    await harness.round(2)
    assert (await harness.job(job_id)).phase == "cancelled"


async def test_cancel_during_a_launch_need_not_wait_for_it(harness: Harness, ada: Principal) -> None:
    job_id = await harness.submit(ada)

    async def cancelled_meanwhile() -> None:
        await harness.services.jobs.cancel(ada, job_id)
        await _never()

    harness.scripted.before_launch_returns = cancelled_meanwhile
    await harness.round(3)
    job = await harness.job(job_id)
    assert (job.phase, job.cleanup) == ("cancelled", "confirmed")
    assert harness.scripted.containers == {}


async def _never() -> None:
    await asyncio.Event().wait()


async def test_a_cancel_gives_its_grace_to_a_run_whose_launch_nobody_saw_the_end_of(
    harness: Harness, ada: Principal
) -> None:
    job_id = await _killed_in_the_middle_of_a_launch(harness, ada)
    await harness.services.jobs.cancel(ada, job_id)
    await harness.round(3)
    job = await harness.job(job_id)
    assert (job.phase, job.cleanup) == ("cancelled", "confirmed")
    assert harness.scripted.stopped == [(job_id, 1)]
    assert harness.scripted.created == [(job_id, 1)]


async def test_a_run_that_ended_before_its_cancel_has_succeeded_though_its_launch_was_never_recorded(
    harness: Harness, ada: Principal
) -> None:
    job_id = await _killed_in_the_middle_of_a_launch(harness, ada)
    await harness.write_outcome(job_id)
    harness.scripted.containers[job_id, 1].exit = Exit(False, 0)
    await harness.services.jobs.cancel(ada, job_id)
    await harness.round(3)
    job = await harness.job(job_id)
    assert (job.phase, job.desired, job.cleanup) == ("succeeded", "cancel", "confirmed")


async def test_a_cancel_of_an_unrecorded_launch_waits_for_a_backend_that_is_away_and_not_for_ever(
    harness: Harness, ada: Principal
) -> None:
    job_id = await _killed_in_the_middle_of_a_launch(harness, ada)
    await harness.services.jobs.cancel(ada, job_id)
    harness.scripted.reachable = False
    await harness.round(2)
    assert (await harness.job(job_id)).phase == "starting"
    harness.time.pass_(harness.services.settings.start_timeout_seconds + 1)
    await harness.round(2)
    assert (await harness.job(job_id)).phase == "finishing"  # its cards stay held until the backend can be asked
    harness.scripted.reachable = True
    harness.time.pass_(600)
    await harness.round(2)
    assert ((await harness.job(job_id)).phase, harness.scripted.containers) == ("cancelled", {})


async def test_cancel_in_the_queue_ends_at_once_and_creates_nothing(harness: Harness, ada: Principal) -> None:
    job_id = await harness.submit(ada)
    await harness.services.jobs.cancel(ada, job_id)
    await harness.round()
    assert (await harness.job(job_id)).phase == "cancelled"
    assert harness.scripted.created == []


# --- limits and launches ----------------------------------------------------------------------------------------------


async def test_a_run_over_its_time_limit_is_stopped_for_that_reason(harness: Harness, ada: Principal) -> None:
    job_id = await harness.running_job(ada, jobspec(limits={"max_duration": 60}))
    harness.time.pass_(59)
    await harness.round()
    assert (await harness.job(job_id)).phase == "running"
    harness.time.pass_(2)
    await harness.round(2)
    job = await harness.job(job_id)
    assert (job.phase, job.reason) == ("failed", {"code": "time-limit", "data": {"seconds": 60}})


async def test_a_launch_that_cannot_succeed_fails_with_the_executors_words(harness: Harness, ada: Principal) -> None:
    harness.scripted.launch_errors = [LaunchRefusedError("image-not-found", {"image": "x:1", "detail": "404"})]
    job_id = await harness.submit(ada, jobspec(resources=gpu_pool(1)))
    await harness.round()
    job = await harness.job(job_id)
    assert (job.phase, job.reason) == (
        "failed",
        {"code": "image-not-found", "data": {"image": "x:1", "detail": "404"}},
    )
    assert await harness.held_gpus() == []


async def test_a_launch_that_may_succeed_later_is_tried_again(harness: Harness, ada: Principal) -> None:
    harness.scripted.launch_errors = [LaunchDelayedError("image-rate-limited", {"image": "x:1", "detail": "429"})]
    job_id = await harness.submit(ada)
    await harness.round()
    job = await harness.job(job_id)
    assert (job.phase, job.conditions[0]["type"]) == ("starting", "launch-delayed")
    harness.time.pass_(2)
    await harness.round()
    assert (await harness.job(job_id)).phase == "running"


async def test_a_launch_is_not_tried_for_ever(harness: Harness, ada: Principal) -> None:
    job_id = await harness.submit(ada)
    for _time in range(12):
        harness.scripted.launch_errors = [LaunchDelayedError("image-rate-limited", {"image": "x:1"})]
        await harness.round()
        harness.time.pass_(130)
    job = await harness.job(job_id)
    assert (job.phase, job.reason and job.reason["code"]) == ("failed", "image-rate-limited")


# --- cards ------------------------------------------------------------------------------------------------------------


async def test_cards_stay_held_until_the_executor_confirms(harness: Harness, ada: Principal) -> None:
    job_id = await harness.running_job(ada, jobspec(resources=gpu_pool(8)))
    waiting = await harness.submit(ada, jobspec(resources=gpu_pool(1)))
    await harness.write_outcome(job_id)
    harness.scripted.containers[job_id, 1].exit = Exit(False, 0)
    harness.scripted.cleans = False
    await harness.round(2)
    job = await harness.job(job_id)
    assert (job.phase, job.cleanup) == ("finishing", "pending")
    assert "cleanup-delayed" in [item["type"] for item in job.conditions]
    assert len(await harness.held_gpus()) == 8
    assert (await harness.job(waiting)).phase == "queued"
    harness.scripted.cleans = True
    harness.time.pass_(5)
    await harness.round(2)
    assert (await harness.job(job_id)).phase == "succeeded"
    assert (await harness.job(waiting)).phase == "running"


async def test_who_waits_for_cards_is_not_overtaken(harness: Harness, ada: Principal) -> None:
    await harness.running_job(ada, jobspec(resources=gpu_pool(5)))
    big = await harness.submit(ada, jobspec(resources=gpu_pool(8)))
    small = await harness.submit(ada, jobspec(resources=gpu_pool(1)))
    on_cpu = await harness.submit(ada)
    await harness.round()
    assert [(await harness.job(item)).phase for item in (big, small, on_cpu)] == ["queued", "queued", "running"]
    made = await harness.services.queue.plan()
    assert [(made.plan.waits[item].kind, made.plan.waits[item].position) for item in (big, small)] == [
        ("cards", 1),
        ("turn", 2),
    ]
    assert (await harness.job(big)).conditions == []  # nothing of it is written


async def test_priority_goes_first(harness: Harness, ada: Principal) -> None:
    first = await harness.submit(ada, jobspec(resources=gpu_pool(8)))
    urgent = await harness.submit(ada, jobspec(resources=gpu_pool(8), priority=10))
    await harness.round()
    assert ((await harness.job(first)).phase, (await harness.job(urgent)).phase) == ("queued", "running")
