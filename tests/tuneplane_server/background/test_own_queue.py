"""An executor with a queue of its own, as Slurm has one: what our ledger shows and counts while that queue decides."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from tests.tuneplane_server.governance.test_admission import limit
from tests.tuneplane_server.governance.test_use import HOUR, end, hours
from tests.tuneplane_server.harness import Api, Harness, gpu_pool, jobspec
from tuneplane.contract.refusals import RefusedError
from tuneplane_server.domain.classify import Exit
from tuneplane_server.domain.transitions import Event
from tuneplane_server.executors.port import LaunchDelayedError, Queued
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.hardware.tables import GpuHoldRow, GpuUseRow


@pytest.fixture
def slurmlike(harness: Harness) -> Harness:
    harness.scripted.own_queue = True
    return harness


def cards(count: int, nodes: int = 1, **spec: Any) -> dict[str, Any]:
    pools = gpu_pool(count)
    pools["pools"][0]["nodes"] = nodes
    return jobspec(resources=pools, **spec)


async def waiting_job(harness: Harness, who: Principal, spec: dict[str, Any] | None = None) -> str:
    """A submitted job that was passed on and is seen waiting there."""
    job_id = await harness.submit(who, spec or cards(2))
    await harness.round()
    assert conditions(await harness.job(job_id)) == ["executor-queue"]
    return job_id


def conditions(job: Any) -> list[str]:
    return [item["type"] for item in job.conditions]


def out_there(harness: Harness, job_id: str, attempt: int = 1) -> Any:
    return harness.scripted.containers[job_id, attempt]


async def begin(harness: Harness, job_id: str, *nodes: str, attempt: int = 1) -> None:
    out_there(harness, job_id, attempt).begin(*nodes or ("h1",))
    await harness.round()
    assert (await harness.job(job_id)).phase == "running"


async def use_of(harness: Harness, job_id: str, attempt: int = 1) -> GpuUseRow:
    async with harness.services.database.session() as session:
        row = await session.get(GpuUseRow, (job_id, attempt))
    assert row is not None
    return row


async def shown(api: Api, who: Principal, job_id: str, language: str = "en") -> dict[str, Any]:
    async with await api.client(who) as client:
        answer = await client.get(f"/api/v1/jobs/{job_id}", headers={"Accept-Language": language})
        found: dict[str, Any] = answer.json()
    return found


# --- passing on -------------------------------------------------------------------------------------------------------


async def test_everything_that_may_run_is_passed_on_whatever_there_is(slurmlike: Harness, ada: Principal) -> None:
    slurmlike.scripted.placeable = False  # a node that is down now may be up when its turn comes
    jobs = [await slurmlike.submit(ada, cards(8)) for _number in range(3)]
    await slurmlike.round()
    assert [(await slurmlike.job(job_id)).phase for job_id in jobs] == ["starting"] * 3
    async with slurmlike.services.database.session() as session:
        held = [(row.job_id, row.node, row.gpu_index) for row in await session.scalars(select(GpuHoldRow))]
    assert sorted(held) == sorted((job, f"scripted/{job}-1/0", index) for job in jobs for index in range(8))
    plan = out_there(slurmlike, jobs[0]).plan
    assert [(pool.name, pool.profile, pool.machines, pool.gpus) for pool in plan.pools] == [("main", "h200", 1, 8)]
    assert (plan.owner, plan.project, plan.experiment, plan.max_seconds) == ("ada", "lab", "first", None)


async def test_the_plan_of_a_launch_says_how_urgent_and_how_long(slurmlike: Harness, ada: Principal) -> None:
    job_id = await waiting_job(slurmlike, ada, cards(1, priority=7, limits={"max_duration": 600}))
    plan = out_there(slurmlike, job_id).plan
    assert (plan.priority, plan.max_seconds) == (7, 600)


async def test_what_can_never_run_there_is_refused_and_no_attempt_waits_for_it(
    slurmlike: Harness, ada: Principal
) -> None:
    with pytest.raises(RefusedError):
        await slurmlike.submit(ada, cards(9))


async def test_cards_of_those_that_wait_there_count_for_the_quota(slurmlike: Harness, ada: Principal) -> None:
    await limit(slurmlike, "user", {"gpus": 4}, ada)
    first, second, third = [await slurmlike.submit(ada, cards(2)) for _number in range(3)]
    await slurmlike.round(2)
    assert [(await slurmlike.job(job)).phase for job in (first, second, third)] == ["starting", "starting", "queued"]
    await begin(slurmlike, first)
    await slurmlike.round()
    assert (await slurmlike.job(third)).phase == "queued"
    await end(slurmlike, first)
    await slurmlike.round()
    assert conditions(await slurmlike.job(third)) == ["executor-queue"]


# --- what is seen of the wait -----------------------------------------------------------------------------------------


async def test_why_and_where_it_stands_is_shown_in_the_language_of_the_reader(
    api: Api, slurmlike: Harness, ada: Principal
) -> None:
    job_id = await waiting_job(slurmlike, ada)
    starts_at = slurmlike.time.now + timedelta(hours=2)
    out_there(slurmlike, job_id).queued = Queued("Resources", "", 3, starts_at, slurmlike.time.now)
    slurmlike.time.pass_(61)
    await slurmlike.round()
    job = await shown(api, ada, job_id)
    assert job["waiting"]["text"] == (
        "waits in the queue of scripted: Resources; number 3 in line; starts at about 02:00 UTC"
    )
    assert (job["waiting"]["kind"], job["waiting"]["position"], job["waiting"]["ahead"]) == ("executor", 3, 2)
    assert job["waiting"]["needs"][0]["gpus_per_node"] == 2
    assert job["waiting"]["estimate"].startswith("2026-01-01T02:00")
    assert job["nodes"] == []
    assert "排在第 3 位" in (await shown(api, ada, job_id, "zh-Hans"))["waiting"]["text"]
    async with await api.client(ada) as client:
        [listed] = (await client.get("/api/v1/jobs")).json()["items"]
        events = (await client.get(f"/api/v1/jobs/{job_id}/events")).json()["items"]
    assert listed["waiting"] == job["waiting"]
    assert next(item["text"] for item in events if item["kind"] == "placed") == (
        "passed on to the queue of scripted, which decides when it starts"
    )


async def test_the_line_tells_who_stands_there_and_of_others_only_their_place(
    api: Api, slurmlike: Harness, ada: Principal
) -> None:
    first, second = await waiting_job(slurmlike, ada), await waiting_job(slurmlike, ada, cards(1))
    out_there(slurmlike, second).queued = Queued("Priority", "", 1)
    slurmlike.time.pass_(61)
    await slurmlike.round()
    async with await api.client(ada) as client:
        told = (await client.get("/api/v1/queue")).json()
    assert (told["items"], told["executor_queue"]["name"]) == ([], "scripted")
    items = told["executor_queue"]["items"]
    assert [(item["id"], item["position"], item["waiting"]["kind"]) for item in items] == [
        (second, 1, "executor"),
        (first, None, "executor"),
    ]
    async with await api.client(await slurmlike.user("bob")) as client:
        others = (await client.get("/api/v1/queue")).json()["executor_queue"]["items"]
    assert [(item["owner"], item["id"], item["waiting"], item["needs"][0]["gpus_per_node"]) for item in others] == [
        ("ada", None, None, 1),
        ("ada", None, None, 2),
    ]


async def test_a_dry_run_says_that_the_executor_will_decide(api: Api, slurmlike: Harness, ada: Principal) -> None:
    async with await api.client(ada) as client:
        answer = (await client.post("/api/v1/jobs", params={"dry_run": "true"}, json=cards(8))).json()
    assert (answer["admitted"], answer["waiting"]["kind"], answer["waiting"]["position"]) == (True, "next", 1)
    assert "it goes to the queue of scripted in a moment, which decides when it starts" in answer["waiting"]["text"]


async def test_estimates_that_move_at_every_look_write_few_events(slurmlike: Harness, ada: Principal) -> None:
    job_id = await waiting_job(slurmlike, ada)
    for minute in range(240):  # four hours, a look a minute, another answer each time
        starts_at = slurmlike.time.now + timedelta(minutes=300 - minute % 7)
        reason = "Priority" if minute % 2 else "Resources"
        out_there(slurmlike, job_id).queued = Queued(reason, "", 400 - minute, starts_at)
        slurmlike.time.pass_(60)
        await slurmlike.loop("observer").tick()
        await slurmlike.loop("observer").idle()
    kinds = await slurmlike.kinds(job_id)
    assert 20 < kinds.count("condition") < 90
    job = await slurmlike.job(job_id)
    [condition] = job.conditions
    assert condition["data"]["position"] < 180  # and what is shown is of a while ago at most
    assert condition["since"] < condition["data"]["seen_at"]


async def test_what_stays_the_same_writes_nothing(slurmlike: Harness, ada: Principal) -> None:
    job_id = await waiting_job(slurmlike, ada)
    before = await slurmlike.kinds(job_id)
    for _hour in range(30):
        slurmlike.time.pass_(HOUR)
        await slurmlike.round()
    assert await slurmlike.kinds(job_id) == before
    assert (await slurmlike.job(job_id)).phase == "starting"  # and no deadline for its start has run


async def test_what_was_let_go_has_to_begin_in_time(slurmlike: Harness, ada: Principal) -> None:
    job_id = await waiting_job(slurmlike, ada)
    slurmlike.time.pass_(100 * HOUR)
    out_there(slurmlike, job_id).let_go()
    await slurmlike.round()
    assert conditions(await slurmlike.job(job_id)) == ["executor-starting"]
    slurmlike.time.pass_(slurmlike.services.settings.start_timeout_seconds - 10)
    await slurmlike.round()
    assert (await slurmlike.job(job_id)).phase == "starting"
    slurmlike.time.pass_(20)
    await slurmlike.round(4)
    job = await slurmlike.job(job_id)
    assert (job.phase, job.reason and job.reason["code"]) == ("failed", "start-timeout")
    assert slurmlike.scripted.containers == {}


async def test_what_was_launched_late_and_never_seen_waiting_has_its_whole_time_to_begin(
    slurmlike: Harness, ada: Principal
) -> None:
    job_id = await slurmlike.submit(ada, cards(1))
    slurmlike.scripted.reachable = False
    await slurmlike.round()
    slurmlike.time.pass_(HOUR)  # of the time in `starting`, with nobody there to launch it
    slurmlike.scripted.reachable = True
    slurmlike.scripted.before_launch_returns = lambda: out_there(slurmlike, job_id).let_go()
    await slurmlike.round(2)
    job = await slurmlike.job(job_id)
    assert (job.phase, conditions(job)) == ("starting", ["executor-starting"])
    slurmlike.time.pass_(slurmlike.services.settings.start_timeout_seconds + 10)
    await slurmlike.round(4)
    job = await slurmlike.job(job_id)
    assert (job.phase, job.reason and job.reason["code"]) == ("failed", "start-timeout")


async def test_what_is_put_back_into_the_queue_before_it_began_waits_as_before(
    slurmlike: Harness, ada: Principal
) -> None:
    job_id = await waiting_job(slurmlike, ada)
    out_there(slurmlike, job_id).let_go()
    await slurmlike.round()
    out_there(slurmlike, job_id).queued = Queued("BeginTime", "")
    await slurmlike.round()
    assert conditions(await slurmlike.job(job_id)) == ["executor-queue"]
    slurmlike.time.pass_(100 * HOUR)
    await slurmlike.round()
    assert (await slurmlike.job(job_id)).phase == "starting"


async def test_who_could_not_be_asked_for_a_while_is_not_said_to_be_away_while_the_run_waits_on(
    slurmlike: Harness, ada: Principal
) -> None:
    job_id = await waiting_job(slurmlike, ada)
    slurmlike.scripted.reachable = False
    await slurmlike.round()
    assert conditions(await slurmlike.job(job_id)) == ["executor-queue", "unreachable"]
    slurmlike.scripted.reachable = True
    await slurmlike.round()
    assert conditions(await slurmlike.job(job_id)) == ["executor-queue"]


async def test_a_queue_that_is_away_for_days_fails_nobody_who_was_to_wait_there_anyway(
    slurmlike: Harness, ada: Principal
) -> None:
    job_id = await slurmlike.submit(ada, cards(1))
    await slurmlike.place()
    slurmlike.scripted.reachable = False
    for _hour in range(30):
        slurmlike.time.pass_(HOUR)
        await slurmlike.round()
    assert conditions(await slurmlike.job(job_id)) == ["launch-delayed"]
    slurmlike.scripted.reachable = True
    slurmlike.time.pass_(HOUR)
    await slurmlike.round(2)
    assert conditions(await slurmlike.job(job_id)) == ["executor-queue"]


def full() -> LaunchDelayedError:
    return LaunchDelayedError("slurm-refused", {"code": 2050, "detail": "limit on submitted jobs"}, in_line=True)


async def test_a_queue_that_takes_no_more_for_now_is_waited_for_as_one_that_is_away(
    slurmlike: Harness, ada: Principal
) -> None:
    job_id = await slurmlike.submit(ada, cards(1))
    for _hour in range(30):
        slurmlike.scripted.launch_errors = [full()]
        await slurmlike.round()
        slurmlike.time.pass_(HOUR)
    job = await slurmlike.job(job_id)
    assert (job.phase, conditions(job)) == ("starting", ["launch-delayed"])
    assert job.conditions[0]["data"] == {"detail": "limit on submitted jobs"}
    slurmlike.scripted.launch_errors = []
    await slurmlike.round(2)
    assert conditions(await slurmlike.job(job_id)) == ["executor-queue"]


async def test_what_a_queue_never_takes_fails_in_the_end_for_what_it_said(slurmlike: Harness, ada: Principal) -> None:
    job_id = await slurmlike.submit(ada, cards(1))
    for _try in range(2):
        slurmlike.scripted.launch_errors = [full()]
        await slurmlike.round()
        slurmlike.time.pass_(7 * 24 * HOUR)
    await slurmlike.round(3)
    job = await slurmlike.job(job_id)
    assert (job.phase, job.reason and job.reason["code"]) == ("failed", "slurm-refused")


async def test_what_is_no_matter_of_its_turn_is_waited_for_as_long_as_a_start(
    slurmlike: Harness, ada: Principal
) -> None:
    job_id = await slurmlike.submit(ada, cards(1))
    for _try in range(2):
        slurmlike.scripted.launch_errors = [LaunchDelayedError("storage-failed", {"detail": "full"})]
        await slurmlike.round()
        slurmlike.time.pass_(slurmlike.services.settings.start_timeout_seconds + 1)
    await slurmlike.round(3)
    job = await slurmlike.job(job_id)
    assert (job.phase, job.reason and job.reason["code"]) == ("failed", "storage-failed")


async def test_one_that_never_comes_back_does_in_the_end(slurmlike: Harness, ada: Principal) -> None:
    job_id = await slurmlike.submit(ada, cards(1))
    await slurmlike.place()
    slurmlike.scripted.reachable = False
    await slurmlike.round()
    slurmlike.time.pass_(7 * 24 * HOUR)
    await slurmlike.round(3)
    job = await slurmlike.job(job_id)
    assert (job.phase, job.cleanup, job.verdict and job.verdict["reason"]["code"]) == (
        "finishing",
        "pending",
        "launch-failed",
    )


# --- its start --------------------------------------------------------------------------------------------------------


async def test_the_machines_it_got_take_the_place_of_those_that_were_counted(
    api: Api, slurmlike: Harness, ada: Principal
) -> None:
    job_id = await waiting_job(slurmlike, ada, cards(2, nodes=2))
    await begin(slurmlike, job_id, "h7", "h3")
    job = await shown(api, ada, job_id)
    assert (job["nodes"], job["conditions"], job["waiting"]) == (["h7", "h3"], [], None)
    async with await api.client(ada) as client:
        events = (await client.get(f"/api/v1/jobs/{job_id}/events")).json()["items"]
    assert next(item["text"] for item in events if item["kind"] == "running") == "seen running on h7, h3"
    before = await slurmlike.kinds(job_id)
    await slurmlike.round(2)
    assert await slurmlike.kinds(job_id) == before


async def test_machines_that_are_told_after_the_start_are_taken_over_too(slurmlike: Harness, ada: Principal) -> None:
    job_id = await waiting_job(slurmlike, ada, cards(2, nodes=2))
    out_there(slurmlike, job_id).begin()
    await slurmlike.round()
    assert (await slurmlike.job(job_id)).phase == "running"
    out_there(slurmlike, job_id).nodes = ("h1", "h2")
    await slurmlike.round(2)
    job = await slurmlike.job(job_id)
    assert job.handle is not None
    assert job.handle["nodes"] == ["h1", "h2"]
    assert (await slurmlike.kinds(job_id)).count("running") == 2


async def test_waiting_uses_no_gpu_hours_and_nothing_of_the_fair_share(
    api: Api, slurmlike: Harness, ada: Principal
) -> None:
    job_id = await waiting_job(slurmlike, ada, cards(2, limits={"max_duration": 2 * HOUR}))
    assert await hours(api, ada) == (4, 4)  # reserved
    slurmlike.time.pass_(5 * HOUR)
    await slurmlike.round()
    assert await hours(api, ada) == (4, 4)
    async with slurmlike.services.database.session() as session:
        assert await slurmlike.services.hardware.faded_use(session) == {}
    out_there(slurmlike, job_id).begin("h1", at=slurmlike.time.now - timedelta(minutes=30))
    await slurmlike.round()
    use = await use_of(slurmlike, job_id)
    assert (slurmlike.time.now - use.started_at) - timedelta(minutes=30) < timedelta(minutes=1)
    assert use.reserved_until == use.started_at + timedelta(hours=2)
    slurmlike.time.pass_(HOUR / 2)
    await end(slurmlike, job_id)
    assert await hours(api, ada) == (2, 2)  # it ran for an hour


async def test_its_time_limit_counts_from_its_start(slurmlike: Harness, ada: Principal) -> None:
    job_id = await waiting_job(slurmlike, ada, cards(1, limits={"max_duration": 600}))
    slurmlike.time.pass_(50 * HOUR)
    await begin(slurmlike, job_id)
    slurmlike.time.pass_(590)
    await slurmlike.round()
    assert (await slurmlike.job(job_id)).phase == "running"
    slurmlike.time.pass_(20)
    await slurmlike.round(4)
    job = await slurmlike.job(job_id)
    assert (job.phase, job.reason) == ("failed", {"code": "time-limit", "data": {"seconds": 600}})


async def test_a_run_that_began_and_ended_between_two_looks_has_used_what_it_used(
    api: Api, slurmlike: Harness, ada: Principal
) -> None:
    job_id = await waiting_job(slurmlike, ada, cards(2))
    slurmlike.time.pass_(3 * HOUR)
    out_there(slurmlike, job_id).begin("h1", at=slurmlike.time.now - timedelta(hours=1))
    await end(slurmlike, job_id)
    assert await hours(api, ada) == (2, 2)


# --- other ends -------------------------------------------------------------------------------------------------------


async def test_cancelled_while_it_waits_it_is_gone_there_and_has_used_nothing(
    api: Api, slurmlike: Harness, ada: Principal
) -> None:
    job_id = await waiting_job(slurmlike, ada)
    slurmlike.time.pass_(3 * HOUR)
    await slurmlike.services.jobs.cancel(ada, job_id)
    await slurmlike.round(4)
    job = await slurmlike.job(job_id)
    assert (job.phase, job.reason and job.reason["code"], job.conditions) == ("cancelled", "cancelled", [])
    assert slurmlike.scripted.containers == {}
    assert await slurmlike.held_gpus() == []
    assert await hours(api, ada) == (0, 0)
    use = await use_of(slurmlike, job_id)
    assert (use.started_at, use.pending) == (use.ended_at, False)


async def test_paused_while_it_waits_it_leaves_that_queue_and_resumed_it_stands_there_again(
    slurmlike: Harness, ada: Principal
) -> None:
    job_id = await waiting_job(slurmlike, ada)
    ledger = slurmlike.services.ledger
    await ledger.apply(job_id, Event.PAUSE, ledger.evidence(data={"actor": "ada"}))
    await slurmlike.round(4)
    job = await slurmlike.job(job_id)
    assert (job.phase, job.attempt, job.conditions) == ("queued", 2, [])
    assert slurmlike.scripted.containers == {}
    await ledger.apply(job_id, Event.RESUME, ledger.evidence(data={"actor": "ada"}))
    await slurmlike.round(2)
    assert conditions(await slurmlike.job(job_id)) == ["executor-queue"]
    await begin(slurmlike, job_id, attempt=2)


async def test_put_back_into_the_queue_by_the_executor_a_new_attempt_of_ours_begins(
    slurmlike: Harness, ada: Principal
) -> None:
    job_id = await waiting_job(slurmlike, ada, cards(1, limits={"retries": {"infra": 2}}))
    await begin(slurmlike, job_id)
    out_there(slurmlike, job_id).exit = Exit(absent=True, cause="requeued", detail="restart count 1")
    await slurmlike.round(4)
    job = await slurmlike.job(job_id)
    assert (job.phase, job.attempt) == ("queued", 2)
    [first, _second] = (await slurmlike.services.jobs.attempts([job_id]))[job_id]
    assert first.reason == {"code": "requeued", "data": {"detail": "restart count 1"}}


@pytest.mark.parametrize(
    ("how", "code"),
    [
        (Exit(exit_code=143, signal=15, cause="preempted"), "preempted"),
        (Exit(exit_code=143, signal=15, cause="slurm-time-limit"), "slurm-time-limit"),
        (Exit(exit_code=143, signal=15, cause="slurm-cancelled"), "slurm-cancelled"),
        (Exit(exit_code=137, signal=9, oom_killed=True), "out-of-memory"),
    ],
)
async def test_what_ended_it_there_counts_for_all_its_machines(
    slurmlike: Harness, ada: Principal, how: Exit, code: str
) -> None:
    """Its signal reached the runner, which says that it was told to stop; and the other machine only lost the first one."""
    job_id = await waiting_job(slurmlike, ada, cards(1, nodes=2))
    await begin(slurmlike, job_id, "h1", "h2")
    await slurmlike.write_outcome(job_id, "cancelled", signal=15)
    out_there(slurmlike, job_id).exit = how
    await slurmlike.round(4)
    job = await slurmlike.job(job_id)
    assert (job.phase, job.reason and job.reason["code"]) == ("failed", code)


async def test_a_wide_run_that_ended_there_before_any_machine_began_says_so(slurmlike: Harness, ada: Principal) -> None:
    job_id = await waiting_job(slurmlike, ada, cards(1, nodes=2))
    waiting = out_there(slurmlike, job_id)
    waiting.queued, waiting.exit = None, Exit(absent=True)
    await slurmlike.round(4)
    job = await slurmlike.job(job_id)
    assert (job.phase, job.reason and job.reason["code"]) == ("lost", "container-lost")


async def test_a_console_that_starts_again_goes_on_with_what_waits_there(slurmlike: Harness, ada: Principal) -> None:
    job_id = await waiting_job(slurmlike, ada)
    await slurmlike.restart()
    await slurmlike.round(2)
    assert conditions(await slurmlike.job(job_id)) == ["executor-queue"]
    assert slurmlike.scripted.created == [(job_id, 1)]
    await begin(slurmlike, job_id)


async def test_free_cards_are_those_that_the_executor_says(slurmlike: Harness, ada: Principal) -> None:
    slurmlike.scripted.gpus_used = 5  # three of them by others
    await waiting_job(slurmlike, ada)
    [_cpu, h200] = await slurmlike.services.hardware.profiles()
    assert (h200.total_gpus, h200.free_gpus) == (16, 6)


async def test_the_queues_word_for_an_end_is_waited_for_when_its_signal_reached_the_runner(
    slurmlike: Harness, ada: Principal
) -> None:
    """The runner says first that it was told to stop; by whom and why only the queue knows, a moment later."""
    job_id = await waiting_job(slurmlike, ada)
    await begin(slurmlike, job_id)
    now = slurmlike.services.clock.now().timestamp()
    await slurmlike.write_outcome(job_id, "cancelled", exit_code=3, finished_at=now)
    await slurmlike.round()
    assert (await slurmlike.job(job_id)).phase == "running"
    out_there(slurmlike, job_id).exit = Exit(exit_code=3, cause="slurm-cancelled", detail="Slurm job 7: CANCELLED")
    await slurmlike.round(4)
    job = await slurmlike.job(job_id)
    assert (job.phase, job.reason and job.reason["code"]) == ("failed", "slurm-cancelled")
