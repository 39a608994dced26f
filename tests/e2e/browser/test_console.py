"""The console in a real Chromium: from the set-up link to a curve that grows under the reader's eyes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, Route, expect

from tests.e2e.browser.conftest import Complaints
from tests.e2e.harness import Client, Console, wait_until

pytestmark = pytest.mark.timeout(240)

PASSWORD = "four quiet words here"
# A trainer that goes on when the test says so: one wave for each file that appears.
TRAINER = """
import os, sys, time
from pathlib import Path
from tuneplane import report

control = Path(os.environ["CONTROL"])
report.init()
step = 0
for wave in ("first", "second", "third"):
    while not (control / wave).exists():
        time.sleep(0.05)
    for _ in range(20):
        step += 1
        report.log({"train/loss": 2.0 / step, "train/grad_norm": float("nan") if step == 7 else 1.0}, step=step)
    print(f"\\x1b[32mthe {wave} wave <script>\\x1b[0m", flush=True)
    report.log_samples([{"prompt": "1+1=", "completion": f"{wave} answer", "reward": 1.0}], step=step)
report.finish()
(Path(os.environ["TUNEPLANE_OUT_DIR"]) / "result.txt").write_text("done")
"""


class Job:
    """A running job of `TRAINER`, and the switch that lets it go on."""

    def __init__(self, client: Client, folder: Path) -> None:
        self.client, self.control = client, folder / "control"
        self.control.mkdir()
        experiment = client.new("waves", "custom/custom")
        (experiment / "train.sh").write_text("exec python3 train.py\n")
        (experiment / "train.py").write_text(TRAINER)
        self.id = client.submit("waves", "--observability", "platform", "--env", f"CONTROL={self.control}")

    def wave(self, name: str) -> None:
        (self.control / name).touch()

    def finish(self) -> None:
        for name in ("first", "second", "third"):
            self.wave(name)


@pytest.fixture
def job(client: Client, tmp_path: Path) -> Iterator[Job]:
    job = Job(client, tmp_path)
    yield job
    job.finish()


def points(page: Page, metric: str) -> int:
    """How many points the chart of `metric` says it has."""
    label = page.locator(f'.chart[data-metric="{metric}"] .plot').get_attribute("aria-label") or ""
    found = re.search(r": (\d+) points", label)
    return int(found[1]) if found else 0


def wait_for_points(page: Page, metric: str, count: int) -> None:
    expect(page.locator(f'.chart[data-metric="{metric}"] .plot')).to_have_attribute(
        "aria-label", re.compile(f": {count} points"), timeout=60_000
    )


def test_from_the_set_up_link_to_a_growing_curve(
    start_console: Callable[..., Console], page: Page, tmp_path: Path
) -> None:
    console = start_console()
    # It is printed when the console listens, which is a moment before or after it answers.
    address = rf"{re.escape(console.url)}/setup\?token=\S+\n"
    link = wait_until("the set-up link is printed", lambda: re.search(address, console.log()))
    page.goto(link[0].strip())
    assert page.url == f"{console.url}/setup"
    page.get_by_label("Username").fill("grace")
    page.get_by_label("Password", exact=True).fill(PASSWORD)
    page.get_by_label("Password, again").fill(PASSWORD)
    page.get_by_role("button", name="Create the account and sign in").click()
    page.wait_for_url("**/jobs")
    expect(page.get_by_text("tp submit first --profile cpu")).to_be_visible()

    job = Job(Client(tmp_path / "client", console, console.new_token("grace")).prepare(), tmp_path)
    page.evaluate("window.sameDocument = true")
    page.locator(f"#job-{job.id} .row-link").click(timeout=60_000)  # it appeared without a reload
    page.wait_for_url(f"**/jobs/{job.id}")
    expect(page.locator("#job-head .pill.phase-running")).to_be_visible(timeout=60_000)

    page.evaluate("window.sameDocument = true")
    job.wave("first")
    wait_for_points(page, "train/loss", 20)
    job.wave("second")
    wait_for_points(page, "train/loss", 40)
    assert points(page, "train/grad_norm") == 40

    page.get_by_role("link", name="Logs").click()
    expect(page.locator(".line", has_text="the second wave <script>")).to_be_visible()
    job.wave("third")
    expect(page.locator(".line", has_text="the third wave <script>")).to_be_visible(timeout=60_000)
    expect(page.locator("#job-head .pill.phase-succeeded")).to_be_visible(timeout=60_000)
    assert page.evaluate("window.sameDocument") is True

    page.get_by_role("link", name="Samples").click()
    expect(page.get_by_text("third answer")).to_be_visible()
    page.get_by_role("link", name="Artifacts").click()
    with page.expect_download() as download:
        page.get_by_role("link", name="result.txt").click()
    assert download.value.path().read_text() == "done"


def test_without_the_stream_the_page_polls(signed_in: Page, job: Job, complaints: Complaints) -> None:
    complaints.expected.append("ERR_FAILED")  # the browser reports the cut connection
    signed_in.route("**/stream", lambda route: route.abort())
    job.wave("first")
    signed_in.goto(f"{job.client.console.url}/jobs/{job.id}")
    expect(signed_in.locator("#live")).to_have_text("Polling", timeout=60_000)
    wait_for_points(signed_in, "train/loss", 20)
    job.wave("second")
    wait_for_points(signed_in, "train/loss", 40)
    signed_in.get_by_role("link", name="Logs").click()
    job.finish()
    expect(signed_in.locator(".line", has_text="the third wave")).to_be_visible(timeout=60_000)
    expect(signed_in.locator("#job-head .pill.phase-succeeded")).to_be_visible(timeout=60_000)


def test_a_proxy_that_holds_the_stream_back_is_noticed(signed_in: Page, job: Job, complaints: Complaints) -> None:
    complaints.expected.append("ERR_FAILED")  # of the stream, when the test lets go of it
    held: list[Route] = []
    signed_in.route("**/stream", lambda route: held.append(route))  # accepted, and nothing ever comes of it
    signed_in.clock.install()
    signed_in.goto(f"{job.client.console.url}/jobs/{job.id}")
    expect(signed_in.locator("#live")).to_be_hidden()
    signed_in.clock.fast_forward(21_000)
    expect(signed_in.locator("#live")).to_have_text("Polling")
    for route in held:
        route.abort()
    signed_in.unroute_all(behavior="ignoreErrors")
    signed_in.goto("about:blank")


def test_cancel_asks_first(signed_in: Page, job: Job) -> None:
    signed_in.goto(f"{job.client.console.url}/jobs/{job.id}")
    expect(signed_in.locator("#job-head .pill.phase-running")).to_be_visible(timeout=60_000)
    signed_in.get_by_role("button", name="Cancel", exact=True).click()
    signed_in.get_by_role("button", name="No, go back").click()
    assert job.client.show(job.id)["desired"] == "run"
    signed_in.get_by_role("button", name="Cancel", exact=True).click()
    signed_in.get_by_role("button", name="Cancel the job").click()
    expect(signed_in.locator("#job-head .pill.phase-cancelled")).to_be_visible(timeout=60_000)
    expect(signed_in.get_by_role("button", name="Cancel", exact=True)).to_be_hidden()


def test_keyboard_language_and_colours(signed_in: Page, job: Job) -> None:
    expect(signed_in.locator(f"#job-{job.id}")).to_be_visible(timeout=60_000)
    signed_in.keyboard.press("?")
    expect(signed_in.get_by_role("dialog")).to_be_visible()
    signed_in.keyboard.press("Escape")
    signed_in.keyboard.press("/")
    expect(signed_in.locator("#q")).to_be_focused()
    signed_in.keyboard.type("no such job")
    expect(signed_in.get_by_text("No job fits these filters")).to_be_visible()
    signed_in.wait_for_url("**/jobs?q=no%20such%20job")
    signed_in.locator("#q").fill("waves")
    expect(signed_in.locator(f"#job-{job.id}")).to_be_visible()
    signed_in.keyboard.press("Escape")
    signed_in.keyboard.press("j")
    signed_in.keyboard.press("Enter")
    signed_in.wait_for_url(f"**/jobs/{job.id}")
    signed_in.keyboard.press("6")
    expect(signed_in.locator("#panel.events")).to_be_visible()
    signed_in.keyboard.press("t")
    signed_in.keyboard.press("t")
    assert signed_in.evaluate("document.documentElement.dataset.theme") == "dark"
    signed_in.get_by_role("button", name="中文").click()
    expect(signed_in.locator("#tabs")).to_contain_text("事件")
    signed_in.wait_for_load_state()  # it is loaded anew, and hears no key before its modules are there
    assert signed_in.evaluate("document.documentElement.dataset.theme") == "dark"
    signed_in.keyboard.type("gj")
    signed_in.wait_for_url("**/jobs")


def test_on_a_telephone_the_bar_has_its_links_on_a_line_of_their_own(signed_in: Page) -> None:
    """Nothing wraps inside a link, nothing lies over another or beyond the edge."""
    signed_in.set_viewport_size({"width": 390, "height": 844})
    tops = "items => items.map(item => Math.round(item.getBoundingClientRect().top))"
    links, buttons = signed_in.locator(".topbar nav a"), signed_in.locator(".topbar > :is(a, button, details):visible")
    expect(links.first).to_be_visible()
    above, below = set(buttons.evaluate_all(tops)), set(links.evaluate_all(tops))
    assert len(below) == 1
    assert max(above) + 20 < min(below)
    heights = links.evaluate_all("items => items.map(item => item.clientHeight)")
    assert max(heights) == min(heights) < 36
    edges = buttons.evaluate_all("items => items.map(item => item.getBoundingClientRect().right)")
    assert max(edges) <= 390
    assert signed_in.evaluate("document.documentElement.scrollWidth") <= 390
