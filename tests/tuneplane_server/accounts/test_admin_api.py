"""Users by an administrator: listed, added, kept out and let in again."""

from __future__ import annotations

import pytest

from tests.tuneplane_server.harness import PASSWORD, Api

USERS = "/api/v1/admin/users"


async def test_users_are_added_and_listed(api: Api) -> None:
    root = await api.harness.user("root", admin=True)
    async with await api.client(root) as client:
        made = await client.post(USERS, json={"username": "ada", "password": PASSWORD})
        assert (made.status_code, made.json()["username"], made.json()["admin"]) == (201, "ada", False)
        assert PASSWORD not in made.text
        taken = await client.post(USERS, json={"username": "ADA", "password": PASSWORD})
        assert (taken.status_code, taken.json()["code"]) == (409, "conflict")
        listed = (await client.get(USERS)).json()["items"]
    assert [(item["username"], item["admin"], item["disabled_at"]) for item in listed] == [
        ("ada", False, None), ("root", True, None),
    ]  # fmt: skip
    user, _cookie = await api.harness.services.accounts.sign_in("ada", PASSWORD, "")
    assert user.username == "ada"


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"username": "../etc", "password": PASSWORD}, "name-invalid"),
        ({"username": "ada", "password": "short"}, "password-weak"),
        ({"username": "ada", "admin": "yes"}, "request-invalid"),
        ({"username": "ada", "surprise": 1}, "request-invalid"),
        ({}, "request-invalid"),
    ],
)
async def test_a_bad_user_is_refused(site: Api, body: dict[str, object], code: str) -> None:
    root = await site.harness.user("root", admin=True)
    async with await site.client(root) as client:
        answer = await client.post(USERS, json=body)
        assert (answer.status_code, answer.json()["code"]) == (422, code)
        assert len((await client.get(USERS)).json()["items"]) == 1


async def test_a_disabled_user_is_out_at_once_and_what_runs_goes_on(api: Api) -> None:
    root, ada = await api.harness.user("root", admin=True), await api.harness.user("ada")
    await api.harness.bring_package(ada)
    job = await api.harness.running_job(ada)
    async with await api.client(root) as admin, await api.client(ada) as user:
        assert (await user.get("/api/v1/me")).status_code == 200
        for _twice in range(2):
            assert (await admin.post(f"{USERS}/ada/disable")).json()["disabled_at"] is not None
        assert (await user.get("/api/v1/me")).status_code == 401
        await api.harness.round(2)
        assert (await api.harness.job(job)).phase == "running"
        assert (await admin.post(f"{USERS}/ada/enable")).json()["disabled_at"] is None
        assert (await user.get("/api/v1/me")).status_code == 200
        unknown = await admin.post(f"{USERS}/nobody/disable")
        assert (unknown.status_code, unknown.json()["code"]) == (404, "not-found")
    actions = [row.action for row in await api.harness.services.audit.newest(target="ada")]
    assert actions[:2] == ["account.enable", "account.disable"]
    assert actions.count("account.disable") == 1


async def test_nobody_locks_everybody_out(api: Api) -> None:
    root, olga = await api.harness.user("root", admin=True), await api.harness.user("olga", admin=True)
    async with await api.client(root) as client, await api.client(olga) as other:
        own = await client.post(f"{USERS}/root/disable")
        assert (own.status_code, own.json()["code"]) == (422, "user-needed")
        assert (await client.post(f"{USERS}/olga/disable")).status_code == 200
        assert (await other.post(f"{USERS}/root/disable")).status_code == 401
        assert (await client.get("/api/v1/me")).status_code == 200
