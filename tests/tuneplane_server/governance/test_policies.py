"""Policies: maintenance, approval, watchdog; set with a version, refused when they cannot be meant."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest

from tests.tuneplane_server.harness import Api, gpu_pool, jobspec
from tuneplane_server.features.accounts.principal import Principal

POLICIES = "/api/v1/admin/policies"


@pytest.fixture
async def root(api: Api) -> Principal:
    return await api.harness.user("root", admin=True)


async def put(client: httpx2.AsyncClient, name: str, value: Any, version: int) -> httpx2.Response:
    return await client.put(f"{POLICIES}/{name}", json={"value": value, "version": version})


async def test_policies_have_defaults_and_every_change_is_on_record(api: Api, root: Principal) -> None:
    async with await api.client(root) as client:
        listed = (await client.get(POLICIES)).json()["items"]
        assert [(item["name"], item["version"]) for item in listed] == [("drain", 0), ("approval", 0), ("watchdog", 0)]
        assert listed[0]["value"]["on"] is False
        assert listed[1]["value"] == {"gpus": None, "seconds": None}
        assert (listed[2]["value"]["stalled_minutes"], listed[2]["value"]["stop_stalled"]) == (30, False)
        made = await put(client, "approval", {"gpus": 8}, 0)
        assert (made.status_code, made.headers["etag"], made.json()["value"]) == (
            200,
            '"1"',
            {"gpus": 8, "seconds": None},
        )
        late = await put(client, "approval", {"gpus": 16}, 0)
        assert (late.status_code, late.json()["code"], late.json()["current"]["value"]["gpus"]) == (409, "conflict", 8)
        assert "root" in late.json()["detail"]
    [record] = await api.harness.services.audit.newest(target="approval")
    assert (record.actor, record.action) == ("root", "policy.set")
    assert record.data["before"] == {"gpus": None, "seconds": None}
    assert record.data["after"] == {"gpus": 8, "seconds": None}
    assert (await api.harness.services.governance.approval()).gpus == 8


@pytest.mark.parametrize(
    ("name", "value", "code", "field"),
    [
        ("approval", {"gpus": -1}, "policy-invalid", "value.gpus"),
        ("approval", {"gpus": "8"}, "policy-invalid", "value.gpus"),
        ("approval", {"cards": 8}, "policy-invalid", "value.cards"),
        ("approval", {"seconds": 10**12}, "policy-invalid", "value.seconds"),
        ("drain", {"on": "yes"}, "policy-invalid", "value.on"),
        ("drain", {"on": True, "text": "a\nb"}, "policy-invalid", "value.text"),
        ("drain", {"on": True, "text": "x" * 501}, "policy-invalid", "value.text"),
        ("drain", {"on": True, "since": "2026-01-01T00:00:00Z"}, "policy-invalid", "value.since"),
        ("watchdog", {"stalled_minutes": 0}, "policy-invalid", "value.stalled_minutes"),
        ("watchdog", {"disk_free_gb": "much"}, "policy-invalid", "value.disk_free_gb"),
        ("watchdog", {"stalled_minutes": None, "stop_stalled": True}, "policy-contradictory", "value.stop_stalled"),
        ("watchdog", {"not_finite_reports": None, "stop_not_finite": True}, "policy-contradictory", "value.stop_not_finite"),
        ("watchdog", [], "policy-invalid", "value"),
    ],
)  # fmt: skip
async def test_what_cannot_be_meant_is_refused_and_changes_nothing(
    site: Api, name: str, value: Any, code: str, field: str
) -> None:
    root = await site.harness.user("root", admin=True)
    async with await site.client(root) as client:
        answer = await put(client, name, value, 0)
        assert answer.status_code == 422, answer.text
        [refusal] = answer.json()["refusals"]
        assert (refusal["code"], refusal["field"]) == (code, field)
        assert refusal["message"]
        assert refusal["hint"]
        assert (await client.get(f"{POLICIES}/{name}")).json()["version"] == 0
        unknown = await client.get(f"{POLICIES}/everything")
        assert unknown.status_code == 422


async def test_a_drain_lets_running_jobs_end_and_starts_none(api: Api, root: Principal, ada: Principal) -> None:
    """Submissions are admitted and wait; what runs goes on; afterwards the waiting job starts by itself."""
    running = await api.harness.running_job(ada)
    async with await api.client(root) as admin, await api.client(ada) as user:
        assert (await put(admin, "drain", {"on": True, "text": "new disks"}, 0)).status_code == 200
        told = (await user.get("/api/v1/quota")).json()["drain"]
        assert (told["on"], told["text"], told["by"]) == (True, "new disks", "root")
        waiting = await api.harness.submit(ada)
        await api.harness.round(3)
        assert (await api.harness.job(waiting)).phase == "queued"
        assert (await api.harness.job(running)).phase == "running"
        longer = await put(admin, "drain", {"on": True, "text": "still new disks"}, 1)
        assert longer.json()["value"]["since"] == told["since"]
        await api.harness.restart()
        await api.harness.round(2)
        assert (await api.harness.job(waiting)).phase == "queued"
        over = await put(admin, "drain", {"on": False}, 2)
        assert over.json()["value"] == {"on": False, "text": "", "since": None, "by": None}
        await api.harness.round(2)
        assert (await api.harness.job(waiting)).phase == "running"


async def test_a_job_above_the_threshold_waits_for_an_administrator(api: Api, root: Principal, ada: Principal) -> None:
    async with await api.client(root) as admin, await api.client(ada) as user:
        assert (await put(admin, "approval", {"gpus": 2, "seconds": 3600}, 0)).status_code == 200
        small = await api.harness.submit(ada, jobspec(resources=gpu_pool(2), limits={"max_duration": 3600}))
        big = await api.harness.submit(ada, jobspec(resources=gpu_pool(3), limits={"max_duration": 60}))
        endless = await api.harness.submit(ada, jobspec())
        assert [(await api.harness.job(item)).approval for item in (small, big, endless)] == [
            "none",
            "pending",
            "pending",
        ]
        await api.harness.round(2)
        assert (await api.harness.job(big)).phase == "queued"
        page = (await admin.get("/api/v1/admin/approvals", params={"limit": 1})).json()
        assert [item["id"] for item in page["items"]] == [big]
        rest = (await admin.get("/api/v1/admin/approvals", params={"cursor": page["next_cursor"]})).json()
        assert ([item["id"] for item in rest["items"]], rest["next_cursor"]) == ([endless], None)
        assert (await user.get("/api/v1/admin/approvals")).status_code == 403
        await user.post(f"/api/v1/jobs/{endless}/cancel")
        assert (await admin.post(f"/api/v1/jobs/{big}/approve")).is_success
        assert (await admin.get("/api/v1/admin/approvals")).json()["items"] == []
        await api.harness.round(2)
        assert (await api.harness.job(big)).phase == "running"
