"""Admission by quotas: each rule alone, all together, and what each tells the one who is refused."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tuneplane_server.harness import INGEST, ON_SQLITE, Api, Harness, gpu_pool, jobspec
from tuneplane.contract.refusals import Refusal, RefusedError
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.governance.quotas import Subject
from tuneplane_server.features.jobs.query import JobQuery

IMAGE = "/usr"


async def limit(harness: Harness, scope: str, limits: dict[str, Any], whose: Principal | None = None) -> None:
    """Set a quota, whatever it was before."""
    governance = harness.services.governance
    root = Principal("", "root", admin=True, scopes=frozenset())
    if scope == "project":
        assert whose is not None
        subject = await governance.project(whose.username, "lab")
    else:
        subject = Subject("user", "", "") if whose is None else await governance.user(whose.username)
    await governance.set_quota(root, subject, limits, (await governance.quota(subject)).version)


async def refusals(harness: Harness, who: Principal, spec: dict[str, Any]) -> list[Refusal]:
    try:
        await harness.services.jobs.submit(who, spec, key=None, ingest_address=INGEST)
    except RefusedError as error:
        return list(error.refusals)
    return []


@pytest.mark.parametrize(
    ("limits", "spec", "code", "field", "said"),
    [
        ({"gpus": 2}, {"resources": gpu_pool(3)}, "quota-never-fits", "spec.resources.pools", ("2", "3", "ada")),
        ({"jobs": 0}, {}, "quota-never-fits", "spec.resources.pools", ("0", "ada")),
        ({"gpu_hours_day": 10}, {"resources": gpu_pool(2), "limits": {"max_duration": 18001}}, "quota-never-fits", "spec.limits.max_duration", ("10",)),
        ({"gpu_hours_month": 10}, {"resources": gpu_pool(2), "limits": {"max_duration": 18001}}, "quota-never-fits", "spec.limits.max_duration", ("10",)),
        ({"gpu_hours_day": 10}, {"resources": gpu_pool(2)}, "duration-needed", "spec.limits.max_duration", ("10", "ada")),
        ({"gpu_hours_month": 10}, {"resources": gpu_pool(2)}, "duration-needed", "spec.limits.max_duration", ("10",)),
        ({"queued_jobs": 0}, {}, "quota-exceeded", "", ("0",)),
        ({"storage_gb": 0}, {}, "quota-exceeded", "", ("0", "GB")),
        ({"profiles": ["h200"]}, {}, "profile-not-allowed", "spec.resources.pools.0.series", ("h200", "cpu")),
        ({"max_seconds": 60}, {"limits": {"max_duration": 61}}, "duration-over-limit", "spec.limits.max_duration", ("60", "61")),
        ({"max_priority": 0}, {"priority": 1}, "priority-over-limit", "spec.priority", ("0", "1")),
        ({"max_priority": -5}, {}, "priority-over-limit", "spec.priority", ("-5", "0")),
    ],
)  # fmt: skip
@ON_SQLITE
@pytest.mark.parametrize("scope", ["default", "user", "project"])
async def test_a_rule_refuses_with_the_figure_whose_it_is_and_who_can_change_it(
    harness: Harness, ada: Principal, scope: str, limits: dict[str, Any], spec: dict[str, Any], code: str, field: str, said: tuple[str, ...]
) -> None:  # fmt: skip
    await harness.user("root", admin=True)
    await harness.submit(ada)
    await limit(harness, "project" if scope == "project" else "user", limits, None if scope == "default" else ada)
    [refusal] = await refusals(harness, ada, jobspec(**spec))
    assert (refusal.code, refusal.field) == (code, field)
    assert all(word in refusal.message for word in said)
    assert ("ada/lab" if scope == "project" else "the user ada") in refusal.message
    assert "root" in refusal.hint


@pytest.mark.parametrize(
    ("limits", "spec"),
    [
        ({"gpus": 2}, {"resources": gpu_pool(2)}),
        ({"gpus": 0, "gpu_hours_day": 0, "gpu_hours_month": 0}, {}),
        ({"gpu_hours_day": 10}, {"resources": gpu_pool(2), "limits": {"max_duration": 18000}}),
        ({"gpu_hours_day": 10, "max_seconds": 18000}, {"resources": gpu_pool(2)}),
        ({"queued_jobs": 1}, {}),
        ({"storage_gb": 0.001}, {}),
        ({"profiles": ["cpu"]}, {}),
        ({"max_seconds": 60}, {"limits": {"max_duration": 60}}),
        ({"max_priority": 5}, {"priority": 5}),
        ({"images": ["registry.example.org/*"]}, {}),  # what the console itself has for a recipe
    ],
)
async def test_what_fits_is_admitted(
    harness: Harness, ada: Principal, limits: dict[str, Any], spec: dict[str, Any]
) -> None:
    await limit(harness, "user", limits, ada)
    assert await refusals(harness, ada, jobspec(**spec)) == []


async def test_every_quota_that_is_broken_is_told_at_once(harness: Harness, ada: Principal) -> None:
    await limit(harness, "user", {"gpus": 1, "queued_jobs": 0, "max_priority": 0, "profiles": ["cpu"]})
    found = await refusals(harness, ada, jobspec(resources=gpu_pool(2), priority=9))
    assert [refusal.code for refusal in found] == [
        "profile-not-allowed", "priority-over-limit", "quota-never-fits", "quota-exceeded",
    ]  # fmt: skip
    rows, _next = await harness.services.jobs.list(ada, JobQuery())
    assert rows == []


async def test_a_user_with_waiting_jobs_up_to_the_quota_is_told_how_many_wait(harness: Harness, ada: Principal) -> None:
    await limit(harness, "user", {"queued_jobs": 2}, ada)
    for _number in range(2):
        await harness.submit(ada)
    [refusal] = await refusals(harness, ada, jobspec())
    assert "2" in refusal.message
    await harness.round(2)
    assert await refusals(harness, ada, jobspec()) == []


async def test_who_names_no_duration_gets_the_longest_that_is_allowed(harness: Harness, ada: Principal) -> None:
    await limit(harness, "user", {"max_seconds": 7200})
    first = await harness.submit(ada)
    await limit(harness, "project", {"max_seconds": 3600}, ada)
    second, named = await harness.submit(ada), await harness.submit(ada, jobspec(limits={"max_duration": 60}))
    assert [(await harness.job(item)).max_seconds for item in (first, second, named)] == [7200, 3600, 60]


async def test_images_are_held_to_the_list_wherever_they_come_from(harness: Harness, ada: Principal) -> None:
    spec = jobspec()
    spec["spec"]["framework"]["image"] = IMAGE
    before = await refusals(harness, ada, spec)
    await limit(harness, "user", {"images": ["registry.example.org/*", "/srv/runtimes/*"]}, ada)
    after = [refusal for refusal in await refusals(harness, ada, spec) if refusal not in before]
    assert [(refusal.code, refusal.field) for refusal in after] == [("image-not-allowed", "spec.framework.image")]
    assert IMAGE in after[0].message
    assert "/srv/runtimes/*" in after[0].message
    await limit(harness, "user", {"images": ["/usr"]}, ada)
    assert await refusals(harness, ada, spec) == before


async def test_many_administrators_are_not_named(harness: Harness, ada: Principal) -> None:
    for name in ("root", "olga", "ivan", "mary"):
        await harness.user(name, admin=True)
    await limit(harness, "user", {"queued_jobs": 0})
    [refusal] = await refusals(harness, ada, jobspec())
    assert "an administrator" in refusal.hint
    assert "olga" not in refusal.hint


async def test_a_dry_run_says_it_too(api: Api, ada: Principal) -> None:
    await limit(api.harness, "user", {"queued_jobs": 0})
    async with await api.client(ada) as client:
        answer = await client.post("/api/v1/jobs", params={"dry_run": True}, json=jobspec())
    assert [item["code"] for item in answer.json()["refusals"]] == ["quota-exceeded"]


async def dry(api: Api, who: Principal, spec: dict[str, Any]) -> dict[str, Any]:
    async with await api.client(who) as client:
        answer: dict[str, Any] = (await client.post("/api/v1/jobs", params={"dry_run": True}, json=spec)).json()
    return answer


async def test_a_dry_run_tells_who_would_have_to_approve_and_by_which_figure(api: Api, ada: Principal) -> None:
    governance = api.harness.services.governance
    root = await api.harness.user("olga", admin=True)
    big = jobspec(resources=gpu_pool(4), limits={"max_duration": 7200})
    assert (await dry(api, ada, big))["approval"] is None
    await governance.set_policy(root, "approval", {"gpus": 2, "seconds": 3600}, 0)
    told = (await dry(api, ada, big))["approval"]
    assert told["rules"] == [
        {"rule": "gpus", "limit": 2, "wanted": 4},
        {"rule": "seconds", "limit": 3600, "wanted": 7200},
    ]
    assert "olga has to approve it" in told["text"]
    assert "4 GPUs, and more than 2" in told["text"]
    endless = (await dry(api, ada, jobspec(resources=gpu_pool(1))))["approval"]
    assert endless["rules"] == [{"rule": "seconds", "limit": 3600, "wanted": None}]
    assert (await dry(api, ada, jobspec(resources=gpu_pool(1), limits={"max_duration": 60})))["approval"] is None


async def test_a_dry_run_tells_what_the_job_would_wait_for_and_leaves_no_trace(api: Api, ada: Principal) -> None:
    harness = api.harness
    assert (await dry(api, ada, jobspec(resources=gpu_pool(8))))["waiting"]["kind"] == "next"
    holder = await harness.running_job(ada, jobspec(resources=gpu_pool(6), limits={"max_duration": 3600}))
    waiting = (await dry(api, ada, jobspec(resources=gpu_pool(4))))["waiting"]
    assert (waiting["kind"], waiting["position"], [item["job_id"] for item in waiting["held_by"]]) == (
        "cards",
        1,
        [holder],
    )
    assert waiting["estimate"] is not None
    await limit(harness, "user", {"gpus": 6})
    assert (await dry(api, ada, jobspec(resources=gpu_pool(1))))["waiting"]["kind"] == "quota"
    refused = await dry(api, ada, jobspec(resources=gpu_pool(64)))
    assert (refused["admitted"], refused["approval"], refused["waiting"]) == (False, None, None)
    assert (await harness.services.queue.plan()).waiting == {}
