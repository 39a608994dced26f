"""What roles, the queue and listings read again and again: only what has changed, no specs, and the same as a plain read."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import event, select
from sqlalchemy.orm.exc import DetachedInstanceError

from tests.tuneplane_server.harness import Api, Harness, gpu_pool, jobspec
from tuneplane_server.domain.transitions import Event
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.jobs import repo
from tuneplane_server.features.jobs.in_queue import QueueJobs
from tuneplane_server.features.jobs.known import KnownJobs
from tuneplane_server.features.jobs.tables import JobRow


@contextmanager
def statements(harness: Harness) -> Iterator[list[str]]:
    """What is asked of the database meanwhile."""
    database, asked = harness.services.database, list[str]()

    def note(_connection: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        asked.append(statement)

    engines = {database._writer.sync_engine}
    if database.is_sqlite:  # on Postgres what reads goes through the engine that writes
        engines.add(database._reader.sync_engine)
    for engine in engines:
        event.listen(engine, "before_cursor_execute", note)
    try:
        yield asked
    finally:
        for engine in engines:
            event.remove(engine, "before_cursor_execute", note)


async def test_a_look_at_runs_that_have_not_changed_reads_none_of_them(harness: Harness, ada: Principal) -> None:
    ids = await harness.put_live_jobs(ada, 120)
    known = KnownJobs(harness.services.database, repo.versions_to_watch)
    with statements(harness) as first:
        assert [row.id for row in await known.look()] == sorted(ids)
    with statements(harness) as second:
        again = await known.look()
    assert (len(first), len(second)) == (3, 1)  # the versions, and two portions of rows
    with pytest.raises(DetachedInstanceError):
        _ = again[0].spec

    ledger = harness.services.ledger
    await ledger.apply(ids[7], Event.CANCEL, ledger.evidence())
    with statements(harness) as third:
        rows = {row.id: row for row in await known.look()}
    assert len(third) == 2
    assert (rows[ids[7]].desired, rows[ids[8]].desired) == ("cancel", "run")


async def test_a_tick_of_the_observer_asks_once_however_many_runs_there_are(harness: Harness, ada: Principal) -> None:
    template = jobspec(limits={"max_duration": 3600})
    job_id = await harness.running_job(ada, template)
    await harness.put_live_jobs(ada, 40)
    observer = harness.loop("observer")
    await observer.tick()
    await observer.idle()
    with statements(harness) as asked:
        await observer.tick()
        await observer.idle()
    assert len(asked) == 1
    harness.time.pass_(3700)  # and a limit is not missed for it
    await observer.tick()
    await observer.idle()
    assert (await harness.job(job_id)).stop_cause == "time-limit"


async def test_what_the_queue_remembers_is_what_a_plain_read_gives(harness: Harness, ada: Principal) -> None:
    dice, ledger = random.Random(3), harness.services.ledger
    remembering = QueueJobs()
    ids = []
    for step in range(30):
        match dice.randrange(4):
            case 0 | 1:
                ids.append(await harness.submit(ada, jobspec(resources=gpu_pool(4), priority=dice.randrange(3))))
            case 2 if ids:
                kind = dice.choice((Event.PAUSE, Event.RESUME, Event.CANCEL))
                await ledger.apply(dice.choice(ids), kind, ledger.evidence())
            case _:
                await harness.round()
        async with harness.services.database.session() as session:
            waiting, live = await remembering.waiting(session), await remembering.live(session)
            plain, fresh = QueueJobs(), {row.id: row for row in await session.scalars(select(JobRow))}
            assert {job.job_id: job for job in waiting} == {job.job_id: job for job in await plain.waiting(session)}
            assert {job.job_id: job for job in live} == {job.job_id: job for job in await plain.live(session)}
        assert {job.job_id for job in waiting} == {row.id for row in fresh.values() if row.phase == "queued"}, step


async def test_a_listing_asks_as_often_for_fifty_jobs_as_for_one(harness: Harness, api: Api, ada: Principal) -> None:
    await harness.put_live_jobs(ada, 50)
    for _number in range(20):
        await harness.submit(ada, jobspec(resources=gpu_pool(8)))
    async with await api.client(ada) as client:
        await client.get("/api/v1/jobs?limit=1")
        with statements(harness) as one:
            await client.get("/api/v1/jobs?limit=1")
        with statements(harness) as many:
            page = (await client.get("/api/v1/jobs?limit=50")).json()["items"]
        shown = (await client.get(f"/api/v1/jobs/{page[-1]['id']}")).json()
    assert len(page) == 50
    assert len(many) == len(one) == 4  # the token, the jobs, their attempts, their latest metrics
    assert all(item["spec"] is None for item in page)
    assert page[0]["pools"] == gpu_pool(8)["pools"]
    assert page[-1]["pools"] == shown["pools"]


async def test_a_search_looks_through_the_newest_first_and_finds_the_same_pages(
    harness: Harness, api: Api, ada: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    bob, root = await harness.user("bob"), await harness.user("root", admin=True)
    await harness.bring_package(bob)
    mine = await harness.put_live_jobs(ada, 20)
    theirs = await harness.put_live_jobs(bob, 20)
    async with harness.services.database.begin() as session:
        for number, job_id in enumerate(sorted([*mine, *theirs])):
            (await session.get_one(JobRow, job_id)).display_name = "Needle" if number % 7 == 0 else f"hay {number}"
    monkeypatch.setattr(repo, "SEARCHED_FIRST", 2)
    wanted = sorted([*mine, *theirs])[::7]

    async def pages(reader: Principal, limit: int) -> list[list[str]]:
        found, cursor = [], ""
        async with await api.client(reader) as client:
            while True:
                answer = (await client.get(f"/api/v1/jobs?text=needle&limit={limit}{cursor}")).json()
                found.append([item["id"] for item in answer["items"]])
                if answer["next_cursor"] is None:
                    return found
                cursor = f"&cursor={answer['next_cursor']}"

    assert await pages(root, 2) == [wanted[::-1][start : start + 2] for start in range(0, 6, 2)]
    assert await pages(ada, 50) == [[job_id for job_id in wanted[::-1] if job_id in mine]]
    async with await api.client(root) as client:
        with statements(harness) as asked:
            assert (await client.get("/api/v1/jobs?text=nothing")).json()["items"] == []
    assert len([one for one in asked if "FROM jobs" in one]) == (1 if harness.services.database.is_sqlite else 6)
