"""What waits for a commit shares the next one, and none pays for another's fault."""

from __future__ import annotations

import asyncio
import threading

import pytest
from sqlalchemy import event as sqlalchemy_event
from sqlalchemy import text

from tuneplane_server.features.telemetry.transactions import GROUP, Transactions

JOBS = [f"{number:016d}" for number in range(GROUP)]


@pytest.fixture
async def transactions(database):
    one = Transactions(database)
    one._writers = 1  # so that what is handed in while it is busy waits, on Postgres too
    yield one
    await one.close()


class Busy:
    """Holds the writer until `release`."""

    def __init__(self, transactions: Transactions) -> None:
        self._begun, self._free = threading.Event(), threading.Event()
        self.task = asyncio.create_task(transactions.run("", self._wait))

    def _wait(self, _connection) -> None:
        self._begun.set()
        assert self._free.wait(60)

    async def begun(self) -> None:
        assert await asyncio.to_thread(self._begun.wait, 60)

    async def release(self) -> None:
        self._free.set()
        await self.task


def adding(job: str):
    statement = text(
        "insert into run_events (job_id, n, position, attempt, rank, seq, time, event, data)"
        " values (:job, 1, 1, 1, 0, 1, 0.0, 'x', :data)"
    )
    return lambda connection: connection.execute(statement, {"job": job, "data": b"{}"}).rowcount


async def stored(database) -> list[str]:
    async with database.session() as session:
        return list(await session.scalars(text("select job_id from run_events order by job_id")))


async def test_what_waits_is_committed_together(transactions, database):
    busy = Busy(transactions)
    await busy.begun()
    begins: list[object] = []
    sqlalchemy_event.listen(transactions.engine, "begin", begins.append)
    tasks = [asyncio.create_task(transactions.run(job, adding(job))) for job in reversed(JOBS)]
    await asyncio.sleep(0)
    await busy.release()
    assert await asyncio.gather(*tasks) == [1] * GROUP
    assert len(begins) == 1
    assert await stored(database) == JOBS


async def test_a_fault_of_one_costs_the_others_nothing(transactions, database):
    def fails(connection):
        adding(JOBS[1])(connection)
        raise LookupError("a fault of its own")

    busy = Busy(transactions)
    await busy.begun()
    works = [(job, fails if job == JOBS[1] else adding(job)) for job in JOBS[:4]]
    tasks = [asyncio.create_task(transactions.run(job, work)) for job, work in works]
    await asyncio.sleep(0)
    await busy.release()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(result) for result in results] == [int, LookupError, int, int]
    assert await stored(database) == [JOBS[0], *JOBS[2:4]]


async def test_work_whose_caller_left_before_it_began_is_not_done(transactions, database):
    busy = Busy(transactions)
    await busy.begun()
    left = asyncio.create_task(transactions.run(JOBS[0], adding(JOBS[0])))
    stayed = asyncio.create_task(transactions.run(JOBS[1], adding(JOBS[1])))
    await asyncio.sleep(0)
    left.cancel()
    await busy.release()
    assert await stayed == 1
    assert left.cancelled()
    assert await stored(database) == [JOBS[1]]


async def test_what_is_handed_in_after_closing_is_refused(database):
    transactions = Transactions(database)
    assert await transactions.run(JOBS[0], adding(JOBS[0])) == 1
    await transactions.close()
    with pytest.raises(RuntimeError):
        await transactions.run(JOBS[1], adding(JOBS[1]))


async def test_what_is_handed_in_just_as_the_writer_runs_dry_is_not_left_lying(transactions):
    """Between the last look of a writer at what waits and the end of its task another call may come."""
    loop, later = asyncio.get_running_loop(), []

    def hand_in(_done: object) -> None:
        later.append(asyncio.Task(transactions.run("", lambda _connection: 2), loop=loop, eager_start=True))

    first = asyncio.create_task(transactions.run("", lambda _connection: 1))
    await asyncio.sleep(0)
    transactions._waiting[0].done.add_done_callback(hand_in)
    assert await first == 1
    assert await asyncio.wait_for(later[0], 60) == 2
