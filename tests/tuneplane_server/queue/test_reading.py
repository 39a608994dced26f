"""What people are told of the queue: of a waiting job, and of the line."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import httpx2
import pytest

from tests.tuneplane_server.harness import Api, Harness, gpu_pool, jobspec
from tuneplane_server.domain.line import AccountKey
from tuneplane_server.domain.quotas import Account, Limits
from tuneplane_server.domain.transitions import Event
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.queue.service import Asked


def cards(count: int, **spec: Any) -> dict[str, Any]:
    return jobspec(resources=gpu_pool(count), **spec)


async def waiting_of(client: httpx2.AsyncClient, job_id: str) -> dict[str, Any]:
    answer = (await client.get(f"/api/v1/jobs/{job_id}")).json()["waiting"]
    assert isinstance(answer, dict)
    return answer


async def test_a_waiting_job_says_what_it_needs_who_has_it_its_place_and_when_it_starts(
    api: Api, ada: Principal
) -> None:
    harness = api.harness
    running = await harness.running_job(ada, cards(5, limits={"max_duration": 3600}))
    big, behind = await harness.submit(ada, cards(8)), await harness.submit(ada, cards(1))
    async with await api.client(ada) as client:
        first, second = await waiting_of(client, big), await waiting_of(client, behind)
        shown = (await client.get(f"/api/v1/jobs/{running}")).json()
        listed = {item["id"]: item["waiting"] for item in (await client.get("/api/v1/jobs")).json()["items"]}
    assert shown["waiting"] is None
    assert (first["kind"], first["position"], first["ahead"]) == ("cards", 1, 0)
    need = {"pool": "main", "profile": "h200", "nodes": 1, "gpus_per_node": 8, "cpus": 0.0, "memory_gb": 0.0}
    assert first["needs"] == [need]
    assert first["free"] == [{"node": "node", "profile": "h200", "free": 3.0}]
    (holder,) = first["held_by"]
    assert (holder["job_id"], holder["owner"], holder["gpus"]) == (running, "ada", 5)
    estimate = datetime.fromisoformat(first["estimate"])
    assert timedelta(minutes=60) <= estimate - harness.time.now <= timedelta(minutes=63)
    clock = estimate.strftime("%H:%M")
    assert first["text"] == (
        f"needs 8 h200 on one node; 3 free on node; held by run {running} of ada; number 1 in line; "
        f"starts at {clock} UTC at the latest"
    )
    assert (second["kind"], second["position"], second["estimate"]) == ("turn", 2, None)
    assert f"would put back run {big}" in second["text"]
    assert listed == {running: None, big: first, behind: second}


async def test_a_reader_is_told_in_the_readers_language(api: Api, ada: Principal) -> None:
    await api.harness.running_job(ada, cards(5))
    job_id = await api.harness.submit(ada, cards(8))
    async with await api.client(ada) as client:
        answer = await client.get(f"/api/v1/jobs/{job_id}", headers={"Accept-Language": "zh-CN"})
    text = answer.json()["waiting"]["text"]
    assert "排在第 1 位" in text
    assert "needs" not in text


async def test_without_limits_nobody_is_promised_a_time(api: Api, ada: Principal) -> None:
    await api.harness.running_job(ada, cards(5))
    job_id = await api.harness.submit(ada, cards(8))
    async with await api.client(ada) as client:
        waiting = await waiting_of(client, job_id)
    assert waiting["estimate"] is None
    assert "at the latest" not in waiting["text"]
    assert waiting["held_by"][0]["until"] is None


async def test_a_job_without_cards_says_what_is_free_of_cpus(api: Api, ada: Principal) -> None:
    api.harness.scripted.cpus = 1.5
    first, second = await api.harness.running_job(ada), await api.harness.submit(ada)
    async with await api.client(ada) as client:
        waiting = await waiting_of(client, second)
    assert waiting["text"].startswith(
        f"needs 1 CPU and 1 GB of memory on one node; 0.5 CPUs and 999999 GB free on node; held by run {first} of ada"
    )


async def test_a_quota_is_named_with_its_figures(api: Api, ada: Principal, monkeypatch: pytest.MonkeyPatch) -> None:
    async def limited(*_args: object) -> dict[AccountKey, Account]:
        return {("user", ada.user_id): Account("user", ada.user_id, "ada", Limits(gpus=8), gpus=6)}

    monkeypatch.setattr(api.harness.services.governance, "accounts", limited)
    first, second = await api.harness.submit(ada, cards(4)), await api.harness.submit(ada, cards(1))
    async with await api.client(ada) as client:
        one, two = await waiting_of(client, first), await waiting_of(client, second)
    assert (one["kind"], one["position"]) == ("quota", None)
    assert one["text"] == "user ada uses 6 of 8 GPUs at once, and this run wants 4"
    assert two["text"] == f"run {first} waits before it for the same quota; needs 1 h200 on one node"


async def test_held_back_jobs_say_so_at_once(api: Api, ada: Principal) -> None:
    harness = api.harness
    job_id = await harness.submit(ada)
    ledger = harness.services.ledger
    async with await api.client(ada) as client:
        assert (await waiting_of(client, job_id))["kind"] == "next"
        await ledger.apply(job_id, Event.PAUSE, ledger.evidence(data={"actor": "ada"}))
        paused = await waiting_of(client, job_id)
        assert (paused["kind"], paused["text"]) == ("paused", "paused: it waits until somebody resumes it")
        await ledger.apply(job_id, Event.RESUME, ledger.evidence(data={"actor": "ada"}))
        assert (await waiting_of(client, job_id))["kind"] == "next"


async def test_a_plan_is_made_once_for_many_readers(harness: Harness, ada: Principal) -> None:
    job_id = await harness.submit(ada)
    asked = [Asked(job_id, 1, None)]
    first = await harness.services.queue.recent(asked)
    assert await harness.services.queue.recent(asked) is first
    other = await harness.submit(ada)
    assert await harness.services.queue.recent([*asked, Asked(other, 1, None)]) is not first
    again = await harness.services.queue.recent(asked)
    harness.time.pass_(5)
    assert await harness.services.queue.recent(asked) is not again  # it would place somebody


async def test_the_line_shows_own_jobs_in_detail_and_of_others_only_what_a_colleague_may_see(
    api: Api, ada: Principal
) -> None:
    bob = await api.harness.user("bob")
    await api.harness.bring_package(bob)
    await api.harness.running_job(ada, cards(8))
    theirs, mine = await api.harness.submit(bob, cards(4)), await api.harness.submit(ada, cards(2))
    api.harness.time.pass_(5)  # a plan is kept for four seconds
    async with await api.client(ada) as client:
        page = (await client.get("/api/v1/queue")).json()
    assert (page["total"], page["next_cursor"]) == (2, None)
    colleague, own = page["items"]
    need = {"pool": "main", "profile": "h200", "nodes": 1, "gpus_per_node": 4, "cpus": 0.0, "memory_gb": 0.0}
    nothing = dict.fromkeys(("id", "project", "experiment", "display_name", "waiting"))
    assert colleague == {"position": 1, "owner": "bob", "needs": [need], "mine": False} | nothing
    assert (own["id"], own["position"], own["mine"], own["experiment"]) == (mine, 2, True, "first")
    assert own["waiting"]["kind"] == "cards"
    assert theirs not in str(page)


async def test_the_line_is_paged_and_those_who_do_not_stand_in_it_come_last(api: Api, ada: Principal) -> None:
    harness = api.harness
    bob = await harness.user("bob")
    await harness.bring_package(bob)
    await harness.running_job(ada, cards(8))
    jobs = [await harness.submit(ada, cards(1)) for _number in range(5)]
    ledger = harness.services.ledger
    await ledger.apply(jobs[0], Event.PAUSE, ledger.evidence(data={"actor": "ada"}))
    harness.time.pass_(5)
    seen: list[tuple[str, int | None]] = []
    async with await api.client(ada) as client:
        cursor = ""
        while cursor is not None:
            page = (await client.get(f"/api/v1/queue?limit=2{cursor and '&cursor=' + cursor}")).json()
            seen += [(item["id"], item["position"]) for item in page["items"]]
            cursor = page["next_cursor"]
        refused = await client.get("/api/v1/queue?cursor=nonsense")
    assert seen == [(job_id, place) for place, job_id in enumerate(jobs[1:], 1)] + [(jobs[0], None)]
    assert (refused.status_code, refused.json()["code"]) == (422, "request-invalid")
    async with await api.client(bob) as client:
        assert len((await client.get("/api/v1/queue")).json()["items"]) == 4  # a colleague's paused job is not shown
    async with api.anonymous() as client:
        assert (await client.get("/api/v1/queue")).status_code == 401
