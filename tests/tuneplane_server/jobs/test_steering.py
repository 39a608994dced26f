"""Pausing, resuming, retrying and approving over HTTP: what each does, and what a state that does not fit is told."""

from __future__ import annotations

import asyncio
import shutil
from typing import Any

import httpx2
import pytest
from sqlalchemy import func, select

from tests.tuneplane_server.harness import Api, Harness, jobspec
from tuneplane_server.domain.classify import Exit
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.jobs.tables import JobRow
from tuneplane_server.web.problems import ProblemError


async def act(
    client: httpx2.AsyncClient, job_id: str, action: str, body: Any = None, **headers: str
) -> httpx2.Response:
    return await client.post(f"/api/v1/jobs/{job_id}/{action}", json=body, headers=headers)


async def show(client: httpx2.AsyncClient, job_id: str) -> dict[str, Any]:
    answer = await client.get(f"/api/v1/jobs/{job_id}")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.json()
    return found


async def save(harness: Harness, job_id: str, step: int, *, complete: bool = True, attempt: int | None = None) -> str:
    """A checkpoint as a script of one's own writes it; its path."""
    path = harness.out(await harness.job(job_id), attempt) / "checkpoints" / f"checkpoint-{step}"
    path.mkdir(parents=True)
    (path / "weights.bin").write_bytes(b"x")
    if complete:
        (path / "COMPLETE").touch()
    return str(path)


async def end(harness: Harness, job_id: str, exit_code: int = 7) -> None:
    """The trainer fails by itself."""
    job = await harness.job(job_id)
    await harness.write_outcome(job_id, "failed", exit_code=exit_code)
    harness.scripted.containers[job_id, job.attempt].exit = Exit(False, exit_code)
    await harness.round(3)
    assert (await harness.job(job_id)).phase == "failed"


async def paused_job(harness: Harness, owner: Principal, *steps: int) -> str:
    """A job that ran, saved checkpoints and is parked now."""
    job_id = await harness.running_job(owner)
    for step in steps:
        await save(harness, job_id, step)
    await harness.services.steering.pause(owner, job_id)
    await harness.round(3)
    job = await harness.job(job_id)
    assert (job.phase, job.paused, job.attempt) == ("queued", True, 2)
    return job_id


async def jobs_there_are(harness: Harness) -> int:
    async with harness.services.database.session() as session:
        return await session.scalar(select(func.count()).select_from(JobRow)) or 0


# --- pause ------------------------------------------------------------------------------------------------------------


async def test_a_queued_job_is_held_back_and_let_go(api: Api, ada: Principal) -> None:
    harness = api.harness
    job_id = await harness.submit(ada)
    async with await api.client(ada) as client:
        answer = await act(client, job_id, "pause")
        assert (answer.status_code, answer.json()["phase"], answer.json()["paused"]) == (202, "queued", True)
        assert (await act(client, job_id, "pause")).status_code == 202  # as good as once
        await harness.round(2)
        assert harness.scripted.created == []
        answer = await act(client, job_id, "resume")
        assert (answer.status_code, answer.json()["id"], answer.json()["paused"]) == (202, job_id, False)
        await harness.round()
        assert (await show(client, job_id))["phase"] == "running"
    assert [kind for kind in await harness.kinds(job_id) if kind in ("pause", "resume")] == ["pause", "resume"]
    audited = await harness.services.audit.newest(target=job_id)
    assert [row.action for row in audited] == ["job.resume", "job.pause", "job.submit"]


async def test_a_running_job_is_stopped_parked_and_goes_on_from_its_newest_complete_checkpoint(
    api: Api, ada: Principal
) -> None:
    harness = api.harness
    job_id = await harness.running_job(ada)
    newest = await save(harness, job_id, 20)
    await save(harness, job_id, 10)
    await save(harness, job_id, 30, complete=False)
    async with await api.client(ada) as client:
        answer = (await act(client, job_id, "pause")).json()
        assert (answer["phase"], answer["paused"]) == ("running", True)
        assert [item["type"] for item in answer["conditions"]] == ["stopping"]
        await harness.round(3)
        assert harness.scripted.stopped == [(job_id, 1)]
        job = await show(client, job_id)
        assert (job["phase"], job["paused"], job["attempt"]) == ("queued", True, 2)
        assert [(item["phase"], (item["reason"] or {}).get("code")) for item in job["attempts"]] == [
            ("cancelled", "paused"),
            ("queued", None),
        ]
        point = {"run": job_id, "attempt": 1, "path": "checkpoints/checkpoint-20", "step": 20}
        assert job["resume_point"] == job["attempts"][1]["resumed"] == point
        await harness.round(2)
        assert harness.scripted.created == [(job_id, 1)]
        assert (await act(client, job_id, "resume")).status_code == 202
        await harness.round()
        job = await show(client, job_id)
    assert (job["phase"], job["attempts"][1]["resume_from"], job["resume_point"]) == ("running", newest, None)
    assert harness.scripted.created == [(job_id, 1), (job_id, 2)]


async def test_resuming_while_it_is_still_being_stopped_begins_the_next_attempt_at_once(
    api: Api, ada: Principal
) -> None:
    job_id = await api.harness.running_job(ada)
    async with await api.client(ada) as client:
        await act(client, job_id, "pause")
        assert (await act(client, job_id, "resume", {"from_step": 1})).json()["detail"] == (
            f"run {job_id} is still being stopped, so its last checkpoint is not known yet"
        )
        assert (await act(client, job_id, "resume")).json()["paused"] is False
        await api.harness.round(4)
        job = await show(client, job_id)
    assert (job["phase"], job["attempt"], job["paused"]) == ("running", 2, False)


async def test_another_complete_checkpoint_can_be_chosen_for_a_paused_job(api: Api, ada: Principal) -> None:
    job_id = await paused_job(api.harness, ada, 10, 20)
    async with await api.client(ada) as client:
        assert (await act(client, job_id, "resume", {"from_step": 10})).status_code == 202
        await api.harness.round()
        job = await show(client, job_id)
    assert job["attempts"][1]["resumed"]["step"] == 10
    capsule = (api.harness.out(await api.harness.job(job_id)).parent / "capsule" / "capsule.json").read_text()
    assert "checkpoint-10" in capsule


async def test_a_paused_job_that_is_cancelled_is_cancelled(api: Api, ada: Principal) -> None:
    parked, stopping = await paused_job(api.harness, ada, 5), await api.harness.running_job(ada)
    async with await api.client(ada) as client:
        await act(client, stopping, "pause")
        for job_id in (parked, stopping):
            await act(client, job_id, "cancel")
        await api.harness.round(3)
        for job_id in (parked, stopping):
            job = await show(client, job_id)
            assert (job["phase"], job["reason"]["code"], job["paused"]) == ("cancelled", "cancelled", False)


# --- a run that is over -----------------------------------------------------------------------------------------------


async def test_a_failed_run_is_retried_from_scratch_and_linked_both_ways(api: Api, ada: Principal) -> None:
    harness = api.harness
    job_id = await harness.running_job(ada, jobspec(env={"A": "b"}))
    await save(harness, job_id, 10)
    await end(harness, job_id)
    async with await api.client(ada) as client:
        answer = await act(client, job_id, "retry")
        new = answer.json()
        assert (answer.status_code, new["phase"], new["attempt"]) == (201, "queued", 1)
        assert new["id"] != job_id
        assert (new["origin"], new["attempts"][0]["resume_from"]) == ({"id": job_id, "kind": "retry"}, None)
        old = await show(client, job_id)
        assert old["phase"] == "failed"
        assert old["followers"] == [{"id": new["id"], "kind": "retry", "phase": "queued"}]
        assert new["spec"] == old["spec"]
        listed = {item["id"]: item for item in (await client.get("/api/v1/jobs")).json()["items"]}
        assert listed[new["id"]]["origin"] == {"id": job_id, "kind": "retry"}
        (event,) = (await client.get(f"/api/v1/jobs/{new['id']}/events")).json()["items"]
        assert job_id in event["text"]
    (entry,) = await harness.services.audit.newest(target=new["id"])
    assert (entry.action, entry.actor, entry.data["origin"]) == ("job.retry", "ada", job_id)


async def test_a_failed_run_is_resumed_as_a_new_run_from_its_checkpoint(api: Api, ada: Principal) -> None:
    harness = api.harness
    job_id = await harness.running_job(ada)
    older, newest = await save(harness, job_id, 10), await save(harness, job_id, 20)
    await save(harness, job_id, 30, complete=False)
    await end(harness, job_id)
    async with await api.client(ada) as client:
        assert (await show(client, job_id))["resume_point"]["step"] == 20
        answer = await act(client, job_id, "resume")
        new = answer.json()
        assert (answer.status_code, new["origin"]) == (201, {"id": job_id, "kind": "resume"})
        assert new["attempts"][0]["resume_from"] == newest
        chosen = (await act(client, job_id, "resume", {"from_step": 10})).json()
        assert chosen["attempts"][0]["resume_from"] == older
        assert {item["id"] for item in (await show(client, job_id))["followers"]} == {new["id"], chosen["id"]}
        await harness.round()
        # A run that comes to nothing before its own first checkpoint is followed from where it started.
        await end(harness, new["id"])
        third = (await act(client, new["id"], "resume")).json()
        assert (third["origin"]["id"], third["attempts"][0]["resume_from"]) == (new["id"], newest)
        again = (await act(client, new["id"], "resume", {"from_step": 20})).json()
        assert again["attempts"][0]["resume_from"] == newest


async def test_an_attempt_lost_before_its_own_checkpoint_is_followed_from_where_it_started(
    api: Api, ada: Principal
) -> None:
    harness = api.harness
    job_id = await harness.running_job(ada, jobspec(limits={"retries": {"infra": 1}}))
    start = await save(harness, job_id, 10)
    await end(harness, job_id)
    async with await api.client(ada) as client:
        new = (await act(client, job_id, "resume")).json()["id"]
        await harness.round()
        del harness.scripted.containers[new, 1]
        await harness.round(4)
        harness.time.pass_(3600)  # whatever the back-off
        await harness.round(2)
        job = await show(client, new)
    assert job["attempt"] == 2
    assert [item["resume_from"] for item in job["attempts"]] == [start, start]


async def test_a_key_makes_one_run_however_often_it_is_sent(api: Api, ada: Principal) -> None:
    job_id = await api.harness.running_job(ada)
    await save(api.harness, job_id, 10)
    await end(api.harness, job_id)
    key = {"Idempotency-Key": "k"}
    async with await api.client(ada) as client:
        answers = await asyncio.gather(*(act(client, job_id, "retry", **key) for _time in range(4)))
        assert {answer.status_code for answer in answers} == {201}
        assert len({answer.json()["id"] for answer in answers}) == 1
        for other in (
            await act(client, job_id, "resume", **key),
            await client.post("/api/v1/jobs", json=jobspec(), headers=key),
        ):
            assert (other.status_code, other.json()["code"]) == (409, "idempotency-conflict")
        resumed = [await act(client, job_id, "resume", **{"Idempotency-Key": "r"}) for _time in range(2)]
        assert len({answer.json()["id"] for answer in resumed}) == 1
        chosen = await act(client, job_id, "resume", {"from_step": 10}, **{"Idempotency-Key": "r"})
        assert chosen.json()["code"] == "idempotency-conflict"
    assert await jobs_there_are(api.harness) == 3


async def test_a_run_that_follows_goes_through_admission_anew(api: Api, ada: Principal) -> None:
    harness = api.harness
    job_id = await harness.running_job(ada)
    await save(harness, job_id, 10)
    await end(harness, job_id)
    harness.services.storage.package((await harness.job(job_id)).package_digest).unlink()
    async with await api.client(ada) as client:
        for action in ("retry", "resume"):
            answer = await act(client, job_id, action)
            assert (answer.status_code, answer.json()["code"]) == (422, "package-missing")
    assert await jobs_there_are(harness) == 1


async def test_a_run_that_an_administrator_retries_stays_its_owners(api: Api, ada: Principal) -> None:
    job_id = await api.harness.running_job(ada)
    await end(api.harness, job_id)
    root = await api.harness.user("root", admin=True)
    async with await api.client(root) as admin, await api.client(await api.harness.user("bob")) as bob:
        assert (await act(bob, job_id, "retry")).status_code == 404
        new = (await act(admin, job_id, "retry")).json()
        assert (new["owner"], new["project"]) == ("ada", "lab")
        assert (await act(bob, new["id"], "pause")).status_code == 404
    (entry,) = await api.harness.services.audit.newest(target=new["id"])
    assert (entry.actor, entry.data["owner"]) == ("root", "ada")


# --- what does not fit ------------------------------------------------------------------------------------------------


async def _states(harness: Harness, owner: Principal) -> dict[str, str]:
    """A job in every state that an action may not fit."""
    failed = await harness.running_job(owner)
    await end(harness, failed)
    succeeded = await harness.running_job(owner)
    await harness.write_outcome(succeeded)
    harness.scripted.containers[succeeded, 1].exit = Exit(False, 0)
    await harness.round(3)
    paused = await paused_job(harness, owner, 5)
    running = await harness.running_job(owner)
    cancelling = await harness.running_job(owner)
    await harness.services.jobs.cancel(owner, cancelling)
    queued = await harness.submit(owner)
    cancelled = await harness.submit(owner)
    await harness.services.jobs.cancel(owner, cancelled)
    return {
        "failed": failed, "succeeded": succeeded, "paused": paused, "running": running,
        "cancelling": cancelling, "queued": queued, "cancelled": cancelled,
    }  # fmt: skip


async def test_a_state_that_does_not_fit_is_named_and_nothing_changes(api: Api, ada: Principal) -> None:
    harness = api.harness
    states = await _states(harness, ada)
    expected = {
        ("pause", "failed"): ("is over: it failed", "tp job resume"),
        ("pause", "succeeded"): ("is over: it succeeded", "tp job resume"),
        ("pause", "cancelled"): ("is over: it was cancelled", "tp job resume"),
        ("pause", "cancelling"): ("is being cancelled", "tp job wait"),
        ("resume", "running"): ("is running, and not paused", "tp job pause"),
        ("resume", "queued"): ("is queued and not paused", "tp job show"),
        ("resume", "cancelling"): ("is being cancelled", "tp job resume"),
        ("retry", "running"): ("is not over: it is running", "tp job cancel"),
        ("retry", "queued"): ("is not over: it is queued", "tp job cancel"),
        ("retry", "paused"): ("is not over: it is paused", "tp job resume"),
        ("retry", "cancelling"): ("is being cancelled", "tp job retry"),
    }
    before = {name: await harness.job(job_id) for name, job_id in states.items()}
    async with await api.client(ada) as client:
        for (action, state), (said, hint) in expected.items():
            answer = await act(client, states[state], action)
            problem = answer.json()
            assert (answer.status_code, problem["code"]) == (409, "conflict"), (action, state)
            assert said in problem["detail"], (action, state)
            assert states[state] in problem["detail"]
            assert f"{hint} {states[state]}" in problem["hint"], (action, state)
    for name, job_id in states.items():
        now = await harness.job(job_id)
        assert (now.version, now.phase, now.paused) == (before[name].version, before[name].phase, before[name].paused)
    assert await jobs_there_are(harness) == len(states)


async def test_cancelling_what_is_over_is_refused_with_how_and_when_it_ended(api: Api, ada: Principal) -> None:
    harness = api.harness
    states = await _states(harness, ada)
    before = {name: await harness.job(job_id) for name, job_id in states.items()}
    async with await api.client(ada) as client:
        for state, said in (("failed", "it failed"), ("succeeded", "it succeeded"), ("cancelled", "it was cancelled")):
            answer = await act(client, states[state], "cancel")
            problem, ended = answer.json(), before[state].finished_at
            assert (answer.status_code, problem["code"], problem["phase"]) == (409, "conflict", state)
            assert ended is not None
            assert problem["finished_at"] == ended.isoformat()
            assert problem["detail"] == f"run {states[state]} is over: {said}, at {ended:%Y-%m-%d %H:%M:%S} UTC"
            assert f"tp job show {states[state]}" in problem["hint"]
            assert (await harness.job(states[state])).version == before[state].version
        again = await act(client, states["cancelling"], "cancel")  # it is being stopped: to say so again is fine
        assert (again.status_code, again.json()["desired"]) == (202, "cancel")
        await harness.round(3)
        assert (await act(client, states["cancelling"], "cancel")).status_code == 409


async def test_a_run_that_ends_while_its_cancel_is_written_is_refused_as_well(
    harness: Harness, ada: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = await harness.running_job(ada)
    apply = harness.services.ledger.apply

    async def ended_first(*given: Any, **more: Any) -> Any:
        monkeypatch.undo()
        await end(harness, job_id)
        return await apply(*given, **more)

    monkeypatch.setattr(harness.services.ledger, "apply", ended_first)
    with pytest.raises(ProblemError) as refusal:
        await harness.services.jobs.cancel(ada, job_id)
    assert "it failed" in refusal.value.detail


async def test_without_a_complete_checkpoint_nothing_is_resumed_and_a_retry_is_offered(
    api: Api, ada: Principal
) -> None:
    """scenario 31, seen from who wants to go on."""
    job_id = await api.harness.running_job(ada)
    await save(api.harness, job_id, 30, complete=False)
    await end(api.harness, job_id)
    async with await api.client(ada) as client:
        problem = (await act(client, job_id, "resume")).json()
        assert problem["code"] == "checkpoint-missing"
        assert "step 30: its layout is not known" in problem["detail"]
        assert f"tp job retry {job_id}" in problem["hint"]
        problem = (await act(client, job_id, "resume", {"from_step": 30})).json()
        assert (problem["code"], problem["refusals"][0]["field"]) == ("checkpoint-incomplete", "from_step")
    assert await jobs_there_are(api.harness) == 1


@pytest.mark.parametrize("over", [False, True])
async def test_an_incomplete_or_missing_checkpoint_is_refused_with_those_to_choose_from(
    api: Api, ada: Principal, over: bool
) -> None:
    harness = api.harness
    if over:
        job_id = await harness.running_job(ada)
        await save(harness, job_id, 10)
        gone = await save(harness, job_id, 20)
        await save(harness, job_id, 30, complete=False)
        await end(harness, job_id)
    else:
        job_id = await harness.running_job(ada)
        await save(harness, job_id, 10)
        gone = await save(harness, job_id, 20)
        await save(harness, job_id, 30, complete=False)
        await harness.services.steering.pause(ada, job_id)
        await harness.round(3)
    async with await api.client(ada) as client:
        problem = (await act(client, job_id, "resume", {"from_step": 30})).json()
        assert problem["code"] == "checkpoint-incomplete"
        assert "its layout is not known" in problem["detail"]
        assert "steps 10, 20" in problem["hint"]
        problem = (await act(client, job_id, "resume", {"from_step": 40})).json()
        assert (problem["code"], "no checkpoint of step 40" in problem["detail"]) == ("checkpoint-missing", True)
        await asyncio.to_thread(shutil.rmtree, gone)
        problem = (await act(client, job_id, "resume")).json()
        assert (problem["code"], gone in problem["detail"]) == ("checkpoint-missing", True)
        assert "step 10: tp job resume" in problem["hint"]
        assert (await act(client, job_id, "resume", {"from_step": 10})).status_code == (201 if over else 202)


@pytest.mark.parametrize(
    "body", [{"from_step": -1}, {"from_step": "ten"}, {"from_step": True}, {"from_step": 2**60}, {"x": 1}]
)
async def test_an_odd_step_is_no_step(api: Api, ada: Principal, body: dict[str, Any]) -> None:
    job_id = await paused_job(api.harness, ada, 5)
    async with await api.client(ada) as client:
        answer = await act(client, job_id, "resume", body)
        assert (answer.status_code, answer.json()["code"]) == (422, "request-invalid")
        assert (await show(client, job_id))["paused"] is True


# --- approval ---------------------------------------------------------------------------------------------------------


async def unapproved(harness: Harness, owner: Principal) -> str:
    job_id = await harness.submit(owner)
    async with harness.services.database.begin() as session:
        row = await session.get(JobRow, job_id)
        assert row is not None
        row.approval = "pending"
    return job_id


async def test_an_administrator_approves_or_rejects_once(api: Api, ada: Principal) -> None:
    harness = api.harness
    wanted, unwanted = await unapproved(harness, ada), await unapproved(harness, ada)
    root = await harness.user("root", admin=True)
    async with await api.client(ada) as client, await api.client(root) as admin:
        assert (await act(client, wanted, "approve")).status_code == 403
        await harness.round(2)
        assert harness.scripted.created == []
        answer = await act(admin, wanted, "approve")
        assert (answer.status_code, answer.json()["approval"]) == (202, "given")
        problem = (await act(admin, wanted, "approve")).json()
        assert (problem["code"], problem["detail"]) == ("conflict", f"run {wanted} was approved already")
        for bad in (None, {}, {"why": "  "}, {"why": "x" * 501}):
            assert (await act(admin, unwanted, "reject", bad)).status_code == 422
        answer = await act(admin, unwanted, "reject", {"why": "ask for fewer cards"})
        assert (answer.status_code, answer.json()["phase"]) == (202, "cancelled")
        assert answer.json()["reason"]["detail"] == "ask for fewer cards"
        assert (await act(admin, unwanted, "approve")).json()["detail"].endswith("is over: it was cancelled")
        plain = await harness.submit(ada)
        assert (await act(admin, plain, "approve")).json()["detail"] == f"run {plain} needs no approval"
        await harness.round()
        assert (await show(client, wanted))["phase"] == "running"
