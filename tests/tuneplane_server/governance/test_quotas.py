"""Quotas: set, inherited, refused when they contradict, edited by two at once; every change in the audit record."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx2
import pytest

from tests.tuneplane_server.harness import Api
from tuneplane_server.features.accounts.principal import Principal

QUOTAS = "/api/v1/admin/quotas"


@pytest.fixture
async def root(api: Api) -> Principal:
    return await api.harness.user("root", admin=True)


@pytest.fixture
async def lab(api: Api, ada: Principal) -> str:
    """A project of ada's: it comes to be with a submission."""
    await api.harness.submit(ada)
    return "ada/lab"


async def put(
    client: httpx2.AsyncClient, whose: str, limits: dict[str, Any], version: int | None = 0, **headers: str
) -> httpx2.Response:
    body = {"limits": limits} | ({} if version is None else {"version": version})
    return await client.put(f"{QUOTAS}/{whose}", json=body, headers=headers)


async def audited(api: Api, target: str) -> list[dict[str, Any]]:
    rows = await api.harness.services.audit.newest(target=target)
    return [row.data | {"actor": row.actor, "action": row.action} for row in rows]


async def test_a_quota_is_set_read_and_given_back_and_every_change_is_on_record(api: Api, root: Principal) -> None:
    await api.harness.user("ada")
    async with await api.client(root) as client:
        made = await put(client, "users/ada", {"gpus": 8, "gpu_hours_day": 100, "images": ["r.io/a/*", "r.io/a/*"]})
        assert (made.status_code, made.headers["etag"]) == (200, '"1"')
        assert made.json()["own"] == {"gpus": 8, "gpu_hours_day": 100.0, "images": ["r.io/a/*"]}
        read = (await client.get(f"{QUOTAS}/users/ada")).json()
        assert (read["limits"]["gpus"], read["limits"]["jobs"], read["sources"]["gpus"]) == (8, None, "own")
        assert (read["version"], read["updated_by"], read["use"]["gpus"]) == (1, "root", 0)
        listed = (await client.get(QUOTAS)).json()["items"]
        assert [(item["scope"], item["name"]) for item in listed] == [
            ("user", None),
            ("project", None),
            ("user", "ada"),
        ]
        back = await put(client, "users/ada", {}, None, **{"If-Match": '"1"'})
        assert (back.status_code, back.json()["version"], back.json()["sources"]) == (200, 2, {})
        assert len((await client.get(QUOTAS)).json()["items"]) == 2
    assert await audited(api, "user:ada") == [
        {
            "actor": "root",
            "action": "quota.set",
            "before": {"gpus": 8, "gpu_hours_day": 100.0, "images": ["r.io/a/*"]},
            "after": {},
            "version": 2,
        },
        {
            "actor": "root",
            "action": "quota.set",
            "before": {},
            "after": {"gpus": 8, "gpu_hours_day": 100.0, "images": ["r.io/a/*"]},
            "version": 1,
        },
    ]


async def test_own_value_then_the_defaults_then_none_and_null_is_no_limit(api: Api, root: Principal) -> None:
    for name in ("ada", "eve"):
        await api.harness.user(name)
    async with await api.client(root) as client:
        assert (await put(client, "defaults/user", {"gpus": 4, "jobs": 2, "profiles": ["h200"]})).status_code == 200
        assert (await put(client, "users/ada", {"gpus": 16, "jobs": None})).status_code == 200
        ada = (await client.get(f"{QUOTAS}/users/ada")).json()
        eve = (await client.get(f"{QUOTAS}/users/eve")).json()
    assert (ada["limits"]["gpus"], ada["limits"]["jobs"], ada["limits"]["profiles"]) == (16, None, ["h200"])
    assert ada["sources"] == {"gpus": "own", "jobs": "own", "profiles": "default"}
    assert (eve["limits"]["gpus"], eve["limits"]["jobs"], eve["sources"]["gpus"]) == (4, 2, "default")


async def test_two_administrators_edit_one_quota_and_the_later_is_told_who_was_first(api: Api, root: Principal) -> None:
    await api.harness.user("ada")
    other = await api.harness.user("olga", admin=True)
    async with await api.client(root) as first, await api.client(other) as second:
        answers = await asyncio.gather(put(first, "users/ada", {"gpus": 8}), put(second, "users/ada", {"gpus": 2}))
        won, lost = sorted(answers, key=lambda answer: answer.status_code)
        assert (won.status_code, lost.status_code) == (200, 409)
        problem = lost.json()
        assert problem["code"] == "conflict"
        assert problem["current"]["version"] == 1
        assert problem["current"]["limits"] == won.json()["own"]
        assert problem["current"]["updated_by"] == won.json()["updated_by"]
        assert won.json()["updated_by"] in problem["detail"]
        assert f"gpus {won.json()['own']['gpus']}" in problem["detail"]
        assert problem["hint"]
        again = await put(second, "users/ada", {"gpus": 3}, problem["current"]["version"])
        assert again.status_code == 200
        # Given back and set anew: the version that the first one saw fits no more.
        assert (await put(second, "users/ada", {}, 2)).status_code == 200
        assert (await put(first, "users/ada", {"gpus": 8}, 1)).status_code == 409
        assert (await put(first, "users/ada", {"gpus": 8}, 0)).status_code == 409
    assert len(await audited(api, "user:ada")) == 3


async def test_an_edit_says_which_version_it_is_of(api: Api, root: Principal) -> None:
    await api.harness.user("ada")
    async with await api.client(root) as client:
        silent = await put(client, "users/ada", {"gpus": 1}, None)
        assert (silent.status_code, silent.json()["code"]) == (428, "version-missing")
        for headers, version in (({"If-Match": '"1"'}, 0), ({"If-Match": "*"}, None), ({"If-Match": "x"}, None)):
            answer = await put(client, "users/ada", {"gpus": 1}, version, **headers)
            assert (answer.status_code, answer.json()["code"]) == (422, "request-invalid")
        for version in (-1, "0", 1.5, True):
            body = {"limits": {"gpus": 1}, "version": version}
            assert (await client.put(f"{QUOTAS}/users/ada", json=body)).status_code == 422
        assert (await client.get(f"{QUOTAS}/users/ada")).json()["version"] == 0


@pytest.mark.parametrize(
    ("limits", "code", "field"),
    [
        ('{"gpus": -1}', "quota-invalid", "limits.gpus"),
        ('{"gpus": 1000001}', "quota-invalid", "limits.gpus"),
        ('{"gpus": 1.5}', "quota-invalid", "limits.gpus"),
        ('{"gpus": true}', "quota-invalid", "limits.gpus"),
        ('{"gpus": "8"}', "quota-invalid", "limits.gpus"),
        ('{"gpus": 1e400}', "quota-invalid", "limits.gpus"),
        ('{"gpu_hours_day": NaN}', "quota-invalid", "limits.gpu_hours_day"),
        ('{"gpu_hours_day": Infinity}', "quota-invalid", "limits.gpu_hours_day"),
        ('{"gpu_hours_month": -0.5}', "quota-invalid", "limits.gpu_hours_month"),
        ('{"storage_gb": 1e12}', "quota-invalid", "limits.storage_gb"),
        ('{"max_seconds": 0}', "quota-invalid", "limits.max_seconds"),
        ('{"max_seconds": 999999999999}', "quota-invalid", "limits.max_seconds"),
        ('{"max_priority": 101}', "quota-invalid", "limits.max_priority"),
        ('{"max_priority": -101}', "quota-invalid", "limits.max_priority"),
        ('{"profiles": []}', "quota-invalid", "limits.profiles"),
        ('{"profiles": "h200"}', "quota-invalid", "limits.profiles"),
        ('{"profiles": ["h900"]}', "profile-unknown", "limits.profiles"),
        ('{"profiles": ["H200"]}', "profile-unknown", "limits.profiles"),
        ('{"images": ["two words"]}', "quota-invalid", "limits.images"),
        ('{"images": [7]}', "quota-invalid", "limits.images.0"),
        ('{"gpuz": 8}', "quota-invalid", "limits.gpuz"),
        ('{"gpu_hours_day": 100, "gpu_hours_month": 50}', "quota-contradictory", "limits.gpu_hours_day"),
        ("[]", "quota-invalid", "limits"),
        ("null", "quota-invalid", "limits"),
    ],
)
async def test_what_cannot_be_meant_is_refused_and_changes_nothing(
    site: Api, limits: str, code: str, field: str
) -> None:
    root = await site.harness.user("root", admin=True)
    await site.harness.user("ada")
    async with await site.client(root) as client:
        body = f'{{"version": 0, "limits": {limits}}}'
        answer = await client.put(
            f"{QUOTAS}/users/ada", content=body, headers={"Content-Type": "application/json"}
        )  # fmt: skip
        assert answer.status_code == 422, answer.text
        [refusal] = answer.json()["refusals"]
        assert (refusal["code"], refusal["field"]) == (code, field)
        assert refusal["message"]
        assert refusal["hint"]
        read = (await client.get(f"{QUOTAS}/users/ada")).json()
    assert (read["version"], read["own"]) == (0, {})
    assert await audited(site, "user:ada") == []


async def test_all_that_is_wrong_comes_back_together(site: Api) -> None:
    root = await site.harness.user("root", admin=True)
    await site.harness.user("ada")
    async with await site.client(root) as client:
        answer = await put(client, "users/ada", {"gpus": -1, "jobs": "many", "surprise": 1})
    assert [item["field"] for item in answer.json()["refusals"]] == ["limits.gpus", "limits.jobs", "limits.surprise"]


@pytest.mark.parametrize(
    "whose", ["users/nobody", "users/..%2Fup", "projects/ada/nothing", "projects/nobody/lab", "defaults/everyone"]
)
async def test_nobody_of_that_name_has_a_quota(site: Api, whose: str) -> None:
    root = await site.harness.user("root", admin=True)
    await site.harness.user("ada")
    async with await site.client(root) as client:
        for answer in (await client.get(f"{QUOTAS}/{whose}"), await put(client, whose, {"gpus": 1})):
            assert answer.status_code in (404, 422)
            assert answer.json()["code"] in ("not-found", "request-invalid")
        assert len((await client.get(QUOTAS)).json()["items"]) == 2


async def test_a_figure_that_contradicts_what_is_inherited_is_refused_from_either_side(
    api: Api, root: Principal
) -> None:
    await api.harness.user("ada")
    async with await api.client(root) as client:
        assert (await put(client, "defaults/user", {"gpu_hours_month": 500})).status_code == 200
        over = await put(client, "users/ada", {"gpu_hours_day": 501})
        assert (over.status_code, over.json()["code"]) == (422, "quota-contradictory")
        assert "501" in over.json()["detail"]
        assert "500" in over.json()["detail"]
        assert (await put(client, "users/ada", {"gpu_hours_day": 400})).status_code == 200
        under = await put(client, "defaults/user", {"gpu_hours_month": 300}, 1)
        assert (under.status_code, under.json()["code"]) == (422, "quota-contradictory")
        assert "ada" in under.json()["detail"]
        assert (await client.get(f"{QUOTAS}/defaults/user")).json()["limits"]["gpu_hours_month"] == 500


async def test_a_project_cannot_have_what_its_owner_has_not(api: Api, root: Principal, lab: str) -> None:
    async with await api.client(root) as client:
        assert (await put(client, "users/ada", {"gpus": 8})).status_code == 200
        more = await put(client, f"projects/{lab}", {"gpus": 9})
        assert (more.status_code, more.json()["code"]) == (422, "quota-contradictory")
        assert (await put(client, f"projects/{lab}", {"gpus": 8, "jobs": 5})).status_code == 200
        # The owner may be lowered at any time: the lower of both counts.
        assert (await put(client, "users/ada", {"gpus": 2}, 1)).status_code == 200
        assert (await put(client, "defaults/user", {"jobs": 10})).status_code == 200
        default = await put(client, "defaults/project", {"jobs": 11})
        assert (default.status_code, default.json()["code"]) == (422, "quota-contradictory")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", QUOTAS),
        ("GET", f"{QUOTAS}/users/ada"),
        ("PUT", f"{QUOTAS}/users/ada"),
        ("PUT", f"{QUOTAS}/defaults/user"),
        ("GET", "/api/v1/admin/policies"),
        ("PUT", "/api/v1/admin/policies/drain"),
        ("GET", "/api/v1/admin/users"),
        ("POST", "/api/v1/admin/users"),
        ("POST", "/api/v1/admin/users/ada/disable"),
        ("GET", "/api/v1/admin/approvals"),
    ],
)
async def test_only_an_administrator_with_the_admin_scope_comes_in(site: Api, method: str, path: str) -> None:
    ada, root = await site.harness.user("ada"), await site.harness.user("root", admin=True)
    for principal, scopes in ((ada, ("read", "write", "admin")), (root, ("read", "write"))):
        async with await site.client(principal, scopes) as client:
            answer = await client.request(method, path, json={})
        assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")
