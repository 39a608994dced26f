"""Alerts over real rows, on both databases: they fire once and are over once, whatever restarts and however many look."""

from __future__ import annotations

from typing import Any

from sqlalchemy import select

from tests.tuneplane_server.harness import Api, Harness, gpu_pool, jobspec
from tests.tuneplane_server.jobs.test_looks import statements
from tests.tuneplane_server.telemetry.build import event as reported
from tests.tuneplane_server.telemetry.build import metric
from tuneplane_server.executors.port import CardFigures, NodeFigures
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.alerts.rules import RuleInput
from tuneplane_server.features.alerts.tables import AlertStateRow, NotificationRow
from tuneplane_server.features.telemetry.records import Batch

KL = "train/kl_penalty"


async def look(harness: Harness, *, minutes: float = 0.0, role: str = "alerter") -> None:
    """One round of the alerter after so many minutes."""
    harness.time.pass_(60 * minutes)
    await harness.loop(role).tick()
    await harness.loop(role).idle()


async def set_rule(harness: Harness, principal: Principal, name: str, **fields: Any) -> None:
    await harness.services.alerts.set_rule(principal, principal.username, "lab", name, RuleInput(**fields))


async def send(harness: Harness, job_id: str, seq: int, value: float, name: str = KL) -> None:
    await harness.services.telemetry.store(job_id, 1, Batch(metrics=[metric(seq, {name: [value]})]))


async def conditions(harness: Harness, job_id: str) -> list[str]:
    return [item["type"] for item in (await harness.job(job_id)).conditions]


async def notified(harness: Harness, principal: Principal) -> list[tuple[str, str]]:
    """(rule, run) of everything that the principal was told, the oldest first."""
    rows, _more = await harness.services.alerts.notifications(principal)
    return [(row.rule, row.job_id) for row in reversed(rows)]


async def states(harness: Harness) -> dict[str, str]:
    async with harness.services.database.session() as session:
        return {row.rule: row.stage for row in await session.scalars(select(AlertStateRow))}


async def test_a_metric_that_stays_high_is_told_once_and_is_over_once(harness: Harness, ada: Principal) -> None:
    job_id = await harness.running_job(ada)
    await set_rule(harness, ada, "kl", kind="metric-above", metric=KL, threshold=10, minutes=5, reports=3)
    for seq in range(1, 9):
        await send(harness, job_id, seq, 12.0)
        await look(harness, minutes=1)
    assert await conditions(harness, job_id) == ["alert:kl"]
    assert await notified(harness, ada) == [("kl", job_id)]
    condition = (await harness.job(job_id)).conditions[0]
    assert condition["data"]["threshold"] == "10"
    for seq in range(9, 13):
        await send(harness, job_id, seq, 9.9 if seq % 2 else 10.1)
        await look(harness, minutes=1)
    assert await conditions(harness, job_id) == ["alert:kl"], "around the threshold nothing flaps"
    for seq in range(13, 20):
        await send(harness, job_id, seq, 2.0)
        await look(harness, minutes=1)
    assert await conditions(harness, job_id) == []
    assert await notified(harness, ada) == [("kl", job_id)]
    kinds = await harness.kinds(job_id)
    assert (kinds.count("condition"), kinds.count("condition-cleared")) == (1, 1)
    assert await states(harness) == {}


async def test_a_restart_fires_nothing_again_and_goes_on_with_what_was_pending(
    harness: Harness, ada: Principal
) -> None:
    job_id = await harness.running_job(ada)
    await set_rule(harness, ada, "kl", kind="metric-above", metric=KL, threshold=10, minutes=5)
    await send(harness, job_id, 1, 12.0)
    await look(harness)
    await look(harness, minutes=3)
    assert await states(harness) == {"kl": "pending"}
    await harness.restart()
    await look(harness, minutes=3)
    assert await notified(harness, ada) == [("kl", job_id)], "three minutes before and three after"
    await harness.restart()
    for _time in range(3):
        await look(harness, minutes=10)
    assert await notified(harness, ada) == [("kl", job_id)]
    assert (await harness.kinds(job_id)).count("condition") == 1


async def test_two_consoles_that_saw_the_same_tell_it_once(harness: Harness, ada: Principal) -> None:
    """Both have read that it is to fire before either writes; the second finds the state it read gone."""
    job_id = await harness.running_job(ada)
    await set_rule(harness, ada, "kl", kind="metric-above", metric=KL, threshold=10, minutes=0)
    await set_rule(harness, ada, "job-succeeded", enabled=True)
    await send(harness, job_id, 1, 12.0)
    other = harness.replica()
    first, second = harness.loop("alerter").role, other.loop("alerter").role
    due = await first.due(), await second.due()
    assert [len(works) for works in due] == [1, 1]
    for console, works in ((harness, due[0]), (other, due[1])):
        role = console.loop("alerter").role
        (lease,) = await console.roles._leases.claim(role.name, [job_id])
        await role.handle(works[0], lease)
        await console.roles._leases.release([lease])
    assert await notified(harness, ada) == [("kl", job_id)]
    await harness.write_outcome(job_id)
    harness.scripted.containers.clear()
    for name in ("observer", "reaper", "reaper"):
        await look(harness, role=name)
    assert (await harness.job(job_id)).phase == "succeeded"
    for console in (harness, other, harness, other):
        await look(console, minutes=0.2)
        await look(console, minutes=0.2)
    assert await notified(harness, ada) == [("kl", job_id), ("job-succeeded", job_id)]


async def test_who_lost_the_lease_writes_nothing(harness: Harness, ada: Principal) -> None:
    job_id = await harness.running_job(ada)
    await set_rule(harness, ada, "kl", kind="metric-above", metric=KL, threshold=10, minutes=0)
    await send(harness, job_id, 1, 12.0)
    role = harness.loop("alerter").role
    (work,) = await role.due()
    (lease,) = await harness.roles._leases.claim(role.name, [job_id])
    await harness.roles._leases.release([lease])
    await role.handle(work, lease)
    assert (await conditions(harness, job_id), await notified(harness, ada)) == ([], [])


async def test_a_run_that_ends_between_the_look_and_the_write_gets_no_condition(
    harness: Harness, ada: Principal
) -> None:
    job_id = await harness.running_job(ada)
    await set_rule(harness, ada, "kl", kind="metric-above", metric=KL, threshold=10, minutes=0)
    await send(harness, job_id, 1, 12.0)
    role = harness.loop("alerter").role
    (work,) = await role.due()
    await harness.write_outcome(job_id)
    harness.scripted.containers.clear()
    for name in ("observer", "reaper", "reaper"):
        await look(harness, role=name)
    (lease,) = await harness.roles._leases.claim(role.name, [job_id])
    await role.handle(work, lease)
    job = await harness.job(job_id)
    assert (job.phase, job.conditions, await notified(harness, ada)) == ("succeeded", [], [])


async def test_the_defaults_tell_of_a_failed_run_and_not_of_a_succeeded_one(harness: Harness, ada: Principal) -> None:
    failed, succeeded = await harness.running_job(ada), await harness.running_job(ada)
    await harness.write_outcome(failed, "failed")
    await harness.write_outcome(succeeded)
    harness.scripted.containers.clear()
    await harness.round(4)
    assert [(await harness.job(job_id)).phase for job_id in (failed, succeeded)] == ["failed", "succeeded"]
    for _time in range(3):
        await look(harness, minutes=1)
    await harness.restart()
    await look(harness, minutes=1)
    assert await notified(harness, ada) == [("job-failed", failed)]


async def test_a_rule_that_is_set_today_tells_nothing_of_yesterday(harness: Harness, ada: Principal) -> None:
    job_id = await harness.running_job(ada)
    await harness.write_outcome(job_id)
    harness.scripted.containers.clear()
    await harness.round(4)
    harness.time.pass_(60)
    await set_rule(harness, ada, "job-succeeded", enabled=True)
    await look(harness)
    assert await notified(harness, ada) == []


async def test_a_run_that_ends_while_it_alerts_is_over(harness: Harness, ada: Principal) -> None:
    job_id = await harness.running_job(ada)
    await set_rule(harness, ada, "kl", kind="metric-above", metric=KL, threshold=10, minutes=0)
    await send(harness, job_id, 1, 12.0)
    await look(harness)
    assert await states(harness) == {"kl": "firing"}
    await harness.write_outcome(job_id)
    harness.scripted.containers.clear()
    await harness.round(4)
    await look(harness, minutes=1)
    assert "kl" not in await states(harness)


async def test_a_rule_that_is_removed_while_it_fires_is_over(harness: Harness, ada: Principal) -> None:
    job_id = await harness.running_job(ada)
    await set_rule(harness, ada, "kl", kind="metric-above", metric=KL, threshold=10, minutes=0)
    await send(harness, job_id, 1, 12.0)
    await look(harness)
    await harness.services.alerts.remove_rule(ada, "ada", "lab", "kl")
    await look(harness)
    assert (await conditions(harness, job_id), await states(harness)) == ([], {})


async def test_a_loss_that_is_no_number_is_told_beside_the_condition_of_the_watchdog(
    harness: Harness, ada: Principal
) -> None:
    job_id = await harness.running_job(ada)
    for seq in range(1, 5):
        await send(harness, job_id, seq, float("nan"), "train/loss")
        await look(harness, role="watchdog")
    await look(harness)
    assert await conditions(harness, job_id) == ["loss-not-finite"], "one condition says it, not two"
    assert await notified(harness, ada) == [("non-finite", job_id)]


async def test_idle_gpus_and_no_progress_are_told_and_a_phase_that_reports_itself_is_not(
    api: Api, ada: Principal
) -> None:
    harness = api.harness
    harness.scripted.invented = False
    job_id = await harness.running_job(ada, jobspec(resources=gpu_pool(1)))
    await set_rule(harness, ada, "gpu-idle", minutes=10)
    await set_rule(harness, ada, "no-progress", minutes=20)
    await send(harness, job_id, 1, 1.0)

    async def idle(minutes: int) -> None:
        for _minute in range(minutes):
            harness.time.pass_(60)
            figures = NodeFigures("node", harness.time.now.timestamp(), {}, (CardFigures(0, False, {"use": 0.0}),))
            await harness.services.figures.record(figures)
        await look(harness)

    phase = reported(1, "phase", {"name": "evaluating", "max_minutes": 25})
    await harness.services.telemetry.store(job_id, 1, Batch(events=[phase._replace(time=harness.time.now.timestamp())]))
    await idle(24)
    assert await notified(harness, ada) == []
    await idle(3)
    assert sorted(await notified(harness, ada)) == [("gpu-idle", job_id), ("no-progress", job_id)]
    assert sorted(await conditions(harness, job_id)) == ["alert:gpu-idle", "alert:no-progress"]
    client = await api.client(ada)
    shown = (await client.get(f"/api/v1/jobs/{job_id}")).json()["conditions"]
    assert any("all its GPUs are idle for 10 minutes" in item["text"] for item in shown)


async def test_notifications_are_of_one_person_and_can_be_read(api: Api, ada: Principal) -> None:
    harness = api.harness
    job_id = await harness.running_job(ada)
    for number in range(3):
        await set_rule(harness, ada, f"kl-{number}", kind="metric-above", metric=KL, threshold=10, minutes=0)
    await send(harness, job_id, 1, 12.0)
    await look(harness)
    mine, others = await api.client(ada), await api.client(await harness.user("eve", admin=True))
    first = (await mine.get("/api/v1/notifications?limit=2")).json()
    assert (first["unread"], len(first["items"])) == (3, 2)
    second = (await mine.get("/api/v1/notifications", params={"cursor": first["next_cursor"]})).json()
    assert [item["rule"] for item in first["items"] + second["items"]] == ["kl-2", "kl-1", "kl-0"]
    assert second["items"][0]["text"] == f"{KL} is 12 at step 1, above 10"
    assert (await others.get("/api/v1/notifications")).json() == {"items": [], "unread": 0, "next_cursor": None}
    one = first["items"][0]["id"]
    assert (await others.post("/api/v1/notifications/read", json={"ids": [one]})).status_code == 204
    assert (await mine.post("/api/v1/notifications/read", json={"ids": ["a\0b"]})).status_code == 422
    assert (await mine.get("/api/v1/notifications")).json()["unread"] == 3, "nobody reads what is another's"
    await mine.post("/api/v1/notifications/read", json={"ids": [one]})
    assert len((await mine.get("/api/v1/notifications?unread=true")).json()["items"]) == 2
    await mine.post("/api/v1/notifications/read", json={})
    assert (await mine.get("/api/v1/notifications")).json()["unread"] == 0


async def test_what_was_read_long_ago_goes(harness: Harness, ada: Principal) -> None:
    job_id = await harness.running_job(ada)
    await set_rule(harness, ada, "kl", kind="metric-above", metric=KL, threshold=10, minutes=0)
    await send(harness, job_id, 1, 12.0)
    await look(harness)
    await harness.services.alerts.mark_read(ada)
    await look(harness, minutes=60 * 24 * 31)
    async with harness.services.database.session() as session:
        assert list(await session.scalars(select(NotificationRow.rule))) == ["no-progress"], "that one is new"


async def test_a_look_at_many_runs_reads_as_often_as_at_one(harness: Harness, ada: Principal) -> None:
    await harness.put_live_jobs(ada, 2)
    role, counts = harness.loop("alerter").role, []
    for _time in range(2):
        await role.due()
        with statements(harness) as asked:
            await role.due()
        counts.append(len(asked))
        await harness.put_live_jobs(ada, 30)
    assert counts[0] == counts[1] > 0
