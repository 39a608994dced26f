"""Evaluations in a real Chromium: from the list to the comparison and to a job's report. A script of one's own writes the reports."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.harness import USER, Client
from tests.tuneplane_server.evaluation.build import report, task

pytestmark = pytest.mark.timeout(240)

SCRIPT = """
import json, os, pathlib
found = json.loads(pathlib.Path("report.json").read_text())
for task in found["tasks"]:
    task["figures"][0]["value"] = float(os.environ["VALUE"])
target = pathlib.Path(os.environ["TUNEPLANE_OUT_DIR"], "evaluations/report.json")
target.parent.mkdir()
target.write_text(json.dumps(found)[: int(os.environ.get("CUT", "1000000"))])
"""
OPTIONS = ("--observability", "platform")


@pytest.fixture
def client(start_client: Callable[..., Client]) -> Client:
    return start_client()


def measured(client: Client, name: str, *env: str) -> str:
    options = [part for item in env for part in ("--env", item)]
    run = client.submit("measured", "--name", name, *options, *OPTIONS)
    client.wait(run)
    return run


def test_two_reports_are_chosen_compared_and_opened(page: Page, client: Client) -> None:
    experiment = client.new("measured", "custom/custom")
    (experiment / "train.sh").write_text("exec python3 measure.py\n")
    (experiment / "measure.py").write_text(SCRIPT)
    (experiment / "report.json").write_text(json.dumps(report(task("arc"), task("piqa", version="2.0"))))
    low, high = measured(client, "low", "VALUE=0.4"), measured(client, "high", "VALUE=0.6")
    broken = measured(client, "broken", "VALUE=0.5", "CUT=30")

    page.goto(f"{client.console.url}/signin")
    page.get_by_label("Username").fill(USER)
    page.get_by_label("Password").fill(client.console.password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/jobs")
    page.get_by_role("link", name="Evaluations").click()
    expect(page.locator("tr[data-row]")).to_have_count(3)
    expect(page.get_by_role("checkbox")).to_have_count(2)  # not the broken one
    page.get_by_role("checkbox", name=low).check()
    page.get_by_role("checkbox", name=high).check()
    page.get_by_role("button", name="Compare the chosen").click()
    page.wait_for_url("**/evaluations/compare?run=*&run=*")
    expect(page.locator("[data-significant=yes]")).to_have_count(2)
    expect(page.locator("tr[data-compared]").first).to_contain_text(high)
    expect(page.locator("tr[data-task=arc]")).to_contain_text("worse")
    page.get_by_role("link", name="Make it the base").click()
    expect(page.locator("tr[data-task=arc]")).to_contain_text("better")

    page.get_by_role("link", name="high", exact=True).click()
    page.wait_for_url(f"**/jobs/{high}/evaluation")
    expect(page.locator("tr[data-figure='arc/acc']")).to_contain_text("0.6")
    value, whole = (
        page.locator(f"tr[data-figure='arc/acc'] .share .{part}").bounding_box() for part in ("value", "whole")
    )
    assert value is not None
    assert whole is not None
    assert value["width"] / whole["width"] == pytest.approx(0.6, abs=0.02)
    page.keyboard.press("1")
    page.wait_for_url(f"**/jobs/{high}")
    page.keyboard.press("8")
    page.wait_for_url(f"**/jobs/{high}/evaluation")

    page.goto(f"{client.console.url}/jobs/{broken}")
    page.get_by_role("link", name="Its evaluation report cannot be used").click()
    expect(page.locator("#report-problem")).to_contain_text("is not JSON")
