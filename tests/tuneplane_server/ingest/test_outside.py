"""A script that is no process of the job: who gets a token, what it may send, and that it can disturb nothing."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import httpx2
import pytest

from tests.tuneplane_server.harness import Api, Harness
from tests.tuneplane_server.ingest.conftest import JOB, OTHER, Runner
from tests.tuneplane_server.ingest.wire_build import event, log, metric, sample
from tuneplane.contract.words import OUTSIDE_RANK
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.ingest import service, tokens
from tuneplane_server.features.ingest.tokens import TooManyTokensError


async def ask(client: httpx2.AsyncClient, job_id: str, body: Any = None) -> httpx2.Response:
    return await client.post(f"/api/v1/jobs/{job_id}/ingest-token", json=body)


async def audited(console: Harness) -> list[tuple[str, str, str]]:
    return [(row.action, row.target, row.data.get("why", "")) for row in await console.services.audit.newest()]


# --- over HTTP --------------------------------------------------------------------------------------------------------


async def test_the_owner_of_a_running_job_gets_a_token_and_posts_with_it(api: Api, ada: Principal) -> None:
    job_id = await api.harness.running_job(ada)
    async with await api.client(ada) as client:
        answer = await ask(client, job_id, {"expires_in_hours": 2})
        assert answer.status_code == 201
        issued = answer.json()
        assert issued["url"].endswith(f"/ingest/v1/jobs/{job_id}")
        assert (issued["attempt"], issued["rank"]) == (1, OUTSIDE_RANK)
        assert (await ask(client, job_id)).json()["rank"] == OUTSIDE_RANK + 1
        sender = Runner(client, issued["token"], job_id)
        assert (await sender.send(metric(1, [0.5], rank=issued["rank"]))).status_code == 200
        shown = await client.get(f"/api/v1/jobs/{job_id}/metrics", params={"rank": issued["rank"]})
        assert list(shown.json()["metrics"]) == ["train/loss"]
        main = await client.get(f"/api/v1/jobs/{job_id}/metrics")
        assert main.json()["metrics"] == {}
    assert ("ingest.token", job_id, "") in await audited(api.harness)


async def test_who_gets_none(api: Api, ada: Principal) -> None:
    harness = api.harness
    job_id, queued = await harness.running_job(ada), await harness.submit(ada)
    eve = await harness.user("eve")
    async with await api.client(eve) as client:
        assert (await ask(client, job_id)).status_code == 404
    async with await api.client(ada) as client:
        answer = await ask(client, queued)
        assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
        for wrong in ({"expires_in_hours": 0}, {"expires_in_hours": 337}, {"rank": 0}):
            assert (await ask(client, job_id, wrong)).status_code == 422


async def test_a_run_that_ends_while_its_token_is_made_gets_none(
    api: Api, ada: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A token that came after the end would be revoked by nobody."""
    harness = api.harness
    job_id = await harness.running_job(ada)
    ingest = harness.services.ingest
    issue = ingest.issue_outside

    async def ended_meanwhile(*args: Any) -> Any:
        await harness.write_outcome(job_id, "failed")
        harness.scripted.containers.clear()
        await harness.round(3)
        return await issue(*args)

    monkeypatch.setattr(ingest, "issue_outside", ended_meanwhile)
    async with await api.client(ada) as client:
        answer = await ask(client, job_id)
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")


async def test_an_unknown_version_is_told_which_is_known(site: Api, ada_of_site: Principal) -> None:
    async with await site.client(ada_of_site) as client:
        answer = await client.post("/ingest/v9/jobs/0000000000000001/batches", content=b"")
    assert (answer.status_code, answer.json()["code"]) == (404, "not-found")
    assert "v1" in answer.json()["detail"]
    assert "v9" in answer.json()["detail"]


@pytest.fixture
async def ada_of_site(site: Api) -> Principal:
    return await site.harness.user("ada")


# --- what it is good for ----------------------------------------------------------------------------------------------


async def outside(console: Harness, client: httpx2.AsyncClient, attempt: int = 1) -> tuple[Runner, int]:
    issued = await console.services.ingest.issue_outside(JOB, attempt, timedelta(hours=1), "ada", "")
    return Runner(client, issued.token), issued.rank


@pytest.mark.parametrize(
    "lines",
    [
        [metric(1, [1.0], rank=0)],
        [metric(1, [1.0], rank=OUTSIDE_RANK + 1)],
        [metric(1, [1.0], rank=OUTSIDE_RANK), sample(1, {}, rank=0)],
        [log(1, "a\n", rank=OUTSIDE_RANK)],
        [event(1, "outcome", rank=OUTSIDE_RANK)],
    ],
    ids=["main rank", "another's", "two", "log", "event"],
)
async def test_it_can_send_as_nobody_else(
    runner: Runner, console: Harness, client: httpx2.AsyncClient, lines: list[dict[str, Any]]
) -> None:
    sender, rank = await outside(console, client)
    assert rank == OUTSIDE_RANK
    assert (await sender.send(*lines)).status_code == 403
    assert (await sender.beat()).status_code == 403
    assert (await runner.send(metric(1, [2.0]))).json()["accepted"] == 1, "the run's own sequence is untouched"
    assert ("ingest.refuse", JOB, "foreign-rank") in await audited(console)


async def test_it_ends_with_its_attempt_and_with_its_time(
    runner: Runner, console: Harness, client: httpx2.AsyncClient
) -> None:
    sender, rank = await outside(console, client)
    assert (await sender.send(metric(1, [1.0], rank=rank))).status_code == 200
    console.time.pass_(3601)
    assert (await sender.send(metric(2, [1.0], rank=rank))).status_code == 401
    sender, rank = await outside(console, client)
    assert rank == OUTSIDE_RANK + 1
    await console.services.ingest.revoke(JOB, 1)
    assert (await sender.send(metric(1, [1.0], rank=rank))).status_code == 403


async def test_ranks_are_given_out_once_also_at_the_same_moment(console: Harness) -> None:
    issued = await asyncio.gather(
        *(console.services.ingest.issue_outside(JOB, 1, timedelta(hours=1), "ada", "") for _ in range(4))
    )
    assert sorted(one.rank for one in issued) == [OUTSIDE_RANK + number for number in range(4)]
    console.time.pass_(100 * 86_400)  # also those whose tokens are long expired
    await console.services.ingest.issue(JOB, 1)
    again = await console.services.ingest.issue_outside(JOB, 1, timedelta(hours=1), "ada", "")
    assert again.rank == OUTSIDE_RANK + 4


async def test_their_number_is_bounded(console: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "OUTSIDE_TOKENS", 2)
    issue = console.services.ingest.tokens.issue_outside
    for _ in range(2):
        await issue(JOB, 1, timedelta(hours=1))
    with pytest.raises(TooManyTokensError):
        await issue(JOB, 1, timedelta(hours=1))
    await issue(JOB, 2, timedelta(hours=1))
    console.time.pass_(3601)
    await issue(JOB, 1, timedelta(hours=1))


# --- the record of refusals -------------------------------------------------------------------------------------------


async def test_one_token_cannot_flood_the_record_by_naming_many_runs(runner: Runner, console: Harness) -> None:
    for number in range(2, 12):
        other = Runner(runner.client, runner.token, f"{number:016d}")
        assert (await other.send(log(1, "a\n"))).status_code == 403
    assert await audited(console) == [("ingest.refuse", OTHER, "foreign")]


async def test_many_tokens_cannot_flood_the_record_either(
    runner: Runner, console: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "AUDITED_AT_MOST", 3)
    for number in range(6):
        token = await console.services.ingest.issue(f"{number + 10:016d}", 1)
        assert (await Runner(runner.client, token).send(log(1, "a\n"))).status_code == 403
    assert len(await audited(console)) == 3
