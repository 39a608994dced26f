"""The list of jobs and the pages of one job, with what the services really have, on both databases."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.tuneplane_server.console.conftest import Browser, app_of, browsing, read
from tests.tuneplane_server.harness import Harness, gpu_pool, jobspec
from tests.tuneplane_server.telemetry import build
from tuneplane_server.executors.port import LaunchRefusedError
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.jobs.tables import JobRow

HOSTILE = '<script>alert("x")</script>'


@pytest.fixture
async def ada_browser(harness: Harness, ada: Principal) -> AsyncIterator[Browser]:
    async with browsing(app_of(harness)) as browser:
        await browser.become(harness.services, ada)
        yield browser


def named(name: str, **metadata: Any) -> dict[str, Any]:
    spec = jobspec()
    spec["metadata"] |= {"name": name} | metadata
    return spec


def rows(text: str) -> list[str]:
    """The run ids of the list, in order."""
    return read(text).attributes("data-job")


async def test_an_empty_list_tells_the_next_commands(ada_browser: Browser) -> None:
    page = await ada_browser.get("/jobs")
    assert page.status_code == 200
    for command in ("tp login", "tp init", "tp new", "tp submit"):
        assert command in page.text


async def test_the_list_filters_by_phase_project_and_text(
    harness: Harness, ada: Principal, ada_browser: Browser
) -> None:
    running = await harness.running_job(ada, named("warm-up"))
    harness.time.pass_(1)
    queued = await harness.submit(ada, named("later", project="other", display_name="The Big One"))
    assert rows((await ada_browser.get("/jobs")).text) == [queued, running]
    for query, expected in {
        "phase=running": [running],
        "phase=queued": [queued],
        "phase=lost": [],
        "phase=nonsense": [queued, running],
        "project=other": [queued],
        "project=@ada/lab": [running],
        "project=@bob/lab": [],
        "q=WARM": [running],
        "q=big+one": [queued],
        f"q={running[-6:]}": [running],
        "q=custom/custom": [queued, running],
        "q=%25": [],
        "q=nothing+like+it": [],
    }.items():
        page = await ada_browser.get(f"/jobs?{query}")
        assert page.status_code == 200
        assert rows(page.text) == expected, query
    assert "No job fits these filters" in (await ada_browser.get("/jobs?phase=lost")).text


async def test_phases_carry_an_icon_a_word_and_a_count(harness: Harness, ada: Principal, ada_browser: Browser) -> None:
    await harness.running_job(ada)
    await harness.submit(ada)
    text = (await ada_browser.get("/jobs")).text
    assert text.count('data-phase="running"') == text.count('data-phase="queued"') == 1
    pill = text[text.index('data-phase="running"') :][:600]
    assert "<svg" in pill
    assert "Running</span>" in pill
    tabs = read(text).text
    assert "Running 1" in " ".join(tabs.split())


async def test_older_jobs_are_a_page_away(harness: Harness, ada: Principal, ada_browser: Browser) -> None:
    jobs = []
    for _number in range(53):
        harness.time.pass_(1)  # ids sort by time
        jobs.append(await harness.submit(ada))
    first = await ada_browser.get("/jobs?q=first")
    assert rows(first.text) == jobs[:2:-1]
    (older,) = [
        address for address in read(first.text).addresses if "cursor=" in address and address.startswith("/jobs?")
    ]
    second = await ada_browser.get(older)
    assert rows(second.text) == jobs[2::-1]
    assert "/jobs?q=first" in read(second.text).addresses


async def test_a_part_for_htmx_is_the_table_alone(ada_browser: Browser) -> None:
    part = await ada_browser.get("/jobs", **{"HX-Request": "true"})
    assert part.text.lstrip().startswith('<div id="jobs"')
    assert "<html" not in part.text


async def test_nobody_sees_the_jobs_of_others(harness: Harness, ada: Principal, ada_browser: Browser) -> None:
    job = await harness.running_job(ada)
    async with browsing(app_of(harness)) as other:
        await other.become(harness.services, await harness.user("bob"))
        assert rows((await other.get("/jobs")).text) == []
        for path in ("", "/logs", "/samples", "/artifacts", "/events", "/environment", "/head"):
            assert (await other.get(f"/jobs/{job}{path}")).status_code == 404
        assert (await other.post(f"/jobs/{job}/cancel")).status_code == 404
        assert (await other.get(f"/jobs/sparklines?id={job}")).json() == {"values": {job: []}}
    assert (await harness.job(job)).desired == "run"


async def test_sparklines_are_the_main_metric_of_the_newest_attempt(
    harness: Harness, ada: Principal, ada_browser: Browser
) -> None:
    job, empty = await harness.running_job(ada), await harness.submit(ada)
    store = harness.services.telemetry.store
    await store(job, 1, build.metrics(build.metric(1, {"train/loss": [3.0, float("nan"), 1.0], "system/cpu": [9.0]})))
    answer = await ada_browser.get(f"/jobs/sparklines?id={job}&id={empty}")
    assert answer.json() == {"values": {job: [3.0, "NaN", 1.0], empty: []}}
    row = (await ada_browser.get("/jobs")).text
    assert 'data-metric="train/loss"' in row


async def test_a_waiting_job_says_what_it_waits_for(harness: Harness, ada: Principal, ada_browser: Browser) -> None:
    await harness.running_job(ada, jobspec(resources=gpu_pool(8)))
    waiting = await harness.submit(ada, jobspec(resources=gpu_pool(4)))
    await harness.round()
    for path in ("/jobs", f"/jobs/{waiting}"):
        assert "needs 4 h200 on one node; none free; held by run" in (await ada_browser.get(path)).text


async def test_a_failed_job_says_why_and_what_to_do(harness: Harness, ada: Principal, ada_browser: Browser) -> None:
    harness.scripted.launch_errors.append(LaunchRefusedError("image-not-found", {"image": "registry.test/x:1"}))
    failed = await harness.submit(ada)
    await harness.round(2)
    page = (await ada_browser.get(f"/jobs/{failed}")).text
    assert "the training image does not exist in its registry: registry.test/x:1" in page
    assert "check the name, the tag and the architecture of the image" in page
    assert "image-not-found" in page
    assert "the experiment" in page
    chinese = (await ada_browser.get(f"/jobs/{failed}", language="zh-CN")).text
    assert "镜像仓库里没有这个训练镜像" in chinese
    assert "检查镜像的名字、标签和架构" in chinese


async def test_conditions_are_shown_and_are_no_failure(harness: Harness, ada: Principal, ada_browser: Browser) -> None:
    job = await harness.running_job(ada)
    harness.scripted.reachable = False
    harness.time.pass_(60)
    await harness.round()
    page = (await ada_browser.get(f"/jobs/{job}")).text
    assert 'data-phase="running"' in page
    assert "unreachable" in page
    assert "it may well be running" in page


async def test_simulated_cards_are_marked(harness: Harness, ada: Principal, ada_browser: Browser) -> None:
    simulated = await harness.submit(ada, jobspec(resources=gpu_pool(1)))
    real = await harness.submit(ada)
    assert "Simulated" in (await ada_browser.get(f"/jobs/{simulated}")).text
    assert "Simulated" not in (await ada_browser.get(f"/jobs/{real}")).text


async def test_a_job_that_nothing_separates_from_its_machine_is_marked(
    harness: Harness, ada: Principal, ada_browser: Browser
) -> None:
    job = await harness.submit(ada)
    assert "Not isolated" not in (await ada_browser.get(f"/jobs/{job}")).text  # nobody knows yet
    await harness.round()
    assert "Not isolated" in (await ada_browser.get(f"/jobs/{job}")).text
    assert "scripted, not isolated from its machine" in (await ada_browser.get(f"/jobs/{job}/environment")).text
    assert "未隔离" in (await ada_browser.get(f"/jobs/{job}", language="zh-CN")).text


async def test_a_job_in_a_container_is_not_marked(harness: Harness, ada: Principal, ada_browser: Browser) -> None:
    job = await harness.running_job(ada)
    async with harness.services.database.begin() as session:
        row = await session.get(JobRow, job)
        assert row is not None
        row.handle = {**(row.handle or {}), "runtime": "docker", "isolated": True}
    assert "Not isolated" not in (await ada_browser.get(f"/jobs/{job}")).text
    assert "docker" in (await ada_browser.get(f"/jobs/{job}/environment")).text


async def test_cancel_needs_the_form_and_is_asked_once(harness: Harness, ada: Principal, ada_browser: Browser) -> None:
    job = await harness.running_job(ada)
    page = await ada_browser.get(f"/jobs/{job}")
    assert f"/jobs/{job}/cancel" in read(page.text).addresses
    assert read(page.text).attributes("data-confirm") == ["Pause this job?", "Cancel this job?"]
    assert (await ada_browser.post(f"/jobs/{job}/cancel", csrf=False)).status_code == 403
    assert (await harness.job(job)).desired == "run"
    answer = await ada_browser.post(f"/jobs/{job}/cancel")
    assert (answer.status_code, answer.headers["location"]) == (303, f"/jobs/{job}")
    assert (await harness.job(job)).desired == "cancel"
    assert "cancel asked" in (await ada_browser.get(f"/jobs/{job}")).text
    await harness.round(2)
    assert f"/jobs/{job}/cancel" not in read((await ada_browser.get(f"/jobs/{job}")).text).addresses


async def test_every_tab_is_a_link_and_a_part(harness: Harness, ada: Principal, ada_browser: Browser) -> None:
    job = await harness.running_job(ada)
    for path in ("", "/logs", "/samples", "/artifacts", "/events", "/environment"):
        whole = await ada_browser.get(f"/jobs/{job}{path}")
        assert whole.status_code == 200
        assert whole.text.count('id="panel"') == 1
        current = [
            values
            for tag, values in read(whole.text).tags
            if tag == "a" and "data-tab" in values and "aria-current" in values
        ]
        assert [values["href"] for values in current] == [f"/jobs/{job}{path}"]
        part = await ada_browser.get(f"/jobs/{job}{path}", **{"HX-Request": "true"})
        assert part.text.lstrip().startswith("<section")


async def test_samples_come_newest_first_with_their_rewards(
    harness: Harness, ada: Principal, ada_browser: Browser
) -> None:
    job = await harness.running_job(ada)
    store = harness.services.telemetry.store
    for step in range(1, 31):
        record = build.sample(step, f"answer {step} {HOSTILE}", step=step)
        await store(job, 1, build.Batch(samples=[record]))
    first = (await ada_browser.get(f"/jobs/{job}/samples")).text
    assert first.index("answer 30") < first.index("answer 29") < first.index("answer 7")
    assert "answer 6 " not in first
    (more,) = {address for address in read(first).addresses if "cursor=" in address}
    assert "answer 6 " in (await ada_browser.get(more)).text
    one = (await ada_browser.get(f"/jobs/{job}/samples?step=5&kind=completion")).text
    assert "answer 5 " in one
    assert "answer 30" not in one
    assert "No samples here" in (await ada_browser.get(f"/jobs/{job}/samples?step=5&kind=preference")).text
    assert "answer 30" in (await ada_browser.get(f"/jobs/{job}/samples?step=x&kind=y")).text


async def test_the_timeline_shows_what_was_ignored(harness: Harness, ada: Principal, ada_browser: Browser) -> None:
    job = await harness.running_job(ada)
    await harness.write_outcome(job)
    await harness.round()
    await harness.services.jobs.cancel(ada, job)
    page = (await ada_browser.get(f"/jobs/{job}/events")).text
    kinds = await harness.kinds(job)
    assert [kind for kind in kinds if kind not in page] == []
    assert "submitted by ada" in page


async def test_artifacts_show_checkpoints_and_files(harness: Harness, ada: Principal, ada_browser: Browser) -> None:
    job = await harness.running_job(ada)
    out = harness.out(await harness.job(job))
    (out / "checkpoints/checkpoint-4").mkdir(parents=True)
    (out / "checkpoints/checkpoint-4/model.safetensors").write_bytes(b"x" * 2000)
    (out / f"notes {HOSTILE.replace('/', '_')}.txt").write_text("hello")
    await harness.services.artifacts.register(job, 1, out)
    page = (await ada_browser.get(f"/jobs/{job}/artifacts")).text
    assert "checkpoints/checkpoint-4" in page
    assert "incomplete" in page
    assert "2.00 kB" in page
    assert f"tp job download {job}" in page
    (download,) = [address for address in read(page).addresses if "model.safetensors" in address]
    file = await ada_browser.get(download)
    assert file.content == b"x" * 2000
    assert file.headers["content-disposition"].startswith("attachment")


async def test_the_environment_shows_spec_command_and_hyperparameters(
    harness: Harness, ada: Principal, ada_browser: Browser
) -> None:
    job = await harness.running_job(ada, jobspec(env={"ODD": HOSTILE}, config={"a": {"b": 1.5}}))
    events = [
        build.event(1, "trainer-started", {"pid": 7, "command": ["sh", "train me.sh"]}),
        build.event(2, "hyperparams", {"optim": "adamw"}),
        build.event(3, "environment", {"python": "3.11.9"}),
    ]
    await harness.services.telemetry.store(job, 1, build.Batch(events=events))
    page = (await ada_browser.get(f"/jobs/{job}/environment")).text
    words = "".join(read(page).text.split())
    for expected in ("sh 'train me.sh'", "a.b 1.5", "optim adamw", "python 3.11.9", f"ODD {HOSTILE}", "recipe digest"):
        assert expected.replace(" ", "") in words
    assert HOSTILE not in page


async def test_hostile_names_are_text_everywhere(harness: Harness, ada: Principal, ada_browser: Browser) -> None:
    job = await harness.running_job(ada, named("first", display_name=HOSTILE))
    for path in ("/jobs", f"/jobs?q={HOSTILE}", f"/jobs?project={HOSTILE}", f"/jobs/{job}", f"/jobs/{job}/head"):
        page = await ada_browser.get(path)
        assert page.status_code == 200
        assert HOSTILE not in page.text, path
        assert read(page.text).inline == []


async def test_an_odd_cursor_is_a_clear_error(ada_browser: Browser) -> None:
    page = await ada_browser.get("/jobs?cursor=made-up")
    assert page.status_code == 422
    assert "the cursor is not one this console gave" in page.text
