"""Set-up, sign-in with a device code, tokens and their scopes; what each route lets whom do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from tests.tuneplane_server.harness import PASSWORD, Api
from tuneplane_server.app import create_app
from tuneplane_server.features.accounts.sessions import COOKIE
from tuneplane_server.features.accounts.tables import UserRow
from tuneplane_server.settings import load_settings
from tuneplane_server.web.problems import ProblemError

# Every other route of the API needs a sign-in. The pages' own routes are tested with the pages.
OPEN = {
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
    ("GET", "/api/v1/server"),
    ("POST", "/api/v1/setup"),
    ("POST", "/api/v1/auth/device"),
    ("POST", "/api/v1/auth/device/token"),
}


def routes() -> Iterator[tuple[str, str]]:
    for path, methods in create_app(load_settings({})).openapi()["paths"].items():
        yield from ((method.upper(), path) for method in methods)


async def test_every_route_but_the_listed_ones_needs_a_sign_in(site: Api) -> None:
    """In one test: what there is takes seconds to find out, which each worker would spend on naming the tests."""
    there = set(routes())
    assert there >= OPEN
    open_to_all = []
    async with site.anonymous() as client:
        for method, path in sorted(there - OPEN):
            address = path.replace("{digest}", "0" * 64)
            nobody = await client.request(method, address, content=b"{}")
            wrong = await client.request(method, address, content=b"{}", headers={"Authorization": "Bearer tp_wrong"})
            if (nobody.status_code, wrong.status_code) != (401, 401) or not nobody.headers.get("www-authenticate"):
                open_to_all.append((method, path, nobody.status_code, wrong.status_code))
    assert len(there) > 60
    assert open_to_all == []


# --- set-up -----------------------------------------------------------------------------------------------------------


async def test_the_first_administrator_comes_with_a_link_that_works_once(api: Api) -> None:
    accounts = api.harness.services.accounts
    old, token = await accounts.issue_setup_token(), await accounts.issue_setup_token()
    body = {"username": "ada", "password": PASSWORD}
    async with api.anonymous() as client:
        assert (await client.get("/api/v1/server")).json()["setup_needed"] is True
        for wrong in ("guess", old):
            assert (await client.post("/api/v1/setup", json={"token": wrong, **body})).status_code == 401
        assert (await client.post("/api/v1/setup", json={"token": token, **body})).json() == {"username": "ada"}
        again = await client.post("/api/v1/setup", json={"token": token, "username": "eve", "password": PASSWORD})
        assert again.status_code in (401, 409)
        assert (await client.get("/api/v1/server")).json()["setup_needed"] is False
    assert await accounts.issue_setup_token() is None
    assert (await accounts.user("ada")).admin


async def test_two_people_with_the_link_make_one_administrator(api: Api) -> None:
    token = await api.harness.services.accounts.issue_setup_token()
    async with api.anonymous() as client:
        answers = await asyncio.gather(
            *(
                client.post("/api/v1/setup", json={"token": token, "username": name, "password": PASSWORD})
                for name in ("ada", "eve")
            )
        )
    assert sorted(answer.status_code for answer in answers)[0] == 201
    assert len(await api.harness.services.accounts.users()) == 1


@pytest.mark.parametrize(
    ("username", "password", "code"),
    [
        ("ada", "short", "password-weak"),
        ("ada", "aaaaaaaaaaaaaaa", "password-weak"),
        ("adalovelace", "adalovelace1", "password-weak"),
        ("ada", "x" * 2000 + "abcdef", "password-weak"),
        ("../etc", PASSWORD, "name-invalid"),
        ("阿达", PASSWORD, "name-invalid"),
        ("a" * 64, PASSWORD, "name-invalid"),
        ("", PASSWORD, "name-invalid"),
        ("a\0b", PASSWORD, "request-invalid"),
    ],
)
async def test_a_bad_name_or_password_is_refused_and_the_link_still_works(
    site: Api, username: str, password: str, code: str
) -> None:
    accounts = site.harness.services.accounts
    token = await accounts.issue_setup_token()
    async with site.anonymous() as client:
        refused = await client.post("/api/v1/setup", json={"token": token, "username": username, "password": password})
        assert (refused.status_code, refused.json()["code"]) == (422, code)
        good = await client.post("/api/v1/setup", json={"token": token, "username": "ada", "password": PASSWORD})
    assert good.status_code == 201


async def test_names_that_differ_only_in_case_are_one(api: Api) -> None:
    await api.harness.user("Ada")
    with pytest.raises(ProblemError, match="taken"):
        await api.harness.user("ada")


# --- tokens -----------------------------------------------------------------------------------------------------------


async def test_a_token_is_shown_once_kept_as_a_digest_and_revoked(api: Api) -> None:
    ada = await api.harness.user("ada")
    async with await api.client(ada) as client:
        made = (await client.post("/api/v1/tokens", json={"name": "laptop"})).json()
        assert made["token"].startswith("tp_")
        listed = (await client.get("/api/v1/tokens")).json()["items"]
        assert "laptop" in [item["name"] for item in listed]
        assert made["token"] not in str(listed)
        async with api.anonymous(Authorization=f"Bearer {made['token']}") as laptop:
            me = (await laptop.get("/api/v1/me")).json()
            assert (me["username"], me["token"]["scopes"]) == ("ada", ["read", "write"])
            assert (await client.delete(f"/api/v1/tokens/{made['id']}")).status_code == 204
            assert (await laptop.get("/api/v1/me")).json()["code"] == "token-invalid"
        assert (await client.delete(f"/api/v1/tokens/{made['id']}")).status_code == 404


async def test_logging_out_revokes_the_token_of_the_request(api: Api) -> None:
    async with await api.client(await api.harness.user("ada")) as client:
        assert (await client.delete("/api/v1/me/token")).status_code == 204
        assert (await client.get("/api/v1/me")).status_code == 401


async def test_an_expired_token_is_worth_nothing(api: Api) -> None:
    async with await api.client(await api.harness.user("ada")) as client:
        assert (await client.get("/api/v1/me")).status_code == 200
        api.harness.time.pass_(24 * 3600 + 1)
        assert (await client.get("/api/v1/me")).status_code == 401


async def test_nobody_sees_or_revokes_the_tokens_of_another(api: Api) -> None:
    ada, bob = await api.harness.user("ada"), await api.harness.user("bob")
    async with await api.client(ada) as hers, await api.client(bob) as his:
        made = (await hers.post("/api/v1/tokens", json={"name": "laptop"})).json()
        assert [item["name"] for item in (await his.get("/api/v1/tokens")).json()["items"]] == ["test"]
        assert (await his.delete(f"/api/v1/tokens/{made['id']}")).status_code == 404


async def test_a_token_does_only_what_its_scopes_say(site: Api) -> None:
    ada = await site.harness.user("ada")
    async with await site.client(ada, ("read",)) as client:
        assert (await client.get("/api/v1/jobs")).status_code == 200
        for method, path in (
            ("POST", "/api/v1/jobs"),
            ("POST", "/api/v1/tokens"),
            ("PUT", "/api/v1/packages/" + "0" * 64),
        ):
            answer = await client.request(method, path, json={"name": "x"})
            assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


async def test_a_token_cannot_make_a_stronger_one(site: Api) -> None:
    ada, root = await site.harness.user("ada"), await site.harness.user("root", admin=True)
    body = {"name": "x", "scopes": ["read", "write", "admin"]}
    async with await site.client(root, ("read", "write")) as client:
        assert (await client.post("/api/v1/tokens", json=body)).status_code == 403
    async with await site.client(ada) as client:
        assert (await client.post("/api/v1/tokens", json=body)).status_code == 403
    async with await site.client(root) as client:
        assert (await client.post("/api/v1/tokens", json=body)).status_code == 201


async def test_the_record_is_for_administrators_whose_token_says_so(site: Api) -> None:
    ada, root = await site.harness.user("ada"), await site.harness.user("root", admin=True)
    async with await site.client(ada) as client:
        assert (await client.get("/api/v1/audit")).status_code == 403
    async with await site.client(root, ("read", "write")) as client:
        assert (await client.get("/api/v1/audit")).status_code == 403
    async with await site.client(root) as client:
        first = (await client.get("/api/v1/audit?limit=2")).json()
        rest = (await client.get(f"/api/v1/audit?cursor={first['next_cursor']}")).json()
    actions = [item["action"] for item in first["items"] + rest["items"]]
    assert actions.count("account.add") == 2
    assert len(first["items"]) == 2


async def test_a_disabled_user_is_out_at_once(api: Api) -> None:
    ada = await api.harness.user("ada")
    async with await api.client(ada) as client:
        async with api.harness.services.database.begin() as session:
            row = await session.get(UserRow, ada.user_id)
            assert row is not None
            row.disabled_at = api.harness.time.now
        assert (await client.get("/api/v1/me")).status_code == 401


# --- device codes -----------------------------------------------------------------------------------------------------


async def test_a_device_code_gives_one_token_after_a_person_said_yes(api: Api) -> None:
    ada = await api.harness.user("ada")
    accounts = api.harness.services.accounts
    async with api.anonymous() as client:
        start = (await client.post("/api/v1/auth/device", json={"client": "tp on laptop"})).json()
        assert start["verification_uri_complete"].endswith(start["user_code"])
        poll = {"device_code": start["device_code"]}
        waiting = await client.post("/api/v1/auth/device/token", json=poll)
        assert (waiting.status_code, waiting.json()["code"]) == (400, "not-yet")
        typed = start["user_code"].lower().replace("-", " ")
        assert (await accounts.pending_device(ada, typed)).client == "tp on laptop"
        await accounts.decide_device(ada, typed, approved=True)
        got = (await client.post("/api/v1/auth/device/token", json=poll)).json()
        assert got["username"] == "ada"
        again = await client.post("/api/v1/auth/device/token", json=poll)
        assert (again.status_code, again.json()["code"]) == (400, "token-invalid")
    async with api.anonymous(Authorization=f"Bearer {got['token']}") as client:
        assert (await client.get("/api/v1/me")).json()["token"]["scopes"] == ["read", "write"]


async def test_a_refused_an_expired_and_an_unknown_code_give_nothing(api: Api) -> None:
    ada = await api.harness.user("ada")
    accounts = api.harness.services.accounts
    refused = await accounts.start_device("tp", "")
    await accounts.decide_device(ada, refused.user_code, approved=False)
    expired = await accounts.start_device("tp", "")
    api.harness.time.pass_(601)
    async with api.anonymous() as client:
        for code in (refused.device_code, expired.device_code, "unknown"):
            answer = await client.post("/api/v1/auth/device/token", json={"device_code": code})
            assert (answer.status_code, answer.json()["code"]) == (400, "token-invalid")
    with pytest.raises(ProblemError, match="no client"):
        await accounts.pending_device(ada, expired.user_code)


async def test_guessing_codes_is_slowed_down(site: Api) -> None:
    ada = await site.harness.user("ada")
    accounts = site.harness.services.accounts
    for _guess in range(20):
        with pytest.raises(ProblemError, match="no client"):
            await accounts.pending_device(ada, "BCDF-GHJK")
    with pytest.raises(ProblemError, match="too many"):
        await accounts.pending_device(ada, "BCDF-GHJK")


# --- browser sessions -------------------------------------------------------------------------------------------------


async def test_a_password_signs_in_and_the_refusal_does_not_say_what_was_wrong(site: Api) -> None:
    accounts = site.harness.services.accounts
    await accounts.add_user("ada", PASSWORD, admin=False, actor="test")
    user, cookie = await accounts.sign_in("ADA", PASSWORD, "")
    assert user.username == "ada"
    principal = await accounts.principal_of_session(cookie)
    assert principal is not None
    messages = set()
    for name, password in (("ada", "wrong"), ("nobody", PASSWORD), ("../x", PASSWORD)):
        with pytest.raises(ProblemError, match=r"\w") as caught:
            await accounts.sign_in(name, password, "")
        messages.add(caught.value.detail)
    assert len(messages) == 1


async def test_guessing_passwords_is_slowed_down(site: Api) -> None:
    limits = site.harness.services.accounts.limits
    for _try in range(10):
        await limits.check("sign-in-name", "ada")
    with pytest.raises(ProblemError, match="too many") as caught:
        await limits.check("sign-in-name", "ada")
    assert caught.value.headers
    assert caught.value.headers["Retry-After"]
    await limits.check("sign-in-name", "bob")


async def test_a_session_ends_with_its_time_its_epoch_or_a_changed_byte(api: Api) -> None:
    ada = await api.harness.user("ada")
    accounts = api.harness.services.accounts
    cookie = accounts.signer.issue(ada.user_id, 0, api.harness.time.now)
    assert await accounts.principal_of_session(cookie) is not None
    for bad in (cookie[:-2] + "xx", cookie.split(".")[0] + "..", "", "a.b.c", "é"):
        assert await accounts.principal_of_session(bad) is None
    await accounts.sign_out_everywhere(ada.user_id)
    assert await accounts.principal_of_session(cookie) is None
    fresh = accounts.signer.issue(ada.user_id, 1, api.harness.time.now)
    api.harness.time.pass_(15 * 24 * 3600)
    assert await accounts.principal_of_session(fresh) is None


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"X-CSRF-Token": "wrong"}, 403),
        ({"X-CSRF-Token": "right", "Sec-Fetch-Site": "cross-site"}, 403),
        ({"X-CSRF-Token": "right", "Sec-Fetch-Site": "same-site"}, 403),
        ({"X-CSRF-Token": "right", "Origin": "http://evil.test"}, 403),
        ({"X-CSRF-Token": "right", "Sec-Fetch-Site": "same-origin"}, 201),
        ({"X-CSRF-Token": "right", "Origin": "http://console.test"}, 201),
    ],
)
async def test_a_change_with_a_cookie_must_come_from_our_own_pages(
    site: Api, headers: dict[str, str], status: int
) -> None:
    ada = await site.harness.user("ada")
    signer = site.harness.services.accounts.signer
    cookie = signer.issue(ada.user_id, 0, site.harness.time.now)
    session = signer.read(cookie, site.harness.time.now)
    assert session is not None
    sent = {name: value.replace("right", signer.csrf_token(session.id)) for name, value in headers.items()}
    async with site.anonymous(Cookie=f"{COOKIE}={cookie}", **sent) as client:
        assert (await client.post("/api/v1/tokens", json={"name": "x"})).status_code == status
        assert (await client.get("/api/v1/me")).status_code == 200


async def test_the_signing_key_is_made_once_and_only_its_owner_reads_it(site: Api) -> None:
    services = site.harness.services
    assert services.accounts
    file = services.settings.state_dir / "session.key"
    assert file.stat().st_mode & 0o777 == 0o600
    key = file.read_text()
    await site.harness.restart()
    assert site.harness.services.accounts
    assert file.read_text() == key
