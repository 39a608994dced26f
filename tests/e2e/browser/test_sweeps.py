"""The page of a sweep in a real Chromium: its lines, choosing trials on an axis, and the way to their curves."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.harness import USER, Client, wait_until
from tests.e2e.test_sweeps import OPTIONS, lab_with_trial, show

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def client(start_client: Callable[..., Client]) -> Client:
    return start_client()


def test_trials_are_lines_that_are_chosen_on_an_axis_and_compared(page: Page, client: Client) -> None:
    lab_with_trial(client, "swept")
    sweep = client.tp("sweep", "swept", "--grid", "env.LR=2,3,4", "--env", "GO=/", *OPTIONS).json["id"]
    wait_until("the sweep is over", lambda: show(client, sweep)["state"] == "done")
    page.goto(f"{client.console.url}/signin")
    page.get_by_label("Username").fill(USER)
    page.get_by_label("Password").fill(client.console.password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/jobs")

    page.get_by_role("link", name="Sweeps").click()
    page.get_by_role("link", name="swept").click()
    lines = page.locator(".parallel polyline")
    expect(lines).to_have_count(3)
    expect(page.locator(".parallel polyline.best")).to_have_attribute("data-trial", "0")
    expect(page.locator("tr[data-trial]").first).to_have_attribute("data-trial", "0")

    box = page.locator('[data-axis="env.LR"]').bounding_box()
    assert box is not None
    middle = box["x"] + box["width"] / 2
    page.mouse.move(middle, box["y"] + box["height"] - 1)
    page.mouse.down()
    page.mouse.move(middle, box["y"] + box["height"] * 0.4)
    page.mouse.up()
    expect(page.locator("[data-chosen]")).to_have_text("2 of 3 trials chosen")
    expect(page.locator('tr[data-trial="2"]')).to_have_class(re.compile("out"))
    icon = page.locator("[data-compare] svg").bounding_box()
    assert icon is not None
    assert icon["width"] < 40  # what is said of the picture is not said of icons
    page.locator("[data-compare]").click()
    page.wait_for_url("**/compare?run=*&run=*")
    expect(page.locator("[data-run]")).to_have_count(2)
