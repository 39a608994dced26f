"""The queue page of a cluster of hundreds of machines: which it draws first, where the others are, and how one is found."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from tests.tuneplane_server.console.conftest import Browser, app_of, browsing, read
from tests.tuneplane_server.harness import ON_SQLITE, Harness, gpu_pool, jobspec
from tuneplane_server.executors.port import GpuInfo, NodeInfo
from tuneplane_server.features.accounts.principal import Principal

pytestmark = ON_SQLITE

NAMES = [f"gpu-{number:03d}" for number in range(250)]


def node(name: str, profile: str, cards: int = 8) -> NodeInfo:
    gpus = tuple(GpuInfo(index, profile, "invented", None, simulated=True) for index in range(cards))
    return NodeInfo(name, 64, 512, gpus)


@pytest.fixture
def cluster(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> list[NodeInfo]:
    """What there is; a test may change it before the page is first read."""
    machines = [node(name, "h100") for name in NAMES]

    async def nodes() -> list[NodeInfo]:
        return list(machines)

    monkeypatch.setattr(harness.scripted, "nodes", nodes)
    return machines


@pytest.fixture
async def hers(harness: Harness, ada: Principal) -> AsyncIterator[Browser]:
    async with browsing(app_of(harness)) as browser:
        await browser.become(harness.services, ada)
        yield browser


def drawn(text: str) -> list[str]:
    return re.findall(r'<h3><span class="mono">([^<]*)</span>', text)


async def test_a_hundred_at_a_time_and_where_the_others_are(cluster: list[NodeInfo], hers: Browser) -> None:
    first = (await hers.get("/queue")).text
    assert drawn(first) == NAMES[:100]
    assert "100 of 250 machines are shown" in first
    assert 'href="/queue?machines=2"' in first
    assert read(first).inline == []
    last = (await hers.get("/queue?machines=3")).text
    assert drawn(last) == NAMES[200:]
    assert 'href="/queue?machines=2"' in last
    assert 'href="/queue?machines=4"' not in last
    assert drawn((await hers.get("/queue?machines=900")).text) == NAMES[200:]
    for bad in ("0", "x", "1001"):
        assert (await hers.get(f"/queue?machines={bad}")).status_code == 422


async def test_one_is_found_by_a_part_of_its_name(cluster: list[NodeInfo], hers: Browser) -> None:
    assert drawn((await hers.get("/queue?machine=GPU-23")).text) == NAMES[230:240]
    some = (await hers.get("/queue?machine=gpu-1")).text
    assert drawn(some) == NAMES[100:200]
    assert 'value="gpu-1"' in some
    none = (await hers.get("/queue?machine=%3Cb%3E")).text
    assert drawn(none) == []
    assert "None of the 250 machines has “&lt;b&gt;” in its name." in none
    assert "Find a machine by its name" in none
    part = (await hers.get("/queue?machine=gpu-1", **{"HX-Request": "true"})).text
    assert 'hx-get="/queue?machine=gpu-1"' in part  # it refreshes what it shows


async def test_those_with_room_and_those_that_jobs_wait_for_come_first(
    harness: Harness, ada: Principal, cluster: list[NodeInfo], hers: Browser
) -> None:
    cluster[:] = [node(name, "h100") for name in NAMES[:120]]
    cluster[3] = replace(cluster[3], placeable=False, why="drained")
    cluster[118], cluster[119] = node("h200-a", "h200"), node("h200-b", "h200")
    await harness.running_job(ada, jobspec(resources=gpu_pool(8)))  # on h200-a, the first by name
    await harness.running_job(ada, jobspec(resources=gpu_pool(5)))
    await harness.submit(ada, jobspec(resources=gpu_pool(8)))
    await harness.round()
    first = drawn((await hers.get("/queue")).text)
    assert first[:4] == ["h200-b", "gpu-000", "gpu-001", "gpu-002"]  # room that somebody waits for, then other room
    assert "gpu-003" not in first
    # Then what is full and waited for; last what gets no work for now.
    assert drawn((await hers.get("/queue?machines=2")).text)[-3:] == ["gpu-117", "h200-a", "gpu-003"]


async def test_few_machines_stay_where_they_are(harness: Harness, cluster: list[NodeInfo], hers: Browser) -> None:
    cluster[:] = [node("b", "h200"), node("a", "h100"), replace(node("c", "h100"), placeable=False)]
    text = (await hers.get("/queue")).text
    assert drawn(text) == ["b", "a", "c"]
    assert "machines are shown" not in text
    assert 'id="machine-filter"' not in text
