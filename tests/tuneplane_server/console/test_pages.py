"""What holds for every page: the policy, both languages, links that lead somewhere, errors as pages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from tests.tuneplane_server.console.conftest import browsing, read
from tuneplane_server.app import create_app
from tuneplane_server.features.accounts.principal import Principal

if TYPE_CHECKING:
    from tests.tuneplane_server.console.conftest import Browser
    from tests.tuneplane_server.harness import Harness

POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "img-src": "'self' data:",
    "connect-src": "'self'",
    "font-src": "'self'",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
    "base-uri": "'none'",
}
OPEN = ("/signin", "/setup")
PAGES = ("/jobs", "/jobs/{job}", "/jobs/{job}/logs", "/jobs/{job}/samples", "/jobs/{job}/artifacts", "/jobs/{job}/events",
         "/jobs/{job}/environment", "/queue", "/admin/quotas",
         "/admin/quotas/edit", "/admin/quotas/edit?scope=user&name=ada", "/admin/approvals", "/settings/tokens", "/device", "/device?code=BBBB-BBBB", "/nothing", "/jobs/nothing")  # fmt: skip


@pytest.fixture
async def job(site: Harness, browser: Browser) -> str:
    """A running job of the reader's."""
    (user,) = await site.services.accounts.users()
    ada = await site.services.accounts.principal_of_session(str(browser.client.cookies["tuneplane_session"]))
    assert ada is not None
    assert ada.user_id == user.id
    await site.bring_package(ada)
    return await site.running_job(ada)


@pytest.mark.parametrize("language", ["en", "zh-Hans"])
async def test_every_page_obeys_the_policy_in_both_languages(browser: Browser, job: str, language: str) -> None:
    answers = {path: await browser.get(path.format(job=job), language=language) for path in PAGES}
    browser.client.cookies.clear()
    answers |= {path: await browser.get(path, language=language) for path in OPEN}
    for path, answer in answers.items():
        directives = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
        assert POLICY.items() <= directives.items(), path
        assert answer.headers["x-content-type-options"] == "nosniff", path
        assert answer.headers["content-language"] == language, path
        page = read(answer.text)
        assert page.inline == [], path
        assert f'<html lang="{language}"' in answer.text, path
        assert ("跳到正文" in page.text) is (language == "zh-Hans"), path
        ids = page.attributes("id")
        assert len(ids) == len(set(ids)), path


async def test_every_address_on_a_page_leads_somewhere(browser: Browser, job: str) -> None:
    links: set[str] = set()
    forms: set[str] = set()
    for path in PAGES:
        page = read((await browser.get(path.format(job=job))).text)
        posts = {str(values["action"]) for tag, values in page.tags if tag == "form" and values.get("method") == "post"}
        forms |= posts
        links |= {address for address in page.addresses - posts if not address.startswith("#")}
    links.discard("https://curves.example.org/run")  # where the job's owner said that its curves are
    for address in sorted(links):
        assert address.startswith("/"), address
        answer = await browser.get(address)
        assert answer.status_code == (404 if "nothing" in address else 200 if address != "/" else 303), address
    assert {"/signout", "/settings/tokens", f"/jobs/{job}/cancel"} <= forms
    for address in sorted(forms):
        assert (await browser.post(address, csrf=False)).status_code == 403, address


async def test_every_field_has_a_label_and_every_button_a_name(browser: Browser, job: str) -> None:
    for path in (*OPEN, *PAGES):
        text = (await browser.get(path.format(job=job))).text
        labelled = set(read(text).attributes("for"))
        outside = re.sub(r"<label\b.*?</label>", "", text, flags=re.DOTALL)
        for tag, values in read(outside).tags:
            if tag in ("input", "select") and values.get("type") != "hidden":
                assert values.get("id") in labelled or values.get("aria-label"), (path, values)
        for button in re.findall(
            r"<button\b.*?</button>", re.sub(r"<template\b.*?</template>", "", text, flags=re.DOTALL), re.DOTALL
        ):
            words = re.sub(r"<[^>]*>", "", re.sub(r"<svg.*?</svg>", "", button, flags=re.DOTALL)).strip()
            assert words or "aria-label=" in button or 'id="confirm-yes"' in button, (path, button[:200])


async def test_the_language_cookie_wins_over_the_browsers(browser: Browser) -> None:
    browser.client.cookies.set("tuneplane_language", "zh-Hans")
    assert "作业" in (await browser.get("/jobs", language="en")).text


@pytest.mark.parametrize(
    ("cookie", "media"),
    [
        ("dark", "all"),
        ("light", "not all"),
        ("auto", "(prefers-color-scheme: dark)"),
        ("<x>", "(prefers-color-scheme: dark)"),
    ],
)
async def test_the_chosen_colours_are_there_from_the_first_paint(browser: Browser, cookie: str, media: str) -> None:
    browser.client.cookies.set("tuneplane_theme", cookie)
    page = read((await browser.get("/jobs")).text)
    (sheet,) = [values for tag, values in page.tags if values.get("id") == "dark-sheet"]
    assert sheet["media"] == media


async def test_the_first_address_is_the_jobs(browser: Browser) -> None:
    answer = await browser.get("/")
    assert (answer.status_code, answer.headers["location"]) == (303, "/jobs")


async def test_an_unknown_address_is_a_page_for_people_and_a_problem_for_programs(browser: Browser) -> None:
    page = await browser.get("/nothing")
    assert page.status_code == 404
    assert "There is nothing here" in page.text
    problem = await browser.client.get("/nothing", headers={"Accept": "application/json"})
    assert problem.status_code == 404
    assert problem.headers["content-type"] == "application/problem+json"
    api = await browser.get("/api/v1/nothing")
    assert api.headers["content-type"] == "application/problem+json"


async def test_a_failure_of_ours_is_a_page_without_its_details(site: Harness, browser: Browser) -> None:
    app = create_app(site.services.settings, site.services.clock, executor=site.executor, roles=False)
    app.state.services = site.services

    async def broken() -> None:
        raise RuntimeError("secret detail")

    app.add_api_route("/broken", broken)
    async with browsing(app) as reader:
        answer = await reader.get("/broken")
    assert answer.status_code == 500
    assert "The console failed" in answer.text
    assert "secret detail" not in answer.text
    assert read(answer.text).inline == []


async def test_the_banner_says_when_background_work_is_off(site: Harness, browser: Browser) -> None:
    off = (await browser.get("/jobs")).text
    assert "The background roles of this console are off" in off
    for loop in site.roles.loops:
        await loop._supervised_tick()
    assert "background" not in read((await browser.get("/jobs")).text).text.lower()
    site.time.pass_(24 * 3600)
    part = await browser.get("/notices", **{"HX-Request": "true"})
    assert "Background work of this console has stopped" in part.text
    assert "launcher" in part.text


async def test_the_banner_says_that_maintenance_is_on(site: Harness, browser: Browser) -> None:
    admin = Principal("", "ada", admin=True, scopes=frozenset())
    await site.services.governance.set_policy(admin, "drain", {"on": True, "text": "New <disks>."}, 0)
    for path in ("/jobs", "/notices"):
        answer = await browser.get(path)
        assert "turned on by ada" in answer.text
        assert "New &lt;disks&gt;." in answer.text
    await site.services.governance.set_policy(admin, "drain", {"on": False}, 1)
    assert "turned on by" not in (await browser.get("/jobs")).text
