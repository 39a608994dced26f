"""Exporting from a job's page: the form with its options, a button for each checkpoint, and how an export is shown."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.tuneplane_server.console.conftest import Browser, app_of, browsing, read
from tests.tuneplane_server.console.test_job_actions import actions, field
from tests.tuneplane_server.harness import ON_SQLITE, Harness
from tests.tuneplane_server.jobs.test_exports import place_runtime, save, sft
from tests.tuneplane_server.jobs.test_steering import end, jobs_there_are
from tuneplane_server.domain.classify import Exit
from tuneplane_server.features.accounts.principal import Principal

pytestmark = [ON_SQLITE, pytest.mark.usefixtures("ada")]


@pytest.fixture
async def hers(harness: Harness, ada: Principal) -> AsyncIterator[Browser]:
    place_runtime(harness)
    async with browsing(app_of(harness)) as browser:
        await browser.become(harness.services, ada)
        yield browser


async def test_a_run_that_is_over_is_exported_once_with_the_options_of_the_form(
    harness: Harness, ada: Principal, hers: Browser
) -> None:
    job = await harness.running_job(ada, sft())
    await save(harness, job, 8, adapter=True)
    assert "export" not in actions((await hers.get(f"/jobs/{job}")).text, job)  # it runs
    await end(harness, job)
    text = (await hers.get(f"/jobs/{job}")).text
    assert "export" in actions(text, job)
    assert (await hers.post(f"/jobs/{job}/export", csrf=False)).status_code == 403
    options: dict[str, Any] = {
        "key": field(text, "export", "key"),
        "merge_lora": "yes",
        "dtype": "bfloat16",
        "step": "8",
    }
    places = {(await hers.post(f"/jobs/{job}/export", **options)).headers["location"] for _time in range(2)}
    assert (len(places), await jobs_there_are(harness)) == (1, 2)
    made = places.pop()[6:]
    action = (await harness.job(made)).spec["spec"]["action"]
    assert (action["merge_lora"], action["dtype"], action["name"]) == (True, "bfloat16", "step-8-merged")
    assert f"/jobs/{made}" in read((await hers.get(f"/jobs/{job}")).text).addresses
    page = (await hers.get(f"/jobs/{made}")).text
    assert "Exports a checkpoint of" in page
    assert f"/jobs/{job}" in read(page).addresses
    assert "Compare" not in page.split("job-head")[1].split("</header>")[0]


async def test_each_checkpoint_has_a_button_and_bad_steps_are_refused(
    harness: Harness, ada: Principal, hers: Browser
) -> None:
    job = await harness.running_job(ada, sft())
    await save(harness, job, 4)
    await save(harness, job, 8, complete=False)
    await end(harness, job)
    text = (await hers.get(f"/jobs/{job}/artifacts")).text
    assert text.count('name="step" value="') == 1
    assert 'name="step" value="4"' in text
    for odd in ("-1", "ten", "٣"):
        assert (await hers.post(f"/jobs/{job}/export", step=odd)).status_code == 422
    refused = await hers.post(f"/jobs/{job}/export", step="8")
    assert (refused.status_code, "trainer_state.json is missing" in refused.text) == (422, True)
    assert (await hers.post(f"/jobs/{job}/export", step="4", dtype="int4")).status_code == 422
    assert "holds no LoRA adapter" in (await hers.post(f"/jobs/{job}/export", merge_lora="yes")).text
    assert await jobs_there_are(harness) == 1


async def test_a_recipe_without_an_export_offers_none(harness: Harness, ada: Principal, hers: Browser) -> None:
    job = await harness.running_job(ada)
    await end(harness, job)
    assert "export" not in actions((await hers.get(f"/jobs/{job}")).text, job)


async def test_an_export_is_shown_with_its_files_and_size(harness: Harness, ada: Principal, hers: Browser) -> None:
    job = await harness.running_job(ada, sft())
    await save(harness, job, 4)
    await end(harness, job)
    made = (await hers.post(f"/jobs/{job}/export")).headers["location"][6:]
    await harness.round()
    out = harness.out(await harness.job(made)) / "exports" / "step-4"
    out.mkdir(parents=True)
    (out / "model.safetensors").write_bytes(b"x" * 2048)
    (out / "tuneplane-export.json").write_text('{"step": 4}')
    await harness.write_outcome(made)
    harness.scripted.containers[made, 1].exit = Exit(False, 0)
    await harness.round(3)
    text = (await hers.get(f"/jobs/{made}/artifacts")).text
    assert f"tp submit first --model run/{made}/export" in text
    assert "exports/step-4" in text
    assert "2 files" in text
    assert "export" not in actions((await hers.get(f"/jobs/{made}")).text, made)  # an export of an export
