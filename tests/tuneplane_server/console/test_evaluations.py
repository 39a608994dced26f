"""The pages of evaluations: the list, a job's report, and several side by side."""

from __future__ import annotations

import pytest

from tests.tuneplane_server.console.conftest import Browser, app_of, browsing, read
from tests.tuneplane_server.evaluation.build import evaluated, figure, finish, make_runtime, report, task
from tests.tuneplane_server.harness import Harness, jobspec
from tuneplane_server.features.accounts.principal import Principal

HOSTILE = '<script>alert("x")</script>'
LANGUAGES = ["en", "zh-Hans"]


@pytest.fixture
async def ada(site: Harness) -> Principal:
    ada = await site.user("ada")
    await site.bring_package(ada)
    return ada


async def page(site: Harness, reader: Principal, path: str, language: str = "en", status: int = 200) -> str:
    async with browsing(app_of(site)) as browser:
        await browser.become(site.services, reader)
        answer = await browser.get(path, language)
    assert answer.status_code == status, answer.text[:2000]
    assert read(answer.text).inline == []
    return answer.text


@pytest.mark.parametrize("language", LANGUAGES)
async def test_the_report_is_a_tab_of_its_job(site: Harness, ada: Principal, language: str) -> None:
    figures = [figure(0.25, 0.05), figure(17.5, None, name="ppl", filter="strict", higher_is_better=False)]
    content = report(
        task("arc", figures=figures, n=100, notes=[HOSTILE]),
        task(HOSTILE, 1.0, 0.0),
        settings={"system_prompt": HOSTILE},
    )
    job = await evaluated(site, ada, content, model={"base": "hf:Qwen/Qwen3-0.6B"})
    text = await page(site, ada, f"/jobs/{job}/evaluation", language)
    found = read(text)
    assert HOSTILE not in text
    assert found.attributes("data-figure") == ["arc/acc", "arc/ppl", f"{HOSTILE}/acc"]
    assert "hf:Qwen/Qwen3-0.6B" in found.text
    assert "100 / 600" in found.text
    widths = [values["width"] for tag, values in found.tags if tag == "rect" and values.get("class") == "value"]
    assert widths == ["25.0", "100.0"]  # what is no share has no bar
    reach = next(values for tag, values in found.tags if tag == "rect" and values.get("class") == "reach")
    assert (reach["x"], reach["width"]) == ("15.2", "19.6")


async def test_what_was_evaluated_is_named(site: Harness, ada: Principal) -> None:
    named = {"model": {"name": "/data/own-model"}}, {"model": {"name": "/x/attempts/1/out/tiny-model"}}
    own, tiny = [await evaluated(site, ada, report(**more)) for more in named]
    text = await page(site, ada, "/evaluations")
    assert "/data/own-model" in text
    assert "/out/tiny-model" not in text
    assert "own-model" in await page(site, ada, f"/jobs/{own}/evaluation")
    assert "the template&#39;s tiny model" in await page(site, ada, f"/jobs/{tiny}/evaluation")


async def test_a_job_without_a_report_says_how_to_get_one(site: Harness, ada: Principal) -> None:
    job = await site.running_job(ada)
    assert "read when the job has ended" in await page(site, ada, f"/jobs/{job}/evaluation")
    await finish(site, job, None)
    assert f"tp eval {job}" in await page(site, ada, f"/jobs/{job}/evaluation")


@pytest.mark.parametrize("language", LANGUAGES)
async def test_a_report_that_cannot_be_used_is_told_on_every_page_of_the_job(
    site: Harness, ada: Principal, language: str
) -> None:
    job = await evaluated(site, ada, b"<html>")
    for path, mark in (("", "evaluation-problem"), ("/logs", "evaluation-problem"), ("/evaluation", "report-problem")):
        text = await page(site, ada, f"/jobs/{job}{path}", language)
        assert mark in read(text).attributes("id")
        assert "evaluations/report.json" in text
    listed = await page(site, ada, "/evaluations", language)
    assert f'value="{job}"' not in listed  # nothing to compare
    assert f"/jobs/{job}/evaluation" in listed


@pytest.mark.parametrize("language", LANGUAGES)
async def test_gates_are_shown_with_what_became_of_them(site: Harness, ada: Principal, language: str) -> None:
    make_runtime(site)
    gates = [{"metric": "validation/arc/acc", "min": 0.4}, {"metric": "validation/arc/acc", "max": 0.495}]
    spec = {"method": "evalkit/benchmark", "evaluation": {"gates": [*gates, {"metric": HOSTILE, "min": 1}]}}
    job = await evaluated(site, ada, report(task("arc", 0.5, 0.02)), **spec)
    good = await evaluated(
        site, ada, report(task("arc", 0.45, 0.001)), method="evalkit/benchmark", evaluation={"gates": gates}
    )
    text = await page(site, ada, f"/jobs/{job}/evaluation", language)
    assert read(text).attributes("data-state") == ["passed", "failed", "missing"]
    assert "≥ 0.4" in text
    assert HOSTILE not in text
    listed = read(await page(site, ada, "/evaluations", language))
    assert [values["data-missed"] for _tag, values in listed.tags if "data-missed" in values] == ["0", "2"]
    assert f"evaluation-{good}-1" in listed.attributes("id")


async def test_the_list_is_filtered_and_leads_to_the_comparison(site: Harness, ada: Principal) -> None:
    first = await evaluated(site, ada, report(task("arc", 0.5)), model={"base": "hf:Qwen/Qwen3-0.6B"})
    other = jobspec()
    other["metadata"] |= {"project": "elsewhere", "display_name": HOSTILE}
    second = await site.running_job(ada, other)
    await finish(site, second, report(*(task(f"task-{number}") for number in range(6))))
    text = await page(site, ada, "/evaluations")
    assert [values["value"] for tag, values in read(text).tags if values.get("name") == "run" and tag == "input"] == [
        second,
        first,
    ]
    assert HOSTILE not in text
    assert "+2" in read(text).text
    for query, shown, hidden in (("project=elsewhere", second, first), ("model=hf:Qwen/Qwen3-0.6B", first, second)):
        found = await page(site, ada, f"/evaluations?{query}")
        assert f"evaluation-{shown}-1" in found
        assert f"evaluation-{hidden}-1" not in found
    assert "tp eval" in await page(site, ada, "/evaluations?project=nobody/nothing")
    await page(site, ada, "/evaluations?project=../x", status=422)


async def test_pages_of_the_list_keep_its_filters(
    site: Harness, ada: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuneplane_server.console.pages.evaluations.PAGE", 1)
    runs = [await evaluated(site, ada) for _number in range(2)]
    first = await page(site, ada, "/evaluations?project=lab")
    older = next(address for address in read(first).addresses if "cursor=" in address)
    assert "project=lab" in older
    second = await page(site, ada, older)
    assert f"evaluation-{runs[0]}-1" in second
    assert f"evaluation-{runs[1]}-1" not in second


@pytest.mark.parametrize("language", LANGUAGES)
async def test_side_by_side(site: Harness, ada: Principal, language: str) -> None:
    base = await evaluated(site, ada, report(task("arc", 0.5, 0.01), task("mmlu", 0.5), task("bbh", 0.5, n=8, total=8)))
    better = report(task("arc", 0.6, 0.01), task("mmlu", 0.51, version="9"), task("bbh", 0.9, n=8, total=8))
    other = await evaluated(site, ada, better)
    text = await page(site, ada, f"/evaluations/compare?run={base}&run={other}", language)
    found = read(text)
    assert found.attributes("data-compared") == [base, other]
    assert found.attributes("data-task") == ["arc", "mmlu", "bbh"]
    assert found.attributes("data-significant") == ["yes", "yes"]
    assert found.attributes("data-mismatch") == ["version"]
    assert "+0.1" in found.text
    assert f"/evaluations/compare?run={other}&run={base}" in found.addresses
    assert ("8)" in found.text) or ("8）" in found.text)


async def test_too_few_chosen_says_how_to_choose(site: Harness, ada: Principal) -> None:
    run = await evaluated(site, ada)
    for query in ("", f"?run={run}", f"?run={run}&run={run}"):
        assert "2 to 10" in await page(site, ada, f"/evaluations/compare{query}")


async def test_nothing_of_others_is_shown(site: Harness, ada: Principal, visitor: Browser) -> None:
    run = await evaluated(site, ada)
    eve = await site.user("eve")
    assert run not in await page(site, eve, "/evaluations")
    await page(site, eve, f"/jobs/{run}/evaluation", status=404)
    await page(site, eve, f"/evaluations/compare?run={run}&run={run}", status=404)
    assert (await visitor.get("/evaluations")).status_code == 303
