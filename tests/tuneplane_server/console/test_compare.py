"""The page that shows several runs side by side."""

from __future__ import annotations

from typing import Any

from tests.tuneplane_server.console.conftest import app_of, browsing, read
from tests.tuneplane_server.harness import Harness, jobspec
from tuneplane_server.console.views import compare as view

HOSTILE = '<script>alert("x")</script>'


def named(name: str, **config: Any) -> dict[str, Any]:
    spec = jobspec()
    spec["metadata"] |= {"name": name, "display_name": HOSTILE if name == "third" else name}
    spec["spec"]["config"] = config
    return spec


async def test_runs_side_by_side_with_the_settings_in_which_they_differ(site: Harness) -> None:
    ada = await site.user("ada")
    await site.bring_package(ada)
    runs = [
        await site.running_job(ada, named("first", learning_rate=1e-5, seed=1, only_here=True)),
        await site.running_job(ada, named("third", learning_rate=2e-5, seed=1)),
    ]
    async with browsing(app_of(site)) as browser:
        await browser.become(site.services, ada)
        page = await browser.get(f"/compare?run={runs[0]}&run={runs[1]}&run={runs[0]}")
        assert page.status_code == 200
        assert read(page.text).attributes("data-run") == runs
        assert read(page.text).attributes("data-colour") == ["--run-1", "--run-2"]
        assert HOSTILE not in page.text
        for shown in ("learning_rate", "1e-05", "2e-05", "only_here"):
            assert shown in page.text
        assert "<td" not in page.text.split("seed</th>")[0].split("learning_rate")[0]
        assert ">seed<" not in page.text  # they have it in common
        alone = await browser.get(f"/compare?run={runs[0]}")
        assert "settings-title" not in alone.text
        nothing = await browser.get("/compare")
        assert nothing.status_code == 200
        assert 'href="/jobs"' in nothing.text


async def test_a_foreign_run_is_not_found_and_says_nothing_of_the_others(site: Harness) -> None:
    ada, eve = await site.user("ada"), await site.user("eve")
    await site.bring_package(ada)
    hers = await site.running_job(ada)
    async with browsing(app_of(site)) as browser:
        await browser.become(site.services, eve)
        assert (await browser.get(f"/compare?run={hers}")).status_code == 404
        assert (await browser.get("/compare?run=" + "0" * 16)).status_code == 404
        assert (await browser.get("/compare?" + "&".join(["run=x"] * 51))).status_code == 422


def test_runs_of_one_name_are_told_apart() -> None:
    jobs = [{"id": f"{n:016}", "display_name": "", "experiment": "same"} for n in range(11)]
    jobs.append({"id": "f" * 16, "display_name": "other", "experiment": "same"})
    found = view.runs(jobs)
    assert [run["label"] for run in found[:2]] == ["same · 0000", "same · 0001"]
    assert found[-1]["label"] == "other"
    assert (found[0]["colour"], found[10]["colour"]) == ("--run-1", "--run-1")


def test_differences_leave_out_digests_and_what_is_too_much() -> None:
    specs = [
        {"spec": {"recipe": {"name": "a", "digest": f"{n}"}, "config": {"x": {"y": [n], "z": "long" * 100 * n}}}}
        for n in (1, 2)
    ]
    found = view.differences(specs)
    assert [row["name"] for row in found] == ["x.y", "x.z"]
    assert found[0]["values"] == ["[1]", "[2]"]
    assert max(len(value) for value in found[1]["values"]) == view.VALUE_LENGTH + 1
    many = [{"spec": {"config": {f"k{i}": n for i in range(500)}}} for n in (1, 2)]
    assert len(view.differences(many)) == view.ROWS
