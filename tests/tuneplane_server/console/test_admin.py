"""The administrators' pages: quotas that two people edit at once, and jobs that wait for their word."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.tuneplane_server.console.conftest import Browser, app_of, browsing
from tests.tuneplane_server.harness import ON_SQLITE, Harness
from tests.tuneplane_server.jobs.test_steering import unapproved
from tuneplane_server.features.accounts.principal import Principal

pytestmark = ON_SQLITE

EDIT = "/admin/quotas/edit"


@pytest.fixture
async def root(harness: Harness, ada: Principal) -> AsyncIterator[Browser]:
    async with browsing(app_of(harness)) as browser:
        await browser.become(harness.services, await harness.user("root", admin=True))
        yield browser


def hidden(text: str, name: str) -> str:
    form = text[text.index("quota-form") :]
    found = re.search(rf'name="{name}" value="([^"]*)"', form)
    assert found is not None
    return found[1]


async def test_only_administrators_get_there(harness: Harness, ada: Principal) -> None:
    async with browsing(app_of(harness)) as hers:
        await hers.become(harness.services, ada)
        for path in ("/admin/quotas", EDIT, "/admin/policies", "/admin/policies/drain", "/admin/approvals"):
            assert (await hers.get(path)).status_code == 403
        assert (await hers.post(EDIT, scope="user", name="ada", version="0", gpus="100")).status_code == 403
        assert "/admin/quotas" not in (await hers.get("/jobs")).text
    async with browsing(app_of(harness)) as nobody:
        assert (await nobody.get("/admin/quotas")).headers["location"].startswith("/signin")


async def test_a_quota_is_set_and_given_back_to_the_default(harness: Harness, root: Browser) -> None:
    assert (await root.post(EDIT, csrf=False, scope="user", name="", version="0", gpus="8")).status_code == 403
    answer = await root.post(EDIT, scope="user", name="", version="0", gpus="8", jobs="", profiles="h200\n\ncpu ")
    assert (answer.status_code, answer.headers["location"]) == (303, "/admin/quotas")
    text = (await root.get(f"{EDIT}?scope=user&name=ada")).text
    assert "empty: as the default, 8" in text
    answer = await root.post(EDIT, scope="user", name="ada", version="0", gpus_unlimited="yes", gpu_hours_day="12.5")
    assert answer.status_code == 303
    quota = await harness.services.governance.quota(await harness.services.governance.user("ada"))
    assert (dict(quota.own), quota.version) == ({"gpus": None, "gpu_hours_day": 12.5}, 1)
    text = (await root.get("/admin/quotas")).text
    assert 'GPU-hours a day: <span class="number">12.5</span>' in text
    assert "cpu" in text
    assert (await root.post(EDIT, scope="user", name="ada", version="1")).status_code == 303
    quota = await harness.services.governance.quota(await harness.services.governance.user("ada"))
    assert dict(quota.own) == {}


async def test_of_two_who_edit_one_quota_the_later_is_told_and_overwrites_nothing(
    harness: Harness, root: Browser
) -> None:
    version = hidden((await root.get(f"{EDIT}?scope=user&name=ada")).text, "version")
    assert (await root.post(EDIT, scope="user", name="ada", version=version, gpus="4")).status_code == 303
    answer = await root.post(EDIT, scope="user", name="ada", version=version, gpus="16")
    assert answer.status_code == 409
    assert "was changed meanwhile by root" in answer.text
    assert 'name="gpus" value="16"' in answer.text  # what was typed is not lost
    governance = harness.services.governance
    assert dict((await governance.quota(await governance.user("ada"))).own) == {"gpus": 4}
    again = hidden(answer.text, "version")
    assert (await root.post(EDIT, scope="user", name="ada", version=again, gpus="16")).status_code == 303
    assert dict((await governance.quota(await governance.user("ada"))).own) == {"gpus": 16}


@pytest.mark.parametrize(
    ("field", "text"),
    [("gpus", "-1"), ("gpus", "many"), ("jobs", "1.5"), ("gpu_hours_day", "nan"), ("max_seconds", "1e99")],
)
async def test_an_odd_figure_is_refused_beside_its_field(
    harness: Harness, root: Browser, field: str, text: str
) -> None:
    form = {"csrf_token": root.csrf, "scope": "user", "name": "ada", "version": "0", field: text}
    answer = await root.send(EDIT, form)
    assert answer.status_code == 422
    assert re.search(rf'name="{field}" value="{text}"[^>]*aria-invalid="true"', answer.text)
    assert (await harness.services.governance.quota(await harness.services.governance.user("ada"))).version == 0


async def test_whose_quota_it_is_must_exist(root: Browser) -> None:
    assert (await root.get(f"{EDIT}?scope=user&name=nobody")).status_code == 404
    assert (await root.get(f"{EDIT}?scope=project&name=ada/none")).status_code == 404
    assert (await root.get(f"{EDIT}?scope=project&name=ada")).status_code == 422
    assert (await root.get(f"{EDIT}?scope=galaxy")).status_code == 422
    assert (await root.post(EDIT, scope="user", name="ada", version="x")).status_code == 422


async def test_approvals_are_decided_in_the_list(harness: Harness, ada: Principal, root: Browser) -> None:
    assert "Nobody waits for you" in (await root.get("/admin/approvals")).text
    first, second = await unapproved(harness, ada), await unapproved(harness, ada)
    text = (await root.get("/admin/approvals")).text
    assert text.index(f"approval-{first}") < text.index(f"approval-{second}")
    answer = await root.post(f"/jobs/{first}/approve", back="approvals")
    assert answer.headers["location"] == "/admin/approvals"
    answer = await root.post(f"/jobs/{second}/reject", back="approvals", why="next week")
    assert answer.headers["location"] == "/admin/approvals"
    assert "Nobody waits for you" in (await root.get("/admin/approvals")).text
    assert (await harness.job(second)).phase == "cancelled"


async def test_a_policy_is_set_in_the_browser(harness: Harness, root: Browser) -> None:
    text = (await root.get("/admin/policies")).text
    assert 'href="/admin/policies/watchdog"' in text
    assert 'href="/admin/policies"' in (await root.get("/jobs")).text
    page = "/admin/policies/approval"
    version = hidden((await root.get(page)).text, "version")
    assert (await root.post(page, csrf=False, version=version, gpus="4")).status_code == 403
    assert (await root.post(page, version=version, gpus="4", seconds="")).headers["location"] == "/admin/policies"
    governance = harness.services.governance
    assert (await governance.approval()).model_dump() == {"gpus": 4, "seconds": None}
    assert 'more GPUs than: <span class="number">4</span>' in (await root.get("/admin/policies")).text
    answer = await root.post(page, version=version, gpus="9")
    assert answer.status_code == 409
    assert "was changed meanwhile by root" in answer.text
    assert 'name="gpus" value="9"' in answer.text
    assert (await governance.approval()).gpus == 4


async def test_maintenance_is_turned_on_with_a_text_and_off_again(harness: Harness, root: Browser) -> None:
    page = "/admin/policies/drain"
    assert (await root.post(page, version="0", on="yes", text="new disks")).status_code == 303
    drain = await harness.services.governance.drain()
    assert (drain.on, drain.text, drain.by) == (True, "new disks", "root")
    assert "checked" in (await root.get(page)).text
    assert (await root.post(page, version="1", text="")).status_code == 303
    assert not (await harness.services.governance.drain()).on


@pytest.mark.parametrize(
    ("entered", "field"),
    [
        ({"stalled_minutes": "soon"}, "stalled_minutes"),
        ({"stalled_minutes": "-3"}, "stalled_minutes"),
        ({"stalled_minutes": "", "stop_stalled": "yes"}, "stop_stalled"),
    ],
)
async def test_what_is_wrong_with_a_policy_stands_at_its_field(
    harness: Harness, root: Browser, entered: dict[str, Any], field: str
) -> None:
    answer = await root.post("/admin/policies/watchdog", version="0", **entered)
    assert answer.status_code == 422
    at_field = answer.text[answer.text.index(f'name="{field}"') :]
    assert 'role="alert"' in at_field[: at_field.index("</div>")]
    assert (await harness.services.governance.policy("watchdog")).version == 0


async def test_there_are_no_other_policies(root: Browser) -> None:
    assert (await root.get("/admin/policies/weather")).status_code == 404
    assert (await root.post("/admin/policies/weather", version="0")).status_code == 404
