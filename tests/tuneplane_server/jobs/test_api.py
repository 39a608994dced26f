"""Submitting, listing, looking and cancelling over HTTP; who sees whose jobs; a submission that is repeated."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import httpx2
import pytest
from sqlalchemy import func, select

from tests.tuneplane_server.harness import Api, gpu_pool, jobspec, package
from tuneplane_server.domain.classify import Exit
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.jobs.query import JobQuery
from tuneplane_server.features.jobs.tables import JobRow

DIGEST = hashlib.sha256(package()).hexdigest()


async def submit(client: httpx2.AsyncClient, spec: Any = None, **headers: str) -> httpx2.Response:
    return await client.post("/api/v1/jobs", json=spec or jobspec(), headers=headers)


async def count(api: Api) -> int:
    async with api.harness.services.database.session() as session:
        return await session.scalar(select(func.count()).select_from(JobRow)) or 0


async def test_a_package_is_brought_once_and_a_job_made_of_it(api: Api) -> None:
    async with await api.client(await api.harness.user("ada")) as client:
        assert (await client.head(f"/api/v1/packages/{DIGEST}")).status_code == 404
        brought = await client.put(f"/api/v1/packages/{DIGEST}", content=package())
        assert (brought.status_code, brought.json()["size"]) == (201, len(package()))
        assert (await client.head(f"/api/v1/packages/{DIGEST}")).status_code == 200
        answer = await submit(client)
        assert answer.status_code == 201
        job = answer.json()
        assert (job["phase"], job["owner"], job["project"], job["attempt"]) == ("queued", "ada", "lab", 1)
        assert job["spec"]["spec"]["recipe"]["name"] == "custom/custom"
        assert (await client.get(f"/api/v1/jobs/{job['id']}")).json() == job
        assert (await client.get("/api/v1/projects")).json()["items"][0]["name"] == "lab"


async def test_a_package_that_is_not_what_was_announced_is_not_kept(api: Api) -> None:
    async with await api.client(await api.harness.user("ada")) as client:
        for content in (package() + b"x", b"", b"not gzip"):
            answer = await client.put(f"/api/v1/packages/{DIGEST}", content=content)
            assert (answer.status_code, answer.json()["code"]) == (422, "package-mismatch")
        odd = b"not gzip"
        answer = await client.put(f"/api/v1/packages/{hashlib.sha256(odd).hexdigest()}", content=odd)
        assert answer.json()["code"] == "package-mismatch"
        assert (await client.head(f"/api/v1/packages/{DIGEST}")).status_code == 404
        assert (await client.put("/api/v1/packages/..%2f..%2fetc", content=b"x")).status_code in (404, 422)
    stored = [
        path for path in (api.harness.folder / "root").rglob("*") if path.is_file() and path.parent.name == "packages"
    ]
    assert stored == []


async def test_two_uploads_of_one_package_at_once_are_both_fine(api: Api) -> None:
    async with (
        await api.client(await api.harness.user("ada")) as hers,
        await api.client(await api.harness.user("bob")) as his,
    ):
        answers = await asyncio.gather(
            *(client.put(f"/api/v1/packages/{DIGEST}", content=package()) for client in (hers, his, hers, his))
        )
    assert [answer.status_code for answer in answers] == [201] * 4
    assert api.harness.services.storage.package(DIGEST).read_bytes() == package()


async def test_a_refusal_changes_nothing_and_tells_everything(api: Api, ada: Principal) -> None:
    async with await api.client(ada) as client:
        answer = await submit(client, jobspec(resources=gpu_pool(64), secrets=["X"]))
        assert answer.status_code == 422
        assert [item["code"] for item in answer.json()["refusals"]] == ["pool-impossible", "secret-missing"]
        assert (await client.post("/api/v1/jobs", content=b"{")).status_code == 400
    assert await count(api) == 0


async def test_a_dry_run_shows_the_plan_and_changes_nothing(api: Api) -> None:
    """Before anything was uploaded."""
    async with await api.client(await api.harness.user("ada")) as client:
        answer = await client.post("/api/v1/jobs?dry_run=true", json=jobspec(env={"A": "b"}))
        assert answer.status_code == 200
        body = answer.json()
        assert (body["admitted"], body["refusals"]) == (True, [])
        assert body["plan"]["env"]["A"] == "b"
        assert body["plan"]["argv_preview"]
        refused = (await client.post("/api/v1/jobs?dry_run=true", json=jobspec(resources=gpu_pool(64)))).json()
        assert refused["admitted"] is False
        assert refused["refusals"][0]["code"] == "pool-impossible"
    assert await count(api) == 0


# --- idempotency ------------------------------------------------------------------------------------------------------


async def test_a_repeated_submission_gets_the_first_answer(api: Api, ada: Principal) -> None:
    async with await api.client(ada) as client:
        first = await submit(client, **{"Idempotency-Key": "k1"})
        again = await submit(client, **{"Idempotency-Key": "k1"})
        other = await submit(client, **{"Idempotency-Key": "k2"})
        assert first.json()["id"] == again.json()["id"] != other.json()["id"]
        conflict = await submit(client, jobspec(priority=1), **{"Idempotency-Key": "k1"})
        assert (conflict.status_code, conflict.json()["code"]) == (409, "idempotency-conflict")
        assert (await submit(client, **{"Idempotency-Key": "x" * 201})).status_code == 422
    assert await count(api) == 2


async def test_a_submission_sent_eight_times_at_once_is_one_job(api: Api, ada: Principal) -> None:
    async with await api.client(ada) as client:
        answers = await asyncio.gather(*(submit(client, **{"Idempotency-Key": "k"}) for _time in range(8)))
    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert await count(api) == 1


async def test_keys_are_each_users_own(api: Api, ada: Principal) -> None:
    bob = await api.harness.user("bob")
    await api.harness.bring_package(bob)
    async with await api.client(ada) as hers, await api.client(bob) as his:
        mine = (await submit(hers, **{"Idempotency-Key": "k"})).json()
        theirs = (await submit(his, **{"Idempotency-Key": "k"})).json()
    assert mine["id"] != theirs["id"]
    assert (mine["owner"], theirs["owner"]) == ("ada", "bob")


# --- who sees what ----------------------------------------------------------------------------------------------------


async def test_a_user_sees_only_own_jobs_and_an_administrator_all(api: Api, ada: Principal) -> None:
    bob, root = await api.harness.user("bob"), await api.harness.user("root", admin=True)
    job_id = await api.harness.submit(ada)
    async with await api.client(bob) as client:
        assert (await client.get("/api/v1/jobs")).json()["items"] == []
        assert (await client.get("/api/v1/projects")).json()["items"] == []
        for method, path in (
            ("GET", ""), ("GET", "/events"), ("POST", "/cancel"), ("GET", "/logs"), ("GET", "/metrics"),
            ("GET", "/curves?name=x"), ("GET", "/samples"), ("GET", "/artifacts"), ("GET", "/artifacts/file?path=x"),
            ("GET", "/stream"), ("GET", "/logs/raw"),
        ):  # fmt: skip
            answer = await client.request(method, f"/api/v1/jobs/{job_id}{path}")
            assert (path, answer.status_code) == (path, 404)
    async with await api.client(root) as client:
        assert [item["id"] for item in (await client.get("/api/v1/jobs")).json()["items"]] == [job_id]
        assert (await client.get(f"/api/v1/jobs/{job_id}")).status_code == 200
    async with await api.client(
        root, ("read", "write")
    ) as client:  # an administrator's ordinary token is no master key
        assert (await client.get("/api/v1/jobs")).json()["items"] == []
    assert (await api.harness.job(job_id)).desired == "run"


@pytest.mark.parametrize("job_id", ["nope", "0" * 16, "%2e%2e", "..%2f..", "a" * 500, "é" * 16])
async def test_what_is_no_run_is_not_found(site: Api, job_id: str) -> None:
    async with await site.client(await site.harness.user("ada")) as client:
        assert (await client.get(f"/api/v1/jobs/{job_id}")).status_code == 404


# --- listing ----------------------------------------------------------------------------------------------------------


async def test_a_listing_goes_through_everything_once_newest_first(api: Api, ada: Principal) -> None:
    made = [await api.harness.submit(ada) for _number in range(7)]
    async with await api.client(ada) as client:
        seen: list[str] = []
        cursor = ""
        while True:
            page = (await client.get(f"/api/v1/jobs?limit=3{cursor}")).json()
            seen += [item["id"] for item in page["items"]]
            if page["next_cursor"] is None:
                break
            cursor = f"&cursor={page['next_cursor']}"
            await api.harness.submit(ada)  # what comes meanwhile does not disturb
    assert seen == made[::-1]
    assert all(item["spec"] is None for item in page["items"])


async def test_filters(api: Api, ada: Principal) -> None:
    first = await api.harness.submit(ada)
    other = jobspec()
    other["metadata"] |= {"name": "second", "project": "other", "display_name": "50% Größe_x"}
    second = await api.harness.submit(ada, other)
    await api.harness.services.jobs.cancel(ada, second)
    async with await api.client(ada) as client:

        async def found(query: str) -> list[str]:
            return [item["id"] for item in (await client.get(f"/api/v1/jobs?{query}")).json()["items"]]

        assert await found("project=lab") == [first]
        assert await found("project=@ada/other") == [second]
        assert await found("project=bob/other") == []
        assert await found("experiment=second") == [second]
        assert await found("phase=queued") == [first]
        assert await found("phase=queued,cancelled") == [second, first]
        assert await found("phase=queued&phase=cancelled") == [second, first]
        assert await found("text=SECOND") == [second]
        assert await found("text=50%25") == [second]
        assert await found("text=_x") == [second]
        assert await found("text=custom/") == [second, first]
        assert await found("text=%25%25") == []
        for bad in ("phase=done", "project=..", "limit=0", "limit=1000", "cursor=zzz"):
            assert (await client.get(f"/api/v1/jobs?{bad}")).status_code == 422
        counts = await api.harness.services.jobs.counts(ada, JobQuery(phases=["queued"]))
    assert counts == {"queued": 1, "cancelled": 1}


# --- one job ----------------------------------------------------------------------------------------------------------


async def test_events_tell_the_story_in_the_readers_language(api: Api, ada: Principal) -> None:
    job_id = await api.harness.running_job(ada)
    await api.harness.services.jobs.cancel(ada, job_id)
    await api.harness.services.jobs.cancel(ada, job_id)
    await api.harness.round(2)
    async with await api.client(ada) as client:
        page = (await client.get(f"/api/v1/jobs/{job_id}/events?limit=4")).json()
        rest = (await client.get(f"/api/v1/jobs/{job_id}/events?cursor={page['next_cursor']}")).json()
    events = page["items"] + rest["items"]
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    kinds = [(event["kind"], event["ignored"]) for event in events]
    assert kinds == [
        ("submitted", False), ("placed", False), ("launched", False), ("running", False), ("cancel", False),
        ("cancel", True), ("ended", False), ("cleaned", False), ("settled", False),
    ]  # fmt: skip
    assert all(event["text"] for event in events)
    assert events[3]["from"] == "starting"
    assert events[3]["to"] == "running"


async def test_cancel_twice_is_as_good_as_once(api: Api, ada: Principal) -> None:
    job_id = await api.harness.running_job(ada)
    async with await api.client(ada) as client:
        first = await client.post(f"/api/v1/jobs/{job_id}/cancel")
        again = await client.post(f"/api/v1/jobs/{job_id}/cancel")
        assert (first.status_code, again.status_code) == (202, 202)
        assert first.json()["conditions"][0]["type"] == "stopping"
        await api.harness.round(2)
        job = (await client.get(f"/api/v1/jobs/{job_id}")).json()
    assert (job["phase"], job["reason"]["code"], job["reason"]["class"]) == ("cancelled", "cancelled", "policy")
    assert job["reason"]["text"]
    assert job["reason"]["hint"]
    assert job["reason"]["anchor"] == "reference/reasons#cancelled"


async def test_a_job_says_what_it_ran_in_also_when_it_is_over(api: Api, ada: Principal) -> None:
    job_id = await api.harness.submit(ada)

    async def runtime() -> tuple[str | None, bool | None]:
        async with await api.client(ada) as client:
            answer = (await client.get(f"/api/v1/jobs/{job_id}")).json()["runtime"]
        return answer["ran_in"], answer["isolated"]

    assert await runtime() == (None, None)
    await api.harness.round()
    assert await runtime() == ("scripted", False)
    await api.harness.write_outcome(job_id)
    api.harness.scripted.containers[job_id, 1].exit = Exit(False, 0)
    await api.harness.round(3)
    assert (await api.harness.job(job_id)).phase == "succeeded"
    assert await runtime() == ("scripted", False)


async def test_why_a_job_waits_is_told(api: Api, ada: Principal) -> None:
    await api.harness.running_job(ada, jobspec(resources=gpu_pool(8)))
    job_id = await api.harness.submit(ada, jobspec(resources=gpu_pool(4)))
    await api.harness.round()
    async with await api.client(ada) as client:
        job = (await client.get(f"/api/v1/jobs/{job_id}")).json()
        assert "h200" in job["waiting"]["text"]
        assert job["conditions"] == []
        assert job["simulated"] is True
        hardware = (await client.get("/api/v1/hardware")).json()
    profile = next(item for item in hardware["profiles"] if item["name"] == "h200")
    assert (profile["gpus_per_node"], profile["total_gpus"], profile["free_gpus"]) == (8, 8, 0)
    assert hardware["capabilities"]["executor"] == "scripted"
    assert hardware["nodes"][0]["gpus"][0]["job_id"] is not None


async def test_the_desired_of_a_heartbeat_is_cancel_for_what_is_not_wanted(api: Api, ada: Principal) -> None:
    job_id = await api.harness.running_job(ada)
    jobs = api.harness.services.jobs
    assert await jobs.desired(job_id, 1) == "run"
    assert await jobs.desired(job_id, 2) == "cancel"
    await jobs.cancel(ada, job_id)
    assert await jobs.desired(job_id, 1) == "cancel"
    assert await jobs.desired("0" * 16, 1) == "cancel"


async def test_the_console_tells_its_health_and_its_numbers(api: Api, ada: Principal) -> None:
    await api.harness.running_job(ada)
    api.harness.services.running_roles = api.harness.roles
    await api.harness.loop("launcher")._supervised_tick()
    async with api.anonymous() as client:
        health = await client.get("/healthz")
        assert (health.status_code, health.json()["roles"]["launcher"]["status"]) == (200, "ok")
        metrics = (await client.get("/metrics")).text
        assert 'tuneplane_jobs{phase="running"} 1.0' in metrics
        assert 'tuneplane_role_ticks_total{role="launcher"} 1.0' in metrics
        api.harness.time.pass_(3600)
        red = await client.get("/healthz")
        assert (red.status_code, red.json()["roles"]["launcher"]["status"]) == (503, "stopped")
        assert (await client.get("/readyz")).status_code == 200
