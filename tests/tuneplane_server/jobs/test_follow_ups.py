"""What a run asks for after its success: submitted once, whatever is killed; refused steps are told; nothing follows a failure."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tuneplane_server.harness import Api, Harness
from tests.tuneplane_server.jobs.test_exports import place_runtime, save, sft
from tests.tuneplane_server.jobs.test_steering import end, jobs_there_are
from tuneplane_server.domain.classify import Exit
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.jobs.follow_ups import FollowUps
from tuneplane_server.features.jobs.ledger import Ledger
from tuneplane_server.features.jobs.submission import Submissions


@pytest.fixture(autouse=True)
def runtime(harness: Harness) -> None:
    place_runtime(harness)


def asking(*steps: Any) -> dict[str, Any]:
    return sft(lifecycle={"on_success": list(steps)})


async def succeeded(harness: Harness, owner: Principal, spec: dict[str, Any], *, rounds: int = 3, **how: bool) -> str:
    job_id = await harness.running_job(owner, spec)
    await save(harness, job_id, 8, **how)
    await harness.write_outcome(job_id)
    harness.scripted.containers[job_id, 1].exit = Exit(False, 0)
    await harness.round(rounds)
    assert (await harness.job(job_id)).phase == "succeeded"
    return job_id


async def followers(api: Api, owner: Principal, job_id: str) -> list[dict[str, Any]]:
    async with await api.client(owner) as client:
        found: list[dict[str, Any]] = (await client.get(f"/api/v1/jobs/{job_id}")).json()["followers"]
    return found


async def test_an_export_follows_a_success_once_and_both_pages_say_so(api: Api, ada: Principal) -> None:
    harness = api.harness
    first = await succeeded(harness, ada, asking({"export": {"merge_lora": True, "dtype": "float16"}}), adapter=True)
    await harness.round(3)
    (link,) = await followers(api, ada, first)
    assert link["kind"] == "export"
    row = await harness.job(link["id"])
    action = row.spec["spec"]["action"]
    assert (action["name"], action["dtype"], action["merge_lora"]) == ("step-8-merged", "float16", True)
    assert row.spec["spec"]["lifecycle"]["on_success"] == []  # nothing follows what follows
    async with await api.client(ada) as client:
        events = (await client.get(f"/api/v1/jobs/{first}/events")).json()["items"]
    assert events[-1]["text"] == f"submitted after its success: {link['id']}"
    assert await jobs_there_are(harness) == 2


async def test_nothing_follows_a_failure(api: Api, ada: Principal) -> None:
    harness = api.harness
    first = await harness.running_job(ada, asking({"export": {}}))
    await save(harness, first, 8)
    await end(harness, first)
    await harness.round(2)
    assert await followers(api, ada, first) == []
    assert "followed" not in await harness.kinds(first)


KILLS = [
    (FollowUps, "make", True),
    (Submissions, "submit", True),
    (Submissions, "_insert", False),  # in the middle of the transaction
    (Submissions, "submit", False),
    (Ledger, "note", False),
]


@pytest.mark.parametrize(("owner", "name", "before"), KILLS)
async def test_a_console_killed_behind_any_line_makes_no_second_one(
    api: Api, ada: Principal, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, before: bool
) -> None:
    class KilledError(BaseException):
        """As SIGKILL: nothing catches it."""

    harness, real = api.harness, getattr(owner, name)
    follower = harness.loop("follower")
    harness.roles.loops.remove(follower)
    first = await succeeded(harness, ada, asking({"export": {}}, {"export": {"name": "other"}}))

    async def dying(*given: Any, **named: Any) -> Any:
        if not before:
            await real(*given, **named)
        raise KilledError

    with monkeypatch.context() as patch:
        patch.setattr(owner, name, dying)
        with pytest.raises(KilledError):
            await harness.services.follow_ups.make(first)
    await harness.restart()
    await harness.round(2)
    assert len(await followers(api, ada, first)) == 2
    assert (await harness.kinds(first)).count("followed") == 1
    await harness.services.follow_ups.make(first)  # asked again all the same
    assert len(await followers(api, ada, first)) == 2


async def test_two_consoles_make_one(api: Api, ada: Principal) -> None:
    harness = api.harness
    harness.roles.loops.remove(harness.loop("follower"))
    first = await succeeded(harness, ada, asking({"export": {}}))
    other = harness.replica()
    try:
        for roles in (other, await _restarted(harness)):
            await roles.loop("follower").tick()
            await roles.loop("follower").idle()
        assert len(await followers(api, ada, first)) == 1
    finally:
        await other.services.database.close()


async def _restarted(harness: Harness) -> Harness:
    await harness.restart()
    return harness


async def test_a_step_that_is_refused_is_told_and_the_next_is_made(api: Api, ada: Principal) -> None:
    harness = api.harness
    first = await succeeded(harness, ada, asking({"export": {"merge_lora": True}}, {"export": {}}))
    await harness.round(2)
    assert len(await followers(api, ada, first)) == 1
    async with await api.client(ada) as client:
        texts = [item["text"] for item in (await client.get(f"/api/v1/jobs/{first}/events")).json()["items"]]
    (told,) = [text for text in texts if text.startswith("step 1 after its success was refused: ")]
    assert "holds no LoRA adapter" in told


async def test_a_full_quota_lets_it_wait(api: Api, ada: Principal, monkeypatch: pytest.MonkeyPatch) -> None:
    from tuneplane.contract.refusals import Refusal, RefusedError

    harness, real = api.harness, Submissions.submit

    async def full(*_given: Any, **_named: Any) -> Any:
        raise RefusedError([Refusal("quota-exceeded", "full")])

    first = await harness.running_job(ada, asking({"export": {}}))
    monkeypatch.setattr(Submissions, "submit", full)
    await save(harness, first, 8)
    await harness.write_outcome(first)
    harness.scripted.containers[first, 1].exit = Exit(False, 0)
    await harness.round(4)
    assert "followed" not in await harness.kinds(first)
    monkeypatch.setattr(Submissions, "submit", real)
    harness.time.pass_(3600)  # it rests meanwhile
    await harness.round(2)
    assert len(await followers(api, ada, first)) == 1


@pytest.mark.parametrize(
    ("step", "text"),
    [
        ({"eval": {}}, "a step after the run is {export: {…}}, not {eval}"),
        ({"export": {}, "eval": {}}, "a step after the run is {export: {…}}, not {eval, export}"),
        ({"export": {"dtype": "int4"}}, "float32"),
        ({"export": {"step": 4}}, "Extra inputs"),
    ],
)  # fmt: skip
async def test_other_steps_are_refused_before_the_run(api: Api, ada: Principal, step: Any, text: str) -> None:
    await api.harness.bring_package(ada)
    async with await api.client(ada) as client:
        answer = await client.post("/api/v1/jobs", json=asking(step))
    assert answer.status_code == 422
    (refusal,) = answer.json()["refusals"]
    assert text in refusal["message"]
    assert refusal["field"].startswith("spec.lifecycle.on_success.0")


async def test_a_recipe_without_an_export_is_told_so_before_the_run(api: Api, ada: Principal) -> None:
    from tests.tuneplane_server.harness import jobspec

    await api.harness.bring_package(ada)
    async with await api.client(ada) as client:
        answer = await client.post("/api/v1/jobs", json=jobspec(lifecycle={"on_success": [{"export": {}}]}))
    assert [item["code"] for item in answer.json()["refusals"]] == ["export-impossible"]
