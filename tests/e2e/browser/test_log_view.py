"""Reading a long log in a real Chromium: both ways, by keyboard, by search, by address."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.e2e.harness import Client

pytestmark = pytest.mark.timeout(240)

LINES = 2300
# Two bursts at two moments, and one more when the test says so.
TRAINER = f"""
seq -f 'early %g' {LINES // 2}
sleep 1.1
seq -f 'late %g' {LINES // 2}
while [ ! -e "$CONTROL/more" ]; do sleep 0.05; done
seq -f 'new %g' 3
while [ ! -e "$CONTROL/over" ]; do sleep 0.05; done
"""
ALL = [f"early {n}" for n in range(1, LINES // 2 + 1)] + [f"late {n}" for n in range(1, LINES // 2 + 1)]
LAST = ALL[-1]


class LongLog:
    def __init__(self, page: Page, client: Client, folder: Path) -> None:
        self.page, self.control = page, folder / "control"
        self.control.mkdir()
        experiment = client.new("long", "custom/custom")
        (experiment / "train.sh").write_text(TRAINER)
        run = client.submit("long", "--observability", "platform", "--env", f"CONTROL={self.control}")
        self.url = f"{client.console.url}/jobs/{run}/logs"

    def open(self, query: str = "") -> None:
        self.page.goto(self.url + query)

    def line(self, text: str) -> Locator:
        return self.page.locator(".line", has=self.page.locator(".text", has_text=re.compile(f"^{re.escape(text)}$")))

    def shown(self) -> list[str]:
        """The trainer's lines, from the first to the last one in the page."""
        texts = self.page.locator(".line.fd-stdout .text").all_text_contents()
        return [text for text in texts if text in EVERY]

    def read_on(self, end: str, to: str, *, until: str) -> None:
        """Scroll to the `first` or `last` line in the page, and wait for further ones, until the page has this one."""
        line = getattr(self.page.locator(".line .text"), end)
        expect(line).to_be_attached()
        for _page in range(LINES // 100):
            if self.line(until).count():
                return
            before = line.text_content() or ""
            self.scroll(to)
            expect(line).not_to_have_text(before)

    def scroll(self, to: str) -> None:
        self.page.locator("[data-scroller]").evaluate(f"box => {{ box.scrollTop = {to}; }}")


EVERY = {*ALL, *(f"new {n}" for n in range(1, 4))}


@pytest.fixture
def log(signed_in: Page, client: Client, tmp_path: Path) -> Iterator[LongLog]:
    log = LongLog(signed_in, client, tmp_path)
    log.open()
    expect(log.line(LAST)).to_be_visible(timeout=60_000)
    log.open()  # all of it is there now: the view begins with its last page
    expect(log.line(LAST)).to_be_visible()
    yield log
    for name in ("more", "over"):
        (log.control / name).touch()


def test_one_reads_up_to_the_start_and_down_to_the_end(log: LongLog) -> None:
    assert len(log.shown()) < len(ALL)
    first = log.shown()[0]
    log.scroll("0")
    expect(log.page.locator(".line .text").first).not_to_have_text(first)
    expect(log.line(first)).to_be_in_viewport()  # what was in sight stays in sight
    log.read_on("first", "0", until=ALL[0])
    assert log.shown() == ALL
    expect(log.page.get_by_text("The log begins here.")).to_be_visible()
    expect(log.page.get_by_role("button", name="Follow")).to_have_attribute("aria-pressed", "false")
    log.open("?from=start")
    expect(log.line(ALL[0])).to_be_in_viewport()
    log.read_on("last", "box.scrollHeight", until=LAST)
    assert log.shown() == ALL


def test_keys_lead_to_the_start_and_to_the_end_where_new_lines_are_followed(log: LongLog) -> None:
    follow = log.page.locator("[data-follow]")
    log.page.keyboard.type("gg")
    expect(log.line(ALL[0])).to_be_in_viewport()
    expect(log.page).to_have_url(f"{log.url}?from=start")
    log.page.keyboard.press("Shift+G")
    expect(log.line(LAST)).to_be_in_viewport()
    expect(log.page).to_have_url(log.url)
    log.page.locator("[data-scroller]").focus()
    log.page.keyboard.press("Home")
    expect(log.line(ALL[0])).to_be_in_viewport()
    log.page.keyboard.press("End")
    expect(log.line(LAST)).to_be_in_viewport()
    expect(follow).to_have_attribute("aria-pressed", "true")

    log.scroll("box.scrollHeight - box.clientHeight - 400")
    expect(follow).to_have_attribute("aria-pressed", "false")
    place = log.page.locator("[data-scroller]").evaluate("box => box.scrollTop")
    (log.control / "more").touch()
    expect(log.page.get_by_role("button", name="3 new lines")).to_be_visible()
    assert log.page.locator("[data-scroller]").evaluate("box => box.scrollTop") == place
    log.page.keyboard.press("Shift+G")
    expect(log.line("new 3")).to_be_in_viewport()
    expect(follow).to_have_attribute("aria-pressed", "true")


def test_a_search_leads_to_the_lines_around_a_match_and_an_address_to_its_moment(log: LongLog) -> None:
    assert log.line("early 777").count() == 0
    log.page.keyboard.press("/")
    log.page.keyboard.type("early 777")
    expect(log.page.locator("[data-count]")).to_have_text("1 match")
    log.page.wait_for_url("**/logs?grep=early+777")
    log.line("early 777").locator(".at").click()
    expect(log.line("early 777")).to_have_class(re.compile(r"\bhere\b"))
    for neighbour in ("early 776", "early 777", "early 778"):
        expect(log.line(neighbour)).to_be_in_viewport()
    expect(log.page.locator("[data-grep]")).to_have_value("")
    expect(log.page).to_have_url(re.compile(re.escape(log.url) + r"\?line=[A-Za-z0-9_-]+$"))

    log.open("?grep=late%20")
    log.read_on("first", "0", until="late 1")
    moment = log.line("late 1").get_attribute("data-time")
    log.open(f"?since={moment}")
    expect(log.page.locator(".line.here .text")).to_have_text("late 1")
    expect(log.line(ALL[LINES // 2 - 1])).to_be_attached()  # the line in front of it
    texts = log.shown()
    assert texts == ALL[ALL.index(texts[0]) : ALL.index(texts[0]) + len(texts)]
