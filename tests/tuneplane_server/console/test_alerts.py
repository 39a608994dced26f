"""Pages of alerts: the bell, what it leads to, and the rules and webhooks of a project."""

from __future__ import annotations

import re
from typing import Any

from tests.tuneplane_server.alerts.test_firing import KL, look, send, set_rule
from tests.tuneplane_server.console.conftest import Browser, read
from tests.tuneplane_server.harness import Harness, gpu_pool, jobspec
from tuneplane_server.executors.port import CardFigures, NodeFigures
from tuneplane_server.features.accounts.principal import Principal

PLACE = "/projects/ada/lab/alerts"


async def project_of(site: Harness, name: str = "ada") -> Principal:
    """The user who is signed in, with a project."""
    row = await site.services.accounts.user(name)
    principal = Principal(row.id, row.username, row.admin, frozenset({"read", "write", "admin"}))
    await site.bring_package(principal)
    return principal


async def test_the_bell_counts_what_is_unread_and_leads_to_it(browser: Browser, site: Harness) -> None:
    ada = await project_of(site)
    job_id = await site.running_job(ada)
    await set_rule(site, ada, "kl", kind="metric-above", metric=KL, threshold=10, minutes=0)
    await send(site, job_id, 1, 12.0)
    await look(site)
    bell = await browser.get("/notifications/bell")
    assert "1 unread notification" in bell.text
    page = await browser.get("/notifications")
    assert page.status_code == 200
    assert f"{KL} is 12 at step 1, above 10" in read(page.text).text
    assert read(page.text).inline == []
    note = re.search(r'name="note" value="([^"]+)"', page.text)
    assert note is not None
    assert (await browser.post("/notifications/read", note=note[1])).status_code == 303
    assert "unread notification" not in (await browser.get("/notifications/bell")).text


async def test_rules_are_shown_changed_added_and_removed(browser: Browser, site: Harness) -> None:
    ada = await project_of(site)
    await site.submit(ada)
    page = read((await browser.get(PLACE)).text)
    assert "gpu-idle" in page.text
    assert page.inline == []
    assert (await browser.post(PLACE, name="gpu-idle", minutes="45", enabled="no")).status_code == 303
    fields: dict[str, Any] = {"kind": "metric-above", "metric": "train/loss", "threshold": "3", "minutes": "5"}
    assert (await browser.post(PLACE, name="loss-high", **fields)).status_code == 303
    rules = (await site.services.alerts.of_project(ada, "ada", "lab")).rules
    assert (rules["gpu-idle"].enabled, rules["gpu-idle"].minutes, rules["loss-high"].threshold) == (False, 45.0, 3.0)
    bad = await browser.post(PLACE, name="loss-high", threshold="high")
    assert (bad.status_code, "no number" in read(bad.text).text) == (422, True)
    worse = await browser.post(PLACE, name="other", kind="metric-above")
    assert (worse.status_code, "needs a metric" in read(worse.text).text) == (422, True)
    assert (await browser.post(f"{PLACE}/loss-high/remove")).status_code == 303
    assert "loss-high" not in (await site.services.alerts.of_project(ada, "ada", "lab")).rules
    assert (await browser.get("/projects/ada/none/alerts")).status_code == 404


async def test_the_secret_of_a_webhook_is_on_one_answer_only(browser: Browser, site: Harness) -> None:
    ada = await project_of(site)
    await site.submit(ada)
    hooks = "/projects/ada/lab/webhooks"
    answer = await browser.send(
        hooks,
        {"csrf_token": browser.csrf, "url": "https://hooks.example.org/x", "events": ["alert.fired", "job.failed"]},
    )
    assert "whsec_" in answer.text
    assert answer.headers["cache-control"] == "no-store"
    page = await browser.get(PLACE)
    assert "whsec_" not in page.text
    assert "alert.fired, job.failed" in read(page.text).text
    refused = await browser.post(hooks, url="https://10.0.0.1/x")
    assert (refused.status_code, "private network" in read(refused.text).text) == (422, True)
    (row,) = await site.services.webhooks.list(ada, "ada", "lab")
    assert (await browser.post(f"{hooks}/{row.id}/test")).status_code == 303
    assert "test.ping" in (await browser.get(PLACE)).text
    (delivery,), _more = await site.services.webhooks.deliveries(ada, "ada", "lab", row.id, before=None, limit=9)
    assert (await browser.post(f"{hooks}/{row.id}/deliveries/{delivery.id}/redeliver")).status_code == 303
    assert (await browser.post(f"{hooks}/{row.id}/enable")).status_code == 303
    assert (await browser.post(f"{hooks}/{row.id}/burn")).status_code == 404
    assert (await browser.post(f"{hooks}/{row.id}/remove")).status_code == 303
    assert await site.services.webhooks.list(ada, "ada", "lab") == []


async def test_machines_show_what_they_do_and_who_holds_their_cards(browser: Browser, site: Harness) -> None:
    site.scripted.invented = False
    ada = await project_of(site)
    job_id = await site.running_job(ada, jobspec(resources=gpu_pool(1)))
    measured = {"use": 93.0, "memory_used": 70e9, "temperature": 61.0, "power": 512.0}
    figures = measured | {"ecc_errors": 2.0, "ecc_corrected": 17.0, "slowed": 1.0}
    site.scripted.measured = lambda: NodeFigures(
        "node", site.time.now.timestamp(), {"cpu": 41.0, "memory_used": 5e9}, (CardFigures(0, False, figures),)
    )
    await look(site, role="sampler")
    page = await browser.get("/hardware")
    text = read(page.text).text
    assert all(shown in text for shown in ("41 %", "93 %", "61 °C", "512 W", job_id))
    assert all(shown in text for shown in ("slowed down", "17 corrected"))
    assert read(page.text).inline == []
    part = await browser.get("/hardware", **{"HX-Request": "true"})
    assert "<html" not in part.text
    site.time.pass_(3600)
    late = read((await browser.get("/hardware")).text).text
    assert ("93 %" in late, "last measured" in late) == (False, True)


async def test_invented_cards_are_named_and_have_no_figures(browser: Browser, site: Harness) -> None:
    await look(site, role="sampler")
    text = read((await browser.get("/hardware")).text).text
    assert "its cards are simulated" in text
    assert "°C" not in text
