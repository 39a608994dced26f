"""Further attempts in the ledger: they rest, they say why and when, and they end when nothing comes of them."""

from __future__ import annotations

from tests.tuneplane_server.harness import Api, Harness, jobspec
from tuneplane_server.features.accounts.principal import Principal

RETRIES = {"retries": {"infra": 20, "policy": 5}}


async def lose(harness: Harness, job_id: str) -> None:
    """Its container is gone, and the roles have seen it."""
    del harness.scripted.containers[job_id, (await harness.job(job_id)).attempt]
    await harness.round()


async def test_a_further_attempt_rests_and_then_starts(harness: Harness, ada: Principal) -> None:
    job_id = await harness.running_job(ada, jobspec(limits=RETRIES))
    await lose(harness, job_id)
    job = await harness.job(job_id)
    assert (job.phase, job.attempt) == ("queued", 2)
    assert job.not_before is not None
    assert 3 < (job.not_before - harness.time.now).total_seconds() < 7
    await harness.round()
    assert (await harness.job(job_id)).phase == "queued"
    harness.time.pass_(7)
    await harness.round()
    job = await harness.job(job_id)
    assert (job.phase, job.not_before) == ("running", None)


async def test_readers_are_told_when_it_starts_and_why(api: Api, ada: Principal) -> None:
    job_id = await api.harness.running_job(ada, jobspec(limits=RETRIES))
    await lose(api.harness, job_id)
    async with await api.client(ada) as client:
        waiting = (await client.get(f"/api/v1/jobs/{job_id}")).json()["waiting"]
        events = (await client.get(f"/api/v1/jobs/{job_id}/events")).json()["items"]
    assert waiting["kind"] == "resting"
    assert "attempt 2 rests until 00:00 UTC" in waiting["text"]
    text = next(event["text"] for event in events if event["kind"] == "retried")
    assert "starts after a rest of" in text
    assert "container" in text  # the reason of the attempt before


async def test_what_its_time_limit_ended_goes_on_at_once(harness: Harness, ada: Principal) -> None:
    job_id = await harness.running_job(ada, jobspec(limits={"max_duration": 60, **RETRIES}))
    harness.time.pass_(61)
    await harness.round(2)
    job = await harness.job(job_id)
    assert (job.attempt, job.not_before) == (2, None)
    await harness.round()
    assert (await harness.job(job_id)).phase == "running"


async def test_the_same_end_again_and_again_without_progress_ends_it_and_says_so(api: Api, ada: Principal) -> None:
    harness = api.harness
    job_id = await harness.running_job(ada, jobspec(limits=RETRIES))
    for _attempt in range(5):
        await lose(harness, job_id)
        harness.time.pass_(1000)
        await harness.round()
    job = await harness.job(job_id)
    assert (job.phase, job.attempt, job.reason and job.reason["code"]) == ("lost", 5, "container-lost")
    async with await api.client(ada) as client:
        shown = (await client.get(f"/api/v1/jobs/{job_id}")).json()
        events = (await client.get(f"/api/v1/jobs/{job_id}/events")).json()["items"]
    assert "5 times in a row for this reason" in shown["reason"]["detail"]
    assert "5 times in a row for this reason" in next(item["text"] for item in events if item["kind"] == "settled")


async def test_a_newer_complete_checkpoint_is_progress(harness: Harness, ada: Principal) -> None:
    job_id = await harness.running_job(ada, jobspec(limits=RETRIES))
    for attempt in range(1, 7):
        checkpoint = harness.out(await harness.job(job_id)) / "checkpoints" / f"checkpoint-{attempt * 10}"
        checkpoint.mkdir(parents=True)
        (checkpoint / "weights.bin").write_bytes(b"x")
        (checkpoint / "COMPLETE").touch()
        await lose(harness, job_id)
        harness.time.pass_(1000)
        await harness.round()
    job = await harness.job(job_id)
    assert (job.phase, job.attempt) == ("running", 7)
