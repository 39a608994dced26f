"""The queue page: the line, what each needs and why, and who holds which cards."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest

from tests.tuneplane_server.console.conftest import Browser, app_of, browsing, read
from tests.tuneplane_server.harness import ON_SQLITE, Harness, gpu_pool, jobspec
from tuneplane_server.features.accounts.principal import Principal

pytestmark = ON_SQLITE


@pytest.fixture
async def hers(harness: Harness, ada: Principal) -> AsyncIterator[Browser]:
    async with browsing(app_of(harness)) as browser:
        await browser.become(harness.services, ada)
        yield browser


def cards(text: str) -> list[str]:
    """The class of every card in the picture: who holds it, by colour."""
    return re.findall(r'<g class="([^"]*)">', text)


async def test_an_empty_queue_shows_the_free_cards(harness: Harness, hers: Browser) -> None:
    text = (await hers.get("/queue")).text
    assert "Nobody waits" in text
    assert cards(text) == [""] * 8
    assert "8 of 8 free" in text


async def test_the_line_with_places_needs_and_reasons_and_the_cards_by_run(
    harness: Harness, ada: Principal, hers: Browser
) -> None:
    holder = await harness.running_job(ada, jobspec(resources=gpu_pool(5), limits={"max_duration": 3600}))
    first = await harness.submit(ada, jobspec(resources=gpu_pool(8)))
    harness.time.pass_(1)
    second = await harness.submit(ada, jobspec(resources=gpu_pool(4)))
    held = await harness.submit(ada)
    await harness.services.steering.pause(ada, held)
    await harness.round()
    text = (await hers.get("/queue")).text
    assert cards(text) == ["held run-1"] * 5 + [""] * 3
    assert text.count(f'href="/jobs/{holder}"') >= 5 + 1
    assert [row.partition("line-")[2] for row in read(text).attributes("id") if row.startswith("line-")] == [
        first, second, held,
    ]  # fmt: skip
    assert "8 h200 on one node" in text
    assert "2 stand in line" in text
    assert "it waits until somebody resumes it" in text
    assert "at the latest" in text
    part = (await hers.get("/queue", **{"HX-Request": "true"})).text
    assert part.lstrip().startswith('<div id="queue"')
    assert read(text).inline == []


async def test_of_other_peoples_jobs_only_the_place_and_the_need_are_told(harness: Harness, ada: Principal) -> None:
    holder = await harness.running_job(ada, jobspec(resources=gpu_pool(8)))
    waiting = await harness.submit(ada, jobspec(resources=gpu_pool(4)))
    await harness.round()
    async with browsing(app_of(harness)) as his:
        await his.become(harness.services, await harness.user("bob"))
        text = (await his.get("/queue")).text
        assert "a job of @ada" in text
        assert waiting not in text
        assert f"/jobs/{holder}" not in text
        assert cards(text) == ["held run-1"] * 8
        assert (await his.get("/queue?cursor=nonsense")).status_code == 422
