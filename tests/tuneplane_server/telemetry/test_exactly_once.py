"""Every record is stored once, whatever is sent twice, late, in parts or at the same time."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

import pytest
from sqlalchemy import event as sqlalchemy_event
from sqlalchemy import func, select

from tests.tuneplane_server.telemetry.build import JOB, event, log, logs, metric, metrics, sample, texts
from tuneplane_server.features.telemetry.records import Batch
from tuneplane_server.features.telemetry.repo.samples import SampleFilter
from tuneplane_server.features.telemetry.tables import LogChunkRow, MetricChunkRow, RunEventRow, SampleRow, StreamAckRow


def whole(count: int, rank: int = 0) -> list[Batch]:
    """One record of each stream per batch."""
    return [
        Batch(
            [log(seq, f"line {seq}\n", rank=rank)],
            [metric(seq, {"train/loss": [seq / 10]}, rank=rank)],
            [sample(seq, f"text {seq}", rank=rank)],
            [event(seq, "checkpoint", {"step": seq}, rank=rank)],
        )
        for seq in range(1, count + 1)
    ]


def together(*batches: Batch) -> Batch:
    return Batch(
        [record for batch in batches for record in batch.logs],
        [record for batch in batches for record in batch.metrics],
        [record for batch in batches for record in batch.samples],
        [record for batch in batches for record in batch.events],
    )


async def assert_all_there(telemetry, count: int, rank: int = 0) -> None:
    assert await texts(telemetry, rank=rank) == [f"line {seq}" for seq in range(1, count + 1)]
    curve = (await telemetry.curves.curves(JOB, ["train/loss"], max_points=1000, attempt=None, rank=rank))["train/loss"]
    assert curve[0]["step"] == list(range(1, count + 1))
    assert curve[0]["value"] == [seq / 10 for seq in range(1, count + 1)]
    found = (await telemetry.samples.page(JOB, SampleFilter(rank=rank), limit=1000)).items
    assert sorted(int(item.data["completion"].split()[1]) for item in found) == list(range(1, count + 1))
    events = await telemetry.events(JOB, ["checkpoint"], limit=1000)
    assert sorted(one.data["step"] for one in events if one.rank == rank) == list(range(1, count + 1))


async def test_the_same_batch_three_times_is_stored_once_and_answered_as_duplicate(telemetry):
    """Scenario 17."""
    batch = together(*whole(3))
    answers = [await telemetry.store(JOB, 1, batch) for _time in range(3)]
    assert [(one.accepted, one.duplicate) for one in answers] == [(12, 0), (0, 12), (0, 12)]
    ack = {f"1/0/{stream}": 3 for stream in ("log", "metric", "sample", "event")}
    assert [one.ack for one in answers] == [ack] * 3
    assert [one.position for one in answers] == [1, None, None]
    assert len(answers[0].events) == 3
    assert answers[1].events == ()
    await assert_all_there(telemetry, 3)


@pytest.mark.parametrize("seed", range(6))
async def test_any_order_overlap_and_repetition_stores_each_record_once(telemetry, seed):
    dice = random.Random(seed)
    records = whole(40)
    sent = [together(*dice.sample(records, dice.randint(1, 12))) for _time in range(25)]
    accepted = 0
    for batch in sent:
        accepted += (await telemetry.store(JOB, 1, batch)).accepted
    accepted += (await telemetry.store(JOB, 1, together(*records))).accepted
    assert accepted == 4 * 40
    await assert_all_there(telemetry, 40)


async def test_senders_at_the_same_time_store_each_record_once(telemetry):
    batches = [(rank, batch) for rank in (0, 1, 2) for batch in whole(12, rank)] * 2
    random.Random(1).shuffle(batches)
    answers = await asyncio.gather(*(telemetry.store(JOB, 1, batch) for _rank, batch in batches))
    assert sum(answer.accepted for answer in answers) == 3 * 12 * 4
    assert sum(answer.duplicate for answer in answers) == 3 * 12 * 4
    for rank in (0, 1, 2):
        await assert_all_there(telemetry, 12, rank)


async def test_a_record_twice_in_one_batch_is_stored_once(telemetry):
    answer = await telemetry.store(JOB, 1, logs(log(1, "a\n"), log(1, "a\n")))
    assert (answer.accepted, answer.duplicate) == (1, 1)
    assert await texts(telemetry) == ["a"]


async def test_attempts_and_ranks_count_for_themselves(telemetry):
    for attempt in (1, 2):
        for rank in (0, 1):
            answer = await telemetry.store(JOB, attempt, logs(log(1, f"{attempt}/{rank}\n", rank=rank)))
            assert (answer.accepted, answer.ack) == (1, {f"{attempt}/{rank}/log": 1})
    assert await texts(telemetry) == ["1/0", "1/1", "2/0", "2/1"]


async def test_the_answer_tells_the_highest_seq_without_a_gap(telemetry):
    assert (await telemetry.store(JOB, 1, logs(log(2, "b\n")))).ack == {"1/0/log": 0}
    assert (await telemetry.store(JOB, 1, logs(log(4, "d\n")))).ack == {"1/0/log": 0}
    assert (await telemetry.store(JOB, 1, logs(log(1, "a\n")))).ack == {"1/0/log": 2}
    assert (await telemetry.store(JOB, 1, logs(log(3, "c\n")))).ack == {"1/0/log": 4}
    assert await texts(telemetry) == ["a", "b", "c", "d"]


async def test_a_duplicate_costs_the_same_on_the_last_day_of_a_run(telemetry, database):
    """Scenario 17. Counted in statements and rows, not in time: the same few of each, however much is stored."""
    statements: list[str] = []

    def note(_connection, _cursor, statement, *_rest):
        statements.append(statement)

    costs = []
    for size in (1, 400):
        for seq in range(1, size + 1):
            await telemetry.store(JOB, size, metrics(metric(seq, {"a": [1.0], "b": [2.0]})))
        engine = telemetry._transactions.engine
        sqlalchemy_event.listen(engine, "before_cursor_execute", note)
        statements.clear()
        answer = await telemetry.store(JOB, size, metrics(metric(size, {"a": [1.0], "b": [2.0]})))
        sqlalchemy_event.remove(engine, "before_cursor_execute", note)
        assert answer.duplicate == 1
        costs.append(list(statements))
    assert costs[0] == costs[1]
    assert not [one for one in costs[1] if "metric_chunks" in one or "insert" in one.lower()]


async def test_many_separate_holes_are_given_up_one_by_one_and_said(telemetry, database):
    batch = logs(*(log(seq, f"{seq}\n") for seq in range(2, 1200, 2)))
    answer = await telemetry.store(JOB, 1, batch)
    gaps = [one for one in answer.events if one.event == "gap"]
    assert answer.accepted == 599
    assert len(gaps) == 599 - 256
    assert gaps[0].data == {"stream": "log", "records": 1, "after_seq": 0}
    assert answer.ack == {"1/0/log": 2 * (599 - 256)}
    async with database.session() as session:
        row = await session.get(StreamAckRow, (JOB, 1, 0, "log"))
    assert len(row.islands) == 256
    # What was given up is answered as known, so its sender can go on.
    assert (await telemetry.store(JOB, 1, logs(log(1, "late\n")))).duplicate == 1


async def test_nothing_of_a_batch_is_stored_when_a_part_of_it_cannot_be(telemetry, database, monkeypatch):
    from tuneplane_server.features.telemetry import writer

    def fails(*_arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writer, "write_events", fails)
    with pytest.raises(OSError, match="No space"):
        await telemetry.store(JOB, 1, together(*whole(2)))
    monkeypatch.undo()
    async with database.session() as session:
        for table in (LogChunkRow, MetricChunkRow, SampleRow, RunEventRow):
            assert (await session.scalar(select(func.count()).select_from(table))) == 0
    assert (await telemetry.store(JOB, 1, together(*whole(2)))).accepted == 8
    await assert_all_there(telemetry, 2)


@pytest.mark.parametrize("after", range(0, 12, 2))
async def test_a_caller_that_goes_away_leaves_all_or_nothing(telemetry, after):
    """The connection of a sender breaks at any moment of the transaction; the next batch is stored as ever."""
    task = asyncio.create_task(telemetry.store(JOB, 1, together(*whole(3))))
    for _step in range(after):
        await asyncio.sleep(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    stored = len(await texts(telemetry))
    assert stored in (0, 3)
    answer = await telemetry.store(JOB, 1, together(*whole(3)))
    assert (answer.accepted, answer.duplicate) == ((0, 12) if stored else (12, 0))
    await assert_all_there(telemetry, 3)


async def test_forgetting_a_run_leaves_the_others(telemetry):
    await telemetry.store(JOB, 1, together(*whole(3)))
    await telemetry.store("0000000000000002", 1, together(*whole(2)))
    await telemetry.forget("0000000000000002")
    await assert_all_there(telemetry, 3)
    assert (await telemetry.usage("0000000000000002")).position == 0
    assert await telemetry.curves.metrics("0000000000000002", 0) == {}
