"""Sign-in, set-up, device codes and tokens, as a browser meets them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.tuneplane_server.console.conftest import read
from tuneplane_server.console.pages.reader import local_path

NAME, PASSWORD = "ada", "correct horse battery"

if TYPE_CHECKING:
    from tests.tuneplane_server.console.conftest import Browser
    from tuneplane_server.services import Services


@pytest.fixture
async def account(services: Services) -> str:
    """The name of a user with a password."""
    return (await services.accounts.add_user(NAME, PASSWORD, admin=True, actor="test")).username


@pytest.mark.usefixtures("account")
async def test_a_page_leads_to_the_sign_in_and_back(visitor: Browser) -> None:
    answer = await visitor.get("/settings/tokens?x=1")
    assert (answer.status_code, answer.headers["location"]) == (303, "/signin?next=%2Fsettings%2Ftokens%3Fx%3D1")
    page = await visitor.get(answer.headers["location"])
    assert {"name": "next", "type": "hidden", "value": "/settings/tokens?x=1"}.items() <= next(
        values for tag, values in read(page.text).tags if tag == "input" and values.get("name") == "next"
    ).items()
    back = await visitor.post("/signin", csrf=False, username=NAME, password=PASSWORD, next="/settings/tokens?x=1")
    assert (back.status_code, back.headers["location"]) == (303, "/settings/tokens?x=1")


@pytest.mark.parametrize(
    "wanted",
    ["https://evil.test/", "//evil.test", "/\\evil.test", "javascript:alert(1)", "jobs", "", "/a\nb", "/a\\b"],
)
def test_signing_in_never_leads_to_another_site(wanted: str) -> None:
    assert local_path(wanted) == "/jobs"


async def test_a_part_of_a_page_sends_the_whole_page_to_the_sign_in(visitor: Browser) -> None:
    headers = {"HX-Request": "true", "HX-Current-URL": "http://console.test/jobs/0mh0/logs?grep=x"}
    answer = await visitor.get("/notices", **headers)
    back = "/signin?next=%2Fjobs%2F0mh0%2Flogs%3Fgrep%3Dx"
    assert (answer.status_code, answer.headers["hx-redirect"]) == (204, back)


@pytest.mark.usefixtures("account")
async def test_a_refused_sign_in_does_not_tell_which_part_was_wrong(visitor: Browser) -> None:
    wrong_password = await visitor.sign_in(NAME, "not the password")
    wrong_name = await visitor.sign_in("nobody", PASSWORD)
    assert wrong_password.status_code == wrong_name.status_code == 401
    neutral = wrong_password.text.replace(NAME, "_"), wrong_name.text.replace("nobody", "_")
    assert neutral[0] == neutral[1]


async def test_too_many_tries_say_when_to_try_again(visitor: Browser) -> None:
    answers = [await visitor.sign_in("guessed", f"guess {n}") for n in range(11)]
    assert answers[-1].status_code == 429
    assert int(answers[-1].headers["retry-after"]) > 0
    assert "try again in" in answers[-1].text


@pytest.mark.usefixtures("account")
async def test_a_sign_in_from_another_site_is_refused(visitor: Browser) -> None:
    answer = await visitor.post("/signin", site="cross-site", username=NAME, password=PASSWORD)
    assert answer.status_code == 403


async def test_the_set_up_link_loses_its_token_at_once_and_makes_the_first_account(
    visitor: Browser, services: Services
) -> None:
    token = await services.accounts.issue_setup_token()
    followed = await visitor.get(f"/setup?token={token}")
    assert (followed.status_code, followed.headers["location"]) == (303, "/setup")
    assert followed.headers["cache-control"] == "no-store"
    cookie = followed.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "Path=/setup" in cookie
    page = await visitor.get("/setup")
    assert str(token) not in page.text

    weak = await visitor.post("/setup", csrf=False, username=NAME, password="short", again="short")
    assert weak.status_code == 422
    differ = await visitor.post("/setup", csrf=False, username=NAME, password=PASSWORD, again=PASSWORD + "!")
    assert differ.status_code == 422

    done = await visitor.post("/setup", csrf=False, username=NAME, password=PASSWORD, again=PASSWORD)
    assert (done.status_code, done.headers["location"]) == (303, "/jobs")
    assert (await visitor.get("/settings/tokens")).status_code == 200
    again = await visitor.get("/setup")
    assert "This console is set up" in again.text


async def test_without_a_token_the_set_up_page_says_where_to_get_one(visitor: Browser) -> None:
    for path in ("/setup", "/signin"):
        assert "tuneplane-server setup-link" in (await visitor.get(path)).text
    forged = await visitor.get("/setup?token=forged")
    assert forged.status_code == 303
    refused = await visitor.post("/setup", csrf=False, username=NAME, password=PASSWORD, again=PASSWORD)
    assert refused.status_code == 401
    assert "setup-link" in refused.text


async def test_a_device_code_is_shown_with_what_asks_and_decided_once(browser: Browser, services: Services) -> None:
    start = await services.accounts.start_device("tp on <b>laptop</b>", "127.0.0.1")
    typed = start.user_code.lower().replace("-", " ")
    page = await browser.get(f"/device?code={typed}")
    assert page.status_code == 200
    assert start.user_code in page.text
    assert "tp on &lt;b&gt;laptop&lt;/b&gt;" in page.text

    assert (await browser.post("/device", csrf=False, code=start.user_code, answer="approve")).status_code == 403
    approved = await browser.post("/device", code=start.user_code, answer="approve")
    assert "now acts as you" in approved.text
    issued = await services.accounts.collect_device(start.device_code, "127.0.0.1")
    assert issued.username == NAME
    assert (await browser.post("/device", code=start.user_code, answer="refuse")).status_code == 404


async def test_a_device_code_can_be_refused(browser: Browser, services: Services) -> None:
    start = await services.accounts.start_device("unknown client", "127.0.0.1")
    refused = await browser.post("/device", code=start.user_code, answer="refuse")
    assert "got no access" in refused.text


async def test_an_unknown_device_code_is_asked_again(browser: Browser) -> None:
    page = await browser.get("/device?code=BBBB-BBBB")
    assert page.status_code == 404
    assert 'name="code"' in page.text


async def test_a_token_is_shown_once_works_and_can_be_revoked(browser: Browser, services: Services) -> None:
    made = await browser.post("/settings/tokens", name="night <script>", scopes=["read"], expires="30")
    assert made.status_code == 200
    assert made.headers["cache-control"] == "no-store"
    secret = next(text for text in read(made.text).attributes("data-copy") if text.startswith("tp_"))
    principal = await services.accounts.principal_of_token(secret)
    assert principal is not None
    assert principal.scopes == {"read"}
    assert "night &lt;script&gt;" in made.text

    later = await browser.get("/settings/tokens")
    assert secret not in later.text
    (revoke,) = [address for address in read(later.text).addresses if address.endswith("/revoke")]
    assert (await browser.post(revoke, csrf=False)).status_code == 403
    assert (await browser.post(revoke)).status_code == 303
    assert await services.accounts.principal_of_token(secret) is None


@pytest.mark.parametrize("fields", [{"name": " "}, {"name": "x\u202e"}, {"name": "x", "scopes": ["root"]}])
async def test_a_token_that_cannot_be_made_says_why(browser: Browser, fields: dict[str, Any]) -> None:
    form = {"scopes": ["read"], "expires": "30", "csrf_token": browser.csrf} | fields
    answer = await browser.send("/settings/tokens", form)
    assert answer.status_code == 422
    assert 'role="alert"' in answer.text


async def test_signing_out_ends_the_session(browser: Browser) -> None:
    assert (await browser.post("/signout", csrf=False)).status_code == 403
    assert (await browser.post("/signout")).status_code == 303
    assert (await browser.get("/settings/tokens")).status_code == 303
