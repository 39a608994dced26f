"""Pause, resume and retry by their buttons in a real Chromium; the queue page by keyboard; an edited quota."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.browser.conftest import Complaints
from tests.e2e.harness import USER, Client, wait_until
from tests.e2e.trainers import counting, submit_counting

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def client(start_client: Callable[..., Client]) -> Client:
    client = start_client(TUNEPLANE_SIMULATED_GPUS="h200:8")
    counting(client, "count")
    return client


@pytest.fixture
def control(tmp_path: Path) -> Iterator[Path]:
    control = tmp_path / "control"
    yield control
    (control / "go").touch()


@pytest.fixture
def signed_in(page: Page, client: Client) -> Page:
    page.goto(f"{client.console.url}/signin")
    page.get_by_label("Username").fill(USER)
    page.get_by_label("Password").fill(client.console.password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/jobs")
    return page


def test_a_job_is_paused_resumed_and_followed_by_buttons(signed_in: Page, client: Client, control: Path) -> None:
    run = submit_counting(client, "count", control, COUNT=4, SAVE=2, HOLD=3)
    wait_until("it holds at step 3", lambda: "step 3" in client.printed(run))
    signed_in.goto(f"{client.console.url}/jobs/{run}")
    signed_in.get_by_role("button", name="Pause", exact=True).click()
    signed_in.get_by_role("button", name="No, go back").click()
    assert client.show(run)["paused"] is False
    signed_in.get_by_role("button", name="Pause", exact=True).click()
    signed_in.get_by_role("button", name="Pause the job").click()
    expect(signed_in.locator("#job-head .pill.phase-queued").first).to_be_visible(timeout=60_000)
    expect(signed_in.locator("#waiting")).to_contain_text("goes on from the checkpoint of step 3")
    expect(signed_in.locator("#attempts rect.held")).to_be_attached()  # the picture of both attempts

    (control / "go").touch()
    signed_in.get_by_role("button", name="Resume", exact=True).click()
    expect(signed_in.locator("#job-head .title .pill.phase-succeeded")).to_be_visible(timeout=60_000)
    expect(signed_in.locator("#attempts tbody tr")).to_have_count(2)

    signed_in.get_by_role("link", name="Artifacts").click()
    signed_in.get_by_role("button", name="Resume from here").last.click()
    signed_in.get_by_role("button", name="Make the new run").click()
    signed_in.wait_for_url(lambda address: "/jobs/" in address and run not in address)
    new = re.search(r"/jobs/(\w+)", signed_in.url)
    assert new is not None
    assert client.show(new[1])["attempts"][0]["resumed"]["step"] == 2
    signed_in.get_by_role("link", name=run).first.click()
    expect(signed_in.locator("#job-head").get_by_role("link", name=new[1])).to_be_visible()


def test_the_queue_shows_who_holds_what_and_is_reached_by_keys(signed_in: Page, client: Client, control: Path) -> None:
    holder = submit_counting(client, "count", control, COUNT=2, HOLD=1, profile="h200:5")
    wait_until("it holds", lambda: "step 1" in client.printed(holder))
    waiting = submit_counting(client, "count", control, COUNT=1, profile="h200:8")
    signed_in.keyboard.type("gq")
    signed_in.wait_for_url("**/queue")
    expect(signed_in.locator(f"#line-{waiting}")).to_contain_text("needs 8 h200 on one node", ignore_case=True)
    expect(signed_in.locator(".cards .held")).to_have_count(5)
    light = signed_in.locator(".cards .held rect").first.evaluate("node => getComputedStyle(node).fill")
    signed_in.keyboard.press("t")
    signed_in.keyboard.press("t")
    dark = signed_in.locator(".cards .held rect").first.evaluate("node => getComputedStyle(node).fill")
    assert light != dark  # drawn in the colours of the page
    client.tp("job", "pause", waiting)
    expect(signed_in.locator(f"#line-{waiting}")).to_contain_text("until somebody resumes it", timeout=60_000)
    signed_in.keyboard.press("j")
    signed_in.keyboard.press("Enter")
    signed_in.wait_for_url(f"**/jobs/{waiting}")
    signed_in.get_by_role("button", name="Resume", exact=True).click()
    wait_until("it waits for its turn again", lambda: not client.show(waiting)["paused"])


def test_of_two_who_edit_a_quota_the_later_keeps_what_was_typed(
    signed_in: Page, client: Client, complaints: Complaints
) -> None:
    complaints.expected.append("409")  # the browser tells of the answer that refuses
    address = f"{client.console.url}/admin/quotas/edit?scope=user&name={USER}"
    other = complaints.listen(signed_in.context.new_page())
    for page in (signed_in, other):
        page.goto(address)
    signed_in.get_by_label("GPUs at once").fill("4")
    signed_in.get_by_role("button", name="Save").click()
    signed_in.wait_for_url("**/admin/quotas")
    expect(signed_in.get_by_role("row", name=USER)).to_contain_text("GPUs at once: 4")
    other.get_by_label("GPUs at once").fill("16")
    other.get_by_role("button", name="Save").click()
    expect(other.get_by_role("alert").first).to_contain_text("was changed meanwhile by")
    expect(other.get_by_label("GPUs at once")).to_have_value("16")
    other.get_by_role("button", name="Save").click()
    other.wait_for_url("**/admin/quotas")
    expect(other.get_by_role("row", name=USER)).to_contain_text("GPUs at once: 16")
