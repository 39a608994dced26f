"""What a run reports, in a real Chromium: live curves, rollouts and hardware, comparing runs, zooming, levels of a log, and a
stream that does not get through."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, Route, expect

from tests.e2e.browser.conftest import Complaints
from tests.e2e.browser.fed import PASSWORD, STEPS, USER, FedConsole

pytestmark = pytest.mark.timeout(240)


@pytest.fixture(scope="module")
def fed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FedConsole]:
    """Two runs of GRPO, on two cards each, that have reported `STEPS` steps."""
    console = FedConsole(tmp_path_factory.mktemp("fed"))
    for run in console.runs:
        console.points(run, 1, STEPS)
    console.feed(
        console.runs[0],
        "log",
        time=console.began,
        fd="stdout",
        data="step 1\nWARNING slow\nERROR worse\n  why\nstep 2\n",
    )
    yield console
    console.stop()


def sign_in(page: Page, url: str) -> None:
    page.goto(f"{url}/signin")
    page.get_by_label("Username").fill(USER)
    page.get_by_label("Password").fill(PASSWORD)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/jobs")


@pytest.fixture
def reader(page: Page, fed: FedConsole) -> Page:
    sign_in(page, fed.url)
    return page


def count(page: Page, metric: str, points: int) -> None:
    """Wait until the chart of `metric` says that it has so many points."""
    plot = page.locator(f'.chart[data-metric="{metric}"] .plot')
    expect(plot).to_have_attribute("aria-label", re.compile(f": {points} points"))


def test_the_page_of_a_grpo_run_shows_reward_kl_completions_and_hardware_live(reader: Page, fed: FedConsole) -> None:
    run, _other = fed.runs
    fed.measure(1, 90.0)
    reader.goto(f"{fed.url}/jobs/{run}")
    for metric in ("train/reward", "train/kl"):
        count(reader, metric, STEPS)
    reader.evaluate("window.sameDocument = true")
    fed.points(run, STEPS + 1, 3)
    for metric in ("train/reward", "train/kl"):
        count(reader, metric, STEPS + 3)

    reader.get_by_role("link", name="Samples").click()
    fed.sample(run, 10, "It is 2, for certain.", 1.0)
    expect(reader.get_by_text("It is 2, for certain.")).to_be_visible()  # the first ones show by themselves
    fed.sample(run, 20, "It may be 3.", 0.0)
    reader.get_by_role("button", name="New samples").click()
    expect(reader.get_by_text("It may be 3.")).to_be_visible()
    parts = reader.locator("article.sample", has_text="It is 2").locator(".rewards")
    expect(parts.get_by_role("row", name=re.compile("accuracy 1"))).to_be_visible()
    reader.get_by_label("Order").select_option("highest")
    expect(reader.locator("article.sample").first).to_contain_text("It is 2")
    highest = reader.get_by_role("spinbutton", name="Highest reward")
    highest.fill("0.5")
    highest.press("Enter")
    expect(reader.locator("article.sample")).to_have_count(1)

    reader.get_by_role("navigation", name="Parts of this job").get_by_role("link", name="Hardware").click()
    tile = reader.locator(".gpu-tile", has_text="GPU 1")
    expect(tile).to_contain_text("90 %")
    expect(tile).to_contain_text("61 °C")
    fed.measure(20, 37.0)
    expect(tile).to_contain_text("37 %")  # asked for again while the page is open
    for title in ("use of the card", "processor", "network traffic"):
        expect(reader.locator(".chart", has_text=title).first).to_be_visible()
    assert reader.evaluate("window.sameDocument") is True


def test_runs_are_ticked_in_the_list_and_compared(reader: Page, fed: FedConsole) -> None:
    for run in fed.runs:
        reader.locator(f'[data-tick="{run}"]').check()
    expect(reader.get_by_text("2 runs chosen")).to_be_visible()
    reader.keyboard.press("c")
    reader.wait_for_url("**/compare?run=*")
    chart = reader.locator('.chart[data-metric="train/reward"]')
    expect(chart.locator(".keyed")).to_have_count(2)
    expect(chart.locator(".under")).to_contain_text("grpo-warm")
    expect(reader.get_by_role("row", name=re.compile(r"beta 0\.04 0\.1"))).to_be_visible()
    with reader.expect_response(lambda answer: "x=tokens" in answer.url) as answered:
        reader.get_by_role("button", name="Tokens").click()
    assert answered.value.ok
    reader.get_by_role("button", name="grpo-warm").click()
    expect(chart.locator(".keyed")).to_have_count(1)
    reader.reload()
    expect(chart.locator(".keyed")).to_have_count(1)  # the address says which are hidden


def test_a_zoomed_stretch_is_read_closer(reader: Page, fed: FedConsole) -> None:
    run = fed.runs[1]
    reader.goto(f"{fed.url}/jobs/{run}?metric=kl")
    count(reader, "train/kl", STEPS)
    box = reader.locator('.chart[data-metric="train/kl"] .u-over').bounding_box()
    assert box is not None
    with reader.expect_response(lambda answer: "step_min=" in answer.url) as answered:
        reader.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 40)
        reader.mouse.down()
        reader.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 40, steps=4)
        reader.mouse.up()
    steps = answered.value.json()["series"]["train/kl"][0]["step"]
    assert steps == list(range(steps[0], steps[-1] + 1))
    assert 100 < len(steps) < 300
    reader.get_by_role("button", name="Whole range").click()
    expect(reader.get_by_role("button", name="Whole range")).to_be_hidden()


def test_a_pinned_metric_stands_on_top_also_on_the_next_visit(reader: Page, fed: FedConsole) -> None:
    reader.goto(f"{fed.url}/jobs/{fed.runs[1]}")
    card = reader.locator('.chart[data-metric="train/num_tokens"]')
    card.get_by_role("button", name="Pin to the top").click()
    for _visit in range(2):
        first = reader.locator("[data-groups] .group").first
        expect(first.locator("h2")).to_have_text("Pinned")
        expect(first.locator(".chart")).to_have_attribute("data-metric", "train/num_tokens")
        reader.reload()
    card.get_by_role("button", name="Pin to the top").click()
    expect(reader.get_by_text("Pinned", exact=True)).to_be_hidden()


def test_grave_lines_are_chosen_and_lead_to_the_lines_around(reader: Page, fed: FedConsole) -> None:
    held: list[Route] = []
    reader.route("**/logs/view.js", lambda route: held.append(route), times=1)
    reader.goto(f"{fed.url}/jobs/{fed.runs[0]}/logs")
    reader.get_by_label("Level").select_option("error")  # quicker than the page's own modules arrive
    while not held:  # each look lets the browser's requests come in; the test's own time limit bounds it
        reader.wait_for_timeout(10)
    held[0].continue_()
    expect(reader.locator(".line .text")).to_have_text(["ERROR worse", "  why"])
    reader.get_by_label("Around matches").select_option("2")
    expect(reader.locator(".line.around .text")).to_have_text(["step 1", "WARNING slow", "step 2"])
    reader.locator(".line", has_text="why").locator(".at").click()
    expect(reader.locator(".line.here .text")).to_have_text("  why")
    expect(reader.locator(".line")).to_have_count(5)
    reader.reload()
    expect(reader.locator(".line.here .text")).to_have_text("  why")


def test_scenario_16_a_stream_held_back_by_a_proxy_is_made_up_for_and_goes_on(
    page: Page, fed: FedConsole, complaints: Complaints
) -> None:
    """Scenario 16: two proxies; the inner one begins to buffer, the page asks by itself; it stops, the stream goes on from the last id."""
    complaints.expected.append("ERR_")  # a cut connection
    run = fed.runs[1]
    known = STEPS
    sign_in(page, fed.proxied)
    page.goto(f"{fed.proxied}/jobs/{run}")
    badge = page.locator("#live")
    expect(badge).to_have_text("Live")
    count(page, "train/kl", known)

    fed.inner.buffers = True
    fed.do(fed.inner.cut())
    expect(badge).to_have_text("Polling")
    fed.points(run, known + 1, 5)
    count(page, "train/kl", known + 5)

    fed.inner.buffers = False
    fed.inner.seen.clear()
    fed.do(fed.inner.cut())
    expect(badge).to_have_text("Live")
    streams = [head for head in fed.inner.seen if "/stream" in head[""]]
    assert streams[-1]["last-event-id"].isdecimal()
    fed.points(run, known + 6, 5)
    count(page, "train/kl", known + 10)


def test_ranks_that_log_on_one_machine_can_be_told_apart(reader: Page, fed: FedConsole) -> None:
    _first, run = fed.runs
    reader.goto(f"{fed.url}/jobs/{run}/logs")
    chooser = reader.get_by_label("Rank")
    fed.feed(run, "log", time=fed.began, fd="stdout", data="from the first\n")
    expect(reader.get_by_text("from the first")).to_be_visible()
    expect(chooser).to_be_hidden()
    fed.feed(run, "log", rank=3, time=fed.began + 1, fd="stdout", data="from the fourth\n")
    expect(reader.get_by_text("from the fourth")).to_be_visible()
    chooser.select_option("3")
    expect(reader.get_by_text("from the first")).to_be_hidden()
    expect(reader.get_by_text("from the fourth")).to_be_visible()
