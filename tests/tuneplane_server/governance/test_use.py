"""What is used: reserved at the start, settled at the end, right across the end of a month and restarts; waiting by it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.tuneplane_server.governance.test_admission import limit, refusals
from tests.tuneplane_server.harness import Api, Harness, gpu_pool, jobspec
from tuneplane_server.domain.classify import Exit
from tuneplane_server.features.accounts.principal import Principal

HOUR = 3600


async def own(api: Api, who: Principal, project: str | None = None) -> list[dict[str, Any]]:
    async with await api.client(who) as client:
        answer = await client.get("/api/v1/quota", params={} if project is None else {"project": project})
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


async def hours(api: Api, who: Principal) -> tuple[float, float]:
    """GPU-hours of the day and the month."""
    use = (await own(api, who))[0]["use"]
    return round(use["gpu_hours_day"], 2), round(use["gpu_hours_month"], 2)


async def end(harness: Harness, job_id: str) -> None:
    await harness.write_outcome(job_id)
    harness.scripted.containers[job_id, 1].exit = Exit(False, 0)
    await harness.round(4)
    assert (await harness.job(job_id)).phase == "succeeded"


async def test_a_run_over_the_end_of_a_month_counts_in_both_for_its_share(api: Api, ada: Principal) -> None:
    harness = api.harness
    harness.time.now = datetime(2026, 1, 31, 22, tzinfo=UTC)
    job = await harness.running_job(ada, jobspec(resources=gpu_pool(2), limits={"max_duration": 6 * HOUR}))
    assert await hours(api, ada) == (4, 4)  # two hours are left of January, on two cards
    harness.time.now = datetime(2026, 2, 1, 0, 30, tzinfo=UTC)
    await harness.restart()
    await harness.round()
    assert await hours(api, ada) == (8, 8)  # four hours reserved in February
    harness.time.now = datetime(2026, 2, 1, 1, tzinfo=UTC)
    await end(harness, job)
    assert await hours(api, ada) == (2, 2)  # one hour was taken
    await harness.restart()
    assert await hours(api, ada) == (2, 2)
    harness.time.now = datetime(2026, 2, 2, tzinfo=UTC)
    assert await hours(api, ada) == (0, 2)
    harness.time.now = datetime(2026, 3, 1, tzinfo=UTC)
    [report] = await own(api, ada)
    assert (report["use"]["gpu_hours_day"], report["use"]["gpu_hours_month"]) == (0, 0)
    assert report["day"] == {"start": "2026-03-01T00:00:00Z", "end": "2026-03-02T00:00:00Z"}
    assert report["month"] == {"start": "2026-03-01T00:00:00Z", "end": "2026-04-01T00:00:00Z"}


async def test_a_job_over_the_hours_of_the_month_starts_when_it_is_over(api: Api, ada: Principal) -> None:
    harness = api.harness
    await limit(harness, "user", {"gpu_hours_month": 4}, ada)
    spec = jobspec(resources=gpu_pool(2), limits={"max_duration": 2 * HOUR})
    harness.time.now = datetime(2026, 1, 31, 10, tzinfo=UTC)
    first = await harness.running_job(ada, spec)
    waiting = await harness.submit(ada, spec)
    await harness.round(3)
    assert (await harness.job(waiting)).phase == "queued"
    harness.time.pass_(HOUR)
    await end(harness, first)  # settled with half of what it had reserved: still not enough for another
    await harness.restart()
    await harness.round(2)
    assert (await harness.job(waiting)).phase == "queued"
    harness.time.now = datetime(2026, 2, 1, 0, 1, tzinfo=UTC)
    await harness.round(2)
    assert (await harness.job(waiting)).phase == "running"


@pytest.mark.parametrize(("scope", "limits"), [("user", {"gpus": 4}), ("user", {"jobs": 1}), ("project", {"gpus": 4})])
async def test_a_job_over_what_may_run_at_once_waits_and_then_starts(
    api: Api, ada: Principal, scope: str, limits: dict[str, Any]
) -> None:
    harness = api.harness
    first = await harness.running_job(ada, jobspec(resources=gpu_pool(3)))
    await limit(harness, scope, limits, ada)
    waiting = await harness.submit(ada, jobspec(resources=gpu_pool(2)))
    await harness.round(3)
    assert (await harness.job(waiting)).phase == "queued"
    reports = {report["scope"]: report for report in await own(api, ada, "lab")}
    assert set(reports) == {"user", "project"}
    assert reports[scope]["use"] | {"gpus": 3, "jobs": 1, "queued_jobs": 1} == reports[scope]["use"]
    await harness.restart()
    await harness.round(2)
    assert (await harness.job(waiting)).phase == "queued"
    await end(harness, first)
    await harness.round(2)
    assert (await harness.job(waiting)).phase == "running"


async def test_what_runs_left_behind_counts_as_storage(api: Api, ada: Principal) -> None:
    harness = api.harness
    job = await harness.running_job(ada)
    out = harness.out(await harness.job(job))
    out.mkdir(parents=True, exist_ok=True)
    (out / "model.bin").write_bytes(b"x" * 3_000_000)
    await end(harness, job)
    [user, project] = await own(api, ada, "lab")
    assert user["use"]["storage_gb"] == project["use"]["storage_gb"] == pytest.approx(0.003, rel=0.01)
    await limit(harness, "project", {"storage_gb": 0.004}, ada)
    assert await refusals(harness, ada, jobspec()) == []
    await limit(harness, "project", {"storage_gb": 0.002}, ada)
    [refusal] = await refusals(harness, ada, jobspec())
    assert refusal.code == "quota-exceeded"
    assert "ada/lab" in refusal.message


async def test_nobody_sees_or_spends_what_is_anothers(api: Api, ada: Principal) -> None:
    harness = api.harness
    eve = await harness.user("eve")
    await harness.bring_package(eve)
    await harness.running_job(ada, jobspec(resources=gpu_pool(2)))
    [report] = await own(api, eve, "lab")  # ada's project of that name is not eve's
    assert (report["name"], report["use"]["gpus"], report["use"]["jobs"]) == ("eve", 0, 0)
    await limit(harness, "user", {"gpus": 2})
    mine = await harness.submit(eve, jobspec(resources=gpu_pool(2)))
    await harness.round(2)
    assert (await harness.job(mine)).phase == "running"


async def test_a_run_is_stopped_after_the_longest_time_that_its_quota_allows(api: Api, ada: Principal) -> None:
    """Also one that named no duration: what is reserved for it is all that it may take."""
    harness = api.harness
    await limit(harness, "user", {"max_seconds": HOUR})
    job = await harness.running_job(ada)
    harness.time.pass_(HOUR - 60)
    await harness.round()
    assert (await harness.job(job)).stop_cause is None
    harness.time.pass_(120)
    await harness.round(2)
    assert (await harness.job(job)).stop_cause == "time-limit"
    await harness.round(4)
    ended = await harness.job(job)
    assert ended.reason is not None
    assert (ended.reason["code"], ended.reason["data"]["seconds"]) == ("time-limit", HOUR)
