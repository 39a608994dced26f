"""The buttons of a job's page, its attempts as a picture, and the links between runs that follow each other."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import pytest

from tests.tuneplane_server.console.conftest import Browser, app_of, browsing, read
from tests.tuneplane_server.harness import ON_SQLITE, Harness
from tests.tuneplane_server.jobs.test_steering import end, jobs_there_are, paused_job, save, unapproved
from tuneplane_server.domain.transitions import Event
from tuneplane_server.features.accounts.principal import Principal

pytestmark = [ON_SQLITE, pytest.mark.usefixtures("ada")]


@pytest.fixture
async def hers(harness: Harness, ada: Principal) -> AsyncIterator[Browser]:
    async with browsing(app_of(harness)) as browser:
        await browser.become(harness.services, ada)
        yield browser


def actions(text: str, job: str) -> set[str]:
    """The actions that the page offers for the job itself."""
    found = {
        address.rpartition("/")[2] for address in read(text).attributes("action") if address.startswith(f"/jobs/{job}/")
    }
    return found - {"samples"}


def field(text: str, action: str, name: str) -> str:
    """A hidden field of a form."""
    form = re.search(rf'<form [^>]*action="[^"]*/{action}".*?</form>', text, re.DOTALL)
    assert form is not None
    value = re.search(rf'name="{name}" value="([^"]*)"', form[0])
    assert value is not None
    return value[1]


async def test_a_job_offers_what_fits_its_state(harness: Harness, ada: Principal, hers: Browser) -> None:
    queued = await harness.submit(ada)
    assert actions((await hers.get(f"/jobs/{queued}")).text, queued) == {"pause", "cancel"}
    paused = await paused_job(harness, ada, 20)
    text = (await hers.get(f"/jobs/{paused}")).text
    assert actions(text, paused) == {"resume", "cancel"}
    assert "goes on from the checkpoint of step 20" in text
    failed = await harness.running_job(ada)
    await end(harness, failed)
    assert actions((await hers.get(f"/jobs/{failed}")).text, failed) == {"retry"}
    resumable = await harness.running_job(ada)
    await save(harness, resumable, 10)
    await end(harness, resumable)
    assert actions((await hers.get(f"/jobs/{resumable}")).text, resumable) == {"resume", "retry"}


async def test_pause_and_resume_need_their_forms(harness: Harness, ada: Principal, hers: Browser) -> None:
    job = await harness.running_job(ada)
    for action in ("pause", "resume", "retry", "approve", "reject"):
        assert (await hers.post(f"/jobs/{job}/{action}", csrf=False)).status_code == 403
        assert (await hers.post(f"/jobs/{job}/{action}", site="cross-site")).status_code == 403
    assert (await harness.job(job)).paused is False
    answer = await hers.post(f"/jobs/{job}/pause")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/jobs/{job}")
    text = (await hers.get(f"/jobs/{job}")).text
    assert ">pausing<" in text
    await harness.round(3)
    for path in ("/jobs", f"/jobs/{job}"):
        assert ">paused<" in (await hers.get(path)).text
    answer = await hers.post(f"/jobs/{job}/resume", key="k")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/jobs/{job}")
    assert (await harness.job(job)).paused is False


async def test_a_button_pressed_twice_makes_one_run_and_both_pages_link(
    harness: Harness, ada: Principal, hers: Browser
) -> None:
    job = await harness.running_job(ada)
    await save(harness, job, 10)
    await end(harness, job)
    text = (await hers.get(f"/jobs/{job}")).text
    keys = {action: field(text, action, "key") for action in ("resume", "retry")}
    assert len(set(keys.values())) == 2
    places = {
        (await hers.post(f"/jobs/{job}/{action}", key=keys[action])).headers["location"]
        for action in ("resume", "resume", "retry", "retry")
    }
    assert len(places) == 2
    assert await jobs_there_are(harness) == 3
    old = read((await hers.get(f"/jobs/{job}")).text).addresses
    for place in places:
        assert place in old
        assert f"/jobs/{job}" in read((await hers.get(place)).text).addresses


async def test_a_checkpoint_is_chosen_among_the_artifacts(harness: Harness, ada: Principal, hers: Browser) -> None:
    job = await harness.running_job(ada)
    for step in (10, 20):
        await save(harness, job, step)
    await save(harness, job, 30, complete=False)
    assert "Resume from here" not in (await hers.get(f"/jobs/{job}/artifacts")).text  # it runs
    await end(harness, job)
    text = (await hers.get(f"/jobs/{job}/artifacts")).text
    assert re.findall(r'name="from_step" value="(\d+)"', text) == ["20", "10"]
    place = (await hers.post(f"/jobs/{job}/resume", from_step="10", key="k")).headers["location"]
    (attempt,) = (await harness.services.jobs.attempts([place[6:]]))[place[6:]]
    assert attempt.resume_from is not None
    assert attempt.resume_from.endswith("checkpoint-10")
    for odd in ("-1", "ten", "٣"):
        assert (await hers.post(f"/jobs/{job}/resume", from_step=odd)).status_code == 422
    refused = await hers.post(f"/jobs/{job}/resume", from_step="30")
    assert refused.status_code == 422
    assert "its layout is not known" in refused.text


async def test_what_does_not_fit_is_a_page_that_names_the_state(
    harness: Harness, ada: Principal, hers: Browser
) -> None:
    job = await harness.running_job(ada)
    answer = await hers.post(f"/jobs/{job}/retry")
    assert answer.status_code == 409
    assert f"run {job} is not over: it is running" in answer.text
    assert "Traceback" not in answer.text


async def test_only_an_administrator_decides(harness: Harness, ada: Principal, hers: Browser) -> None:
    wanted, unwanted = await unapproved(harness, ada), await unapproved(harness, ada)
    assert actions((await hers.get(f"/jobs/{wanted}")).text, wanted) == {"pause", "cancel"}
    assert (await hers.post(f"/jobs/{wanted}/approve")).status_code == 403
    async with browsing(app_of(harness)) as theirs:
        await theirs.become(harness.services, await harness.user("root", admin=True))
        text = (await theirs.get(f"/jobs/{wanted}")).text
        assert actions(text, wanted) == {"approve", "reject", "pause", "cancel"}
        assert (await theirs.post(f"/jobs/{wanted}/approve")).headers["location"] == f"/jobs/{wanted}"
        assert (await theirs.post(f"/jobs/{unwanted}/reject", why="  ")).status_code == 422
        assert (await theirs.post(f"/jobs/{unwanted}/reject", why="too large")).status_code == 303
        assert (await theirs.post(f"/jobs/{wanted}/approve")).status_code == 409
    assert ((await harness.job(wanted)).approval, (await harness.job(unwanted)).phase) == ("given", "cancelled")
    assert "too large" in (await hers.get(f"/jobs/{unwanted}")).text


async def test_attempts_are_one_picture(harness: Harness, ada: Principal, hers: Browser) -> None:
    job = await harness.running_job(ada)
    assert 'id="attempts"' not in (await hers.get(f"/jobs/{job}")).text
    await save(harness, job, 20)
    harness.time.pass_(600)
    await harness.services.steering.pause(ada, job)
    await harness.round(3)
    harness.time.pass_(300)
    text = (await hers.get(f"/jobs/{job}")).text
    table = text[text.index('id="attempts"') :]
    table = table[: table.index("</section>")]
    assert re.findall(r'<rect class="([^"]*)"', table) == ["waited", "ran tone-quiet", "held"]
    assert "ran 10m" in table
    assert "paused 5m" in table
    assert "step 20" in table
    assert "starts when the job is resumed" in table
    widths = [float(width) for width in re.findall(r'<rect [^>]* width="([\d.]+)"', table)]
    assert widths[1] > widths[2] > widths[0]
    assert read(text).inline == []
    assert "尝试" in (await hers.get(f"/jobs/{job}", language="zh-CN")).text

    events = (await hers.get(f"/jobs/{job}/events")).text
    parked = events[: events.index('<span class="mono">parked</span>')].rpartition('<li id="event-')[2]
    assert 'data-phase="finishing"' in parked
    assert 'data-phase="queued"' not in parked
    assert "It waits until somebody resumes it." in parked

    root = Principal("", "root", admin=True, scopes=frozenset())
    await harness.services.governance.set_policy(root, "drain", {"on": True}, 0)  # it goes on, and has to wait
    await harness.services.ledger.apply(job, Event.RESUME, harness.services.ledger.evidence(data={"actor": "ada"}))
    harness.time.pass_(60)
    text = (await hers.get(f"/jobs/{job}")).text
    table = text[text.index('id="attempts"') :]
    assert re.findall(r'<rect class="([^"]*)"', table)[:4] == ["waited", "ran tone-quiet", "held", "waited"]
    assert "paused 5m" in table
    assert "waited 1m" in table
