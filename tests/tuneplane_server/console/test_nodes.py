"""Nodes on the hardware page: how each is and why, for everyone; what may be done with it, for administrators."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.tuneplane_server.console.conftest import ADDRESS, Browser, app_of, browsing, read
from tests.tuneplane_server.executors.scripted import ScriptedExecutor
from tests.tuneplane_server.harness import Harness, gpu_pool, jobspec
from tests.tuneplane_server.nodes.build import TOKEN, announcement, finding, ready
from tests.tuneplane_server.nodes.test_joining import SILENCE
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.nodes.node import NodeProblem


@pytest.fixture
async def site(migrated_sqlite_url: str, tmp_path: Path) -> AsyncIterator[Harness]:
    extra = {"TUNEPLANE_PUBLIC_URL": ADDRESS, "TUNEPLANE_EXECUTOR": "agent", "TUNEPLANE_AGENT_TOKEN": TOKEN}
    harness = Harness(migrated_sqlite_url, tmp_path, ScriptedExecutor(), extra)
    await ready(harness.services.nodes, "node")  # as the scripted executor calls its machine
    yield harness
    await harness.close()


@pytest.fixture
async def bob(site: Harness) -> Principal:
    principal = await site.user("bob")
    await site.bring_package(principal)
    return principal


@pytest.fixture
async def reader(site: Harness, bob: Principal) -> AsyncIterator[Browser]:
    """Signed in as `bob`, who is no administrator."""
    async with browsing(app_of(site)) as browser:
        await browser.become(site.services, bob)
        yield browser


async def test_an_administrator_sees_how_it_is_and_what_to_do_with_it(
    site: Harness, browser: Browser, bob: Principal
) -> None:
    job_id = await site.running_job(bob, jobspec(resources=gpu_pool(1)))
    text = (await browser.get("/hardware")).text
    page = read(text)
    assert page.inline == []
    assert 'data-health="ready"' in text
    assert "http://node:8643" in page.text
    assert f"/jobs/{job_id}" in page.addresses
    assert {f"/admin/nodes/node/{verb}" for verb in ("cordon", "drain", "remove")} <= page.addresses
    assert job_id in " ".join(page.attributes("data-confirm-text"))  # removing it says whose runs it ends


async def test_others_see_how_it_is_and_neither_its_address_nor_other_peoples_runs_nor_buttons(
    site: Harness, reader: Browser, browser: Browser
) -> None:
    ada = await site.services.accounts.principal_of_session(str(browser.client.cookies["tuneplane_session"]))
    assert ada is not None
    await site.bring_package(ada)
    job_id = await site.running_job(ada, jobspec(resources=gpu_pool(1)))
    text = (await reader.get("/hardware")).text
    page = read(text)
    assert 'data-health="ready"' in text
    assert "http://node:8643" not in text
    assert f"/jobs/{job_id}" not in page.addresses
    assert not [address for address in page.addresses if address.startswith("/admin/nodes")]
    for verb in ("cordon", "drain", "uncordon", "remove"):
        assert (await reader.post(f"/admin/nodes/node/{verb}")).status_code == 403
    node = await site.services.nodes.get("node")
    assert node is not None
    assert node.state == "ready"


async def test_the_buttons_do_what_they_say(site: Harness, browser: Browser, bob: Principal) -> None:
    assert (await browser.post("/admin/nodes/node/cordon", csrf=False)).status_code == 403
    answer = await browser.post("/admin/nodes/node/cordon")
    assert (answer.status_code, answer.headers["location"]) == (303, "/hardware#node-node")
    text = (await browser.get("/hardware")).text
    assert 'data-state="cordoned"' in text
    assert "/admin/nodes/node/uncordon" in text
    await browser.post("/admin/nodes/node/uncordon")
    job_id = await site.running_job(bob)
    await browser.post("/admin/nodes/node/drain")
    assert "Drained" not in (await browser.get("/hardware")).text
    refused = await browser.post("/admin/nodes/node/remove")
    assert refused.status_code == 409
    assert job_id in refused.text
    assert (await browser.post("/admin/nodes/node/remove", force="yes")).status_code == 303
    text = (await browser.get("/hardware")).text
    assert 'data-state="removed"' in text  # its daemon still announces itself
    assert (await browser.post("/admin/nodes/nobody/cordon")).status_code == 404


@pytest.mark.parametrize(
    ("language", "words"),
    [
        ("en", ("unreachable", "cannot be reached", "tuneplane-node serve", "no route to host")),
        ("zh-Hans", ("联系不上", "tuneplane-node serve", "no route to host")),
    ],
)
async def test_what_is_wrong_is_said_with_what_to_do(
    site: Harness, browser: Browser, language: str, words: tuple[str, ...]
) -> None:
    nodes = site.services.nodes
    problem = NodeProblem("node-unreachable", {"address": "http://node:8643"}, "no route to host")
    await nodes.called("node", problem)
    await nodes.fence("node", "a" * 16, 1)
    text = read((await browser.get("/hardware", language)).text).text
    for word in words:
        assert word in text
    assert "a" * 16 in text


async def test_findings_other_machines_of_the_name_and_a_wrong_clock_are_shown(
    site: Harness, browser: Browser, reader: Browser
) -> None:
    nodes = site.services.nodes
    ahead = site.time.now.timestamp() + 120
    await nodes.announce(announcement("gpu-2", findings=(finding(),), time=ahead), "10.0.0.2")
    await nodes.announce(announcement("gpu-2", node_id="id-twin", address="http://twin:8643"), "10.0.0.3")
    text = read((await browser.get("/hardware")).text).text
    assert "its clock is 120 s ahead" in text
    assert "id-twin" in text
    assert "nvidia-smi" in text
    assert "storage not proved yet" in text
    assert "id-twin" not in (await reader.get("/hardware")).text


async def test_a_node_that_is_silent_stays_on_the_page(site: Harness, browser: Browser) -> None:
    site.time.pass_(SILENCE)
    answer = await browser.get("/hardware", **{"HX-Request": "true"})
    assert 'data-health="unreachable"' in answer.text
    assert "<html" not in answer.text
