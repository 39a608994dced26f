"""The pages where the executor has a queue of its own: what waits there, whose decision that is, and which cards are taken."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from tests.tuneplane_server.console.conftest import Browser, app_of, browsing, read
from tests.tuneplane_server.harness import ON_SQLITE, Harness, gpu_pool, jobspec
from tuneplane_server.executors.port import Queued
from tuneplane_server.features.accounts.principal import Principal

pytestmark = ON_SQLITE
SENTENCE = "waits in the queue of scripted: Priority; number 3 in line; starts at about 02:00 UTC"


@pytest.fixture
async def hers(harness: Harness, ada: Principal) -> AsyncIterator[Browser]:
    harness.scripted.own_queue = True
    async with browsing(app_of(harness)) as browser:
        await browser.become(harness.services, ada)
        yield browser


async def in_line(harness: Harness, who: Principal) -> str:
    """A run that was passed on, stands third there, and is expected to start in two hours."""
    job_id = await harness.submit(who, jobspec(resources=gpu_pool(4)))
    await harness.loop("placer").tick()
    await harness.loop("placer").idle()
    await harness.loop("launcher").tick()
    await harness.loop("launcher").idle()
    starts_at = harness.time.now + timedelta(hours=2)
    harness.scripted.containers[job_id, 1].queued = Queued("Priority", "", 3, starts_at)
    await harness.round()
    return job_id


async def test_the_list_and_the_job_say_what_it_waits_for_as_of_any_other_job(
    harness: Harness, ada: Principal, hers: Browser
) -> None:
    job_id = await in_line(harness, ada)
    listed, page = (await hers.get("/jobs")).text, (await hers.get(f"/jobs/{job_id}")).text
    assert listed.count(f'">{SENTENCE}</span>') == 1
    assert re.search(rf'title="{re.escape(SENTENCE)}">\s*waiting\s*</span>', listed)
    assert page.count(f'<p class="sentence">{SENTENCE}</p>') == 1
    assert "executor-queue" not in page  # it is no trouble beside that
    assert 'id="waiting"' in page
    assert 'id="nodes"' not in page
    harness.scripted.containers[job_id, 1].begin("h7")
    await harness.round()
    page = (await hers.get(f"/jobs/{job_id}")).text
    assert 'id="waiting"' not in page
    assert re.search(r'id="nodes">h7\s*<', page)


async def test_the_queue_says_who_decides_and_shows_who_waits_there(
    harness: Harness, ada: Principal, hers: Browser
) -> None:
    assert "A job that is kept back stands here" in (await hers.get("/queue")).text
    job_id = await in_line(harness, ada)
    held = await harness.submit(ada)
    await harness.services.steering.pause(ada, held)
    await harness.round()
    text = (await hers.get("/queue")).text
    assert "The queue of scripted decides what starts when." in text
    ids = [row.partition("line-")[2] for row in read(text).attributes("id") if row.startswith("line-")]
    assert ids == [job_id, held]
    assert SENTENCE in text
    async with browsing(app_of(harness)) as his:
        await his.become(harness.services, await harness.user("bob"))
        text = (await his.get("/queue")).text
        assert "a job of @ada" in text
        assert job_id not in text


async def test_cards_are_taken_by_number_and_a_machine_that_is_down_says_why(harness: Harness, hers: Browser) -> None:
    harness.scripted.gpus_used = 5
    text = (await hers.get("/queue")).text
    assert re.findall(r'<g class="([^"]*)">', text) == (["held taken"] * 5 + [""] * 3) * 2
    assert "h200: 5 of 8 are taken" in text
    assert "3 of 8 free" in text
    text = (await hers.get("/hardware")).text
    assert "5 of 8 cards are taken" in text
    assert ">free<" not in text
    harness.scripted.placeable = False
    harness.time.pass_(60)
    assert "drained: new fans" in (await hers.get("/hardware")).text
