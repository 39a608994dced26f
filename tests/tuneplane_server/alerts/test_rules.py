"""Rules of a project over the API: what may be set, what is refused with everything that is wrong, and whose they are."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tuneplane_server.harness import Api
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.alerts.rules import MAX_RULES

PLACE = "/api/v1/projects/ada/lab/alerts"


async def owner(api: Api) -> Principal:
    ada = await api.harness.user("ada")
    await api.harness.bring_package(ada)
    await api.harness.submit(ada)
    return ada


async def test_a_project_has_the_defaults_until_it_sets_its_own(api: Api) -> None:
    client = await api.client(await owner(api))
    rules = {rule["name"]: rule for rule in (await client.get(PLACE)).json()["rules"]}
    assert (rules["gpu-idle"]["enabled"], rules["gpu-idle"]["minutes"], rules["gpu-idle"]["origin"]) == (
        True,
        30,
        "default",
    )
    assert (rules["job-failed"]["metric"], rules["job-failed"]["minutes"]) == (None, None)
    answer = await client.put(f"{PLACE}/gpu-idle", json={"minutes": 45})
    assert answer.json() | {"text": ""} == {
        "name": "gpu-idle", "kind": "gpu-idle", "text": "", "enabled": True, "metric": None, "threshold": None,
        "minutes": 45.0, "reports": None, "origin": "changed",
    }  # fmt: skip
    await client.put(f"{PLACE}/gpu-idle", json={"enabled": False})
    rules = {rule["name"]: rule for rule in (await client.get(PLACE)).json()["rules"]}
    assert (rules["gpu-idle"]["enabled"], rules["gpu-idle"]["minutes"]) == (False, 45.0), "what is left out stays"
    assert (await client.delete(f"{PLACE}/gpu-idle")).status_code == 204
    rules = {rule["name"]: rule for rule in (await client.get(PLACE)).json()["rules"]}
    assert (rules["gpu-idle"]["enabled"], rules["gpu-idle"]["origin"]) == (True, "default")
    assert (await client.delete(f"{PLACE}/gpu-idle")).status_code == 404


async def test_an_own_rule_is_made_changed_and_removed(api: Api) -> None:
    client = await api.client(await owner(api))
    body = {"kind": "metric-below", "metric": "train/reward", "threshold": 0.2, "minutes": 10}
    assert (await client.put(f"{PLACE}/reward.low", json=body)).json()["origin"] == "own"
    changed = (await client.put(f"{PLACE}/reward.low", json={"threshold": 0.5})).json()
    assert (changed["threshold"], changed["metric"], changed["reports"]) == (0.5, "train/reward", 1)
    assert (await client.delete(f"{PLACE}/reward.low")).status_code == 204
    assert "reward.low" not in [rule["name"] for rule in (await client.get(PLACE)).json()["rules"]]


@pytest.mark.parametrize(("name", "body", "fields"), [
    ("x", {}, ["kind"]),
    ("x", {"kind": "metric-above"}, ["metric", "threshold"]),
    ("x", {"kind": "metric-above", "metric": "a", "threshold": 1, "minutes": 1e9}, ["minutes"]),
    ("x", {"kind": "metric-above", "metric": "a" * 201, "threshold": 1}, ["metric"]),
    ("x", {"kind": "of-tomorrow"}, ["kind"]),
    ("x", {"kind": "gpu-idle", "threshold": 3, "metric": "a"}, ["metric", "threshold"]),
    ("x", {"kind": "reward-collapse", "metric": "a", "threshold": 2}, ["threshold"]),
    ("x", {"kind": "metric-above", "metric": "a\0b", "threshold": 1}, ["metric"]),
    ("gpu-idle", {"kind": "kl-above"}, None),
    ("job-failed", {"minutes": 5}, ["minutes"]),
    ("x", {"kind": "gpu-idle", "colour": "red"}, None),
    ("-", {"kind": "gpu-idle"}, ["name"]),
    ("x" * 64, {"kind": "gpu-idle"}, ["name"]),
])  # fmt: skip
async def test_what_makes_no_sense_is_refused_with_all_that_is_wrong(
    site: Api, name: str, body: dict[str, Any], fields: list[str] | None
) -> None:
    client = await site.client(await owner(site))
    answer = await client.put(f"{PLACE}/{name}", json=body)
    assert answer.status_code == 422
    problem = answer.json()
    assert problem["detail"]
    if fields is not None:
        assert [refusal["field"].split(".")[-1] for refusal in problem["refusals"]] == fields


async def test_another_s_project_does_not_exist(site: Api) -> None:
    await owner(site)
    eve = await site.client(await site.harness.user("eve"))
    assert (await eve.get(PLACE)).status_code == 404
    assert (await eve.put(f"{PLACE}/gpu-idle", json={"enabled": False})).status_code == 404
    assert (await eve.get("/api/v1/projects/eve/none/alerts")).status_code == 404
    root = await site.client(await site.harness.user("root", admin=True))
    assert (await root.get(PLACE)).status_code == 200
    reader = await site.client(await site.harness.user("ann"), ("read",))
    assert (await reader.post("/api/v1/notifications/read", json={})).status_code == 403


async def test_rules_are_bounded(site: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_RULES == 100
    monkeypatch.setattr("tuneplane_server.features.alerts.service.MAX_RULES", 2)
    client = await site.client(await owner(site))
    answers = [await client.put(f"{PLACE}/r{number}", json={"kind": "gpu-idle"}) for number in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 409]


async def test_two_who_make_one_rule_at_the_same_moment_are_told_apart(
    site: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both have seen that there is none; the table takes one of them."""
    client = await site.client(await owner(site))
    assert (await client.put(f"{PLACE}/mine", json={"kind": "gpu-idle"})).status_code == 200

    async def none_yet(*_args: object) -> list[object]:
        return []

    monkeypatch.setattr("tuneplane_server.features.alerts.repo.rules", none_yet)
    answer = await client.put(f"{PLACE}/mine", json={"kind": "gpu-idle"})
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
