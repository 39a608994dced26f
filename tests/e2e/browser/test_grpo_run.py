"""The page of a real GRPO run, while it trains: nothing of it is fed by the test."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.harness import USER, Client

pytestmark = [pytest.mark.training, pytest.mark.timeout(300)]
SECONDS = 120_000  # until a trainer on a busy machine has imported torch and made its first steps


def at_least(points: int) -> re.Pattern[str]:
    """What a chart says of itself with so many points or more (up to three digits)."""
    tens, ones = divmod(points, 10)
    return re.compile(rf": ([1-9]\d\d|[{tens + 1}-9]\d|{tens or ''}[{ones}-9]) points")


def test_reward_kl_completions_and_hardware_of_a_run_are_seen_while_it_trains(
    start_client: Callable[..., Client], page: Page, training_runtime: Path
) -> None:
    client = start_client(TUNEPLANE_RUNTIMES_DIR=str(training_runtime.parent))
    client.new("think", "trl/grpo")
    run = client.submit("think", "--set", "max_steps=900", "--set", "logging_steps=1", "--set", "beta=0.1")
    page.goto(f"{client.console.url}/signin")
    page.get_by_label("Username").fill(USER)
    page.get_by_label("Password").fill(client.console.password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/jobs")

    page.goto(f"{client.console.url}/jobs/{run}")
    page.evaluate("window.sameDocument = true")
    for points in (3, 6):
        for metric in ("train/reward", "train/kl"):
            plot = page.locator(f'.chart[data-metric="{metric}"] .plot')
            expect(plot).to_have_attribute("aria-label", at_least(points), timeout=SECONDS)

    parts = page.get_by_role("navigation", name="Parts of this job")
    parts.get_by_role("link", name="Samples").click()
    expect(page.locator("article.sample .rewards").first).to_be_visible(timeout=SECONDS)
    page.get_by_role("button", name="New samples").wait_for(timeout=SECONDS)  # it goes on beside the reader

    parts.get_by_role("link", name="Hardware").click()
    for title in ("processor", "memory"):
        expect(page.locator(".chart", has_text=title).first).to_be_visible(timeout=SECONDS)
    assert page.evaluate("window.sameDocument") is True
    client.tp("job", "cancel", run, "--yes")
    client.wait(run, "cancelled", seconds=120)
