"""The pages of sweeps."""

from __future__ import annotations

from tests.tuneplane_server.console.conftest import app_of, browsing, read
from tests.tuneplane_server.harness import Harness
from tests.tuneplane_server.sweeps.build import Sweeps, request

HOSTILE = '<script>alert("x")</script>'


async def test_a_sweep_is_listed_and_shown_with_its_trials_and_links(site: Harness) -> None:
    ada = await site.user("ada")
    await site.bring_package(ada)
    sweeps = Sweeps(site, ada)
    row = await sweeps.create(
        request({"method": "grid", "params": {"env.MODE": {"values": [HOSTILE, "b"]}}, "name": HOSTILE})
    )
    await sweeps.look()
    trials = await sweeps.trials(row.id)
    async with browsing(app_of(site)) as browser:
        await browser.become(site.services, ada)
        listed = await browser.get("/sweeps")
        assert f'href="/sweeps/{row.id}"' in listed.text
        assert "0 / 2" in listed.text
        page = await browser.get(f"/sweeps/{row.id}")
        assert page.status_code == 200
        assert read(page.text).attributes("data-trial") == ["0", "1"]
        assert HOSTILE not in page.text + listed.text
        for trial in trials:
            assert f'href="/jobs/{trial.job_id}"' in page.text
        assert f'href="/compare?run={trials[0].job_id}' in page.text
        part = await browser.get(f"/sweeps/{row.id}", **{"HX-Request": "true"})
        assert part.text.lstrip().startswith('<div id="sweep"')


async def test_the_page_of_a_trial_leads_to_its_sweep(site: Harness) -> None:
    ada = await site.user("ada")
    await site.bring_package(ada)
    sweeps = Sweeps(site, ada)
    row = await sweeps.create(request({"method": "grid", "params": {"env.LR": {"values": [1, 2]}}, "name": HOSTILE}))
    await sweeps.look()
    trial = (await sweeps.trials(row.id))[1]
    async with browsing(app_of(site)) as browser:
        await browser.become(site.services, ada)
        page = await browser.get(f"/jobs/{trial.job_id}")
        assert f'href="/sweeps/{row.id}#trial-1"' in page.text
        assert "trial 1" in page.text
        assert HOSTILE not in page.text
        assert 'id="trial-1"' in (await browser.get(f"/sweeps/{row.id}")).text


async def test_a_sweep_is_cancelled_and_resumed_by_its_buttons(site: Harness) -> None:
    ada = await site.user("ada")
    await site.bring_package(ada)
    sweeps = Sweeps(site, ada)
    row = await sweeps.create()
    async with browsing(app_of(site)) as browser:
        await browser.become(site.services, ada)
        await browser.post(f"/sweeps/{row.id}/cancel")
        await sweeps.look()
        await sweeps.look()
        assert (await sweeps.get(row.id)).state == "cancelled"
        assert f'action="/sweeps/{row.id}/resume"' in (await browser.get(f"/sweeps/{row.id}")).text
        await browser.post(f"/sweeps/{row.id}/resume")
    assert (await sweeps.get(row.id)).state == "running"


async def test_a_foreign_sweep_is_not_found(site: Harness) -> None:
    ada, eve = await site.user("ada"), await site.user("eve")
    await site.bring_package(ada)
    row = await Sweeps(site, ada).create()
    async with browsing(app_of(site)) as browser:
        await browser.become(site.services, eve)
        assert (await browser.get(f"/sweeps/{row.id}")).status_code == 404
        assert row.id not in (await browser.get("/sweeps")).text
