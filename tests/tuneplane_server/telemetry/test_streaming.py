"""The live stream: what is told to whom, in what order, and what many followers cost."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing

import pytest

from tests.tuneplane_server.telemetry.build import JOB, log, metric, sample
from tuneplane_server.features.telemetry import streaming, watching
from tuneplane_server.features.telemetry.records import Batch
from tuneplane_server.features.telemetry.service import topic
from tuneplane_server.features.telemetry.streaming import RunStream
from tuneplane_server.features.telemetry.watching import Look


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(watching, "BETWEEN_SECONDS", 0.0)
    monkeypatch.setattr(watching, "POLL_SECONDS", 0.05)


class Ledger:
    """The row of a job, as far as a stream sees it."""

    def __init__(self, telemetry):
        self.version, self.looks, self._telemetry = 1, 0, telemetry

    async def look(self) -> Look:
        self.looks += 1
        return Look(await self._telemetry.usage(JOB), self.version)

    async def job(self):
        return {"phase": "running", "version": self.version}


class Follower:
    def __init__(self, telemetry, ledger, last_id=None):
        stream = RunStream(telemetry.curves, telemetry.watches, JOB)
        self._events = stream.events(ledger.look, ledger.job, (topic(JOB), f"job:{JOB}"), last_id)

    async def next(self, count=1, *, pings=False):
        found = []
        while len(found) < count:
            async with asyncio.timeout(60):
                text = (await anext(self._events)).decode()
            lines = dict(line.split(": ", 1) for line in text.strip().split("\n"))
            if pings or lines["event"] != "ping":
                found.append((lines["event"], json.loads(lines["data"]), int(lines["id"])))
        return found if count > 1 else found[0]

    async def close(self):
        await self._events.aclose()


async def test_a_new_follower_is_greeted_and_reads_for_itself_then_hears_what_is_new(telemetry):
    await telemetry.store(JOB, 1, Batch(metrics=[metric(1, {"a": [1.0]})]))
    ledger = Ledger(telemetry)
    follower = Follower(telemetry, ledger)
    assert [one[0] for one in await follower.next(4)] == ["hello", "job", "metrics", "logs"]
    await telemetry.store(JOB, 1, Batch(metrics=[metric(2, {"a": [2.0], "b": [5.0]})]))
    name, data, position = await follower.next()
    assert (name, position) == ("metrics", 2)
    assert {key: part[0]["value"] for key, part in data["series"].items()} == {"a": [2.0], "b": [5.0]}
    await telemetry.store(JOB, 1, Batch(logs=[log(1, "x\n")]))
    assert await follower.next() == ("logs", {"position": 3}, 3)
    await telemetry.store(JOB, 1, Batch(samples=[sample(1, "x")]))
    assert await follower.next() == ("samples", {"count": 1}, 4)
    ledger.version = 2
    assert await follower.next() == ("job", {"phase": "running", "version": 2}, 4)
    await follower.close()


async def test_a_follower_that_comes_back_is_told_what_it_missed(telemetry):
    for seq in (1, 2, 3):
        await telemetry.store(JOB, 1, Batch(metrics=[metric(seq, {"a": [float(seq)]})]))
    follower = Follower(telemetry, Ledger(telemetry), last_id=1)
    events = await follower.next(3)
    assert [one[0] for one in events] == ["hello", "job", "metrics"]
    assert events[2][1]["series"]["a"][0]["value"] == [2.0, 3.0]
    await follower.close()


async def test_a_position_from_another_life_makes_the_follower_read_anew(telemetry):
    await telemetry.store(JOB, 1, Batch(metrics=[metric(1, {"a": [1.0]})]))
    follower = Follower(telemetry, Ledger(telemetry), last_id=999)
    assert [one[:2] for one in (await follower.next(4))[2:]] == [("metrics", {}), ("logs", {})]
    await follower.close()


async def test_a_silent_run_is_kept_alive_with_pings(telemetry, monkeypatch):
    monkeypatch.setattr(streaming, "PING_SECONDS", 0.01)
    follower = Follower(telemetry, Ledger(telemetry))
    await follower.next(4)
    assert (await follower.next(pings=True))[0] == "ping"
    await follower.close()


async def test_a_hundred_followers_look_once_and_the_points_are_read_once(telemetry, monkeypatch):
    monkeypatch.setattr(watching, "POLL_SECONDS", 60.0)
    ledger = Ledger(telemetry)
    await telemetry.store(JOB, 1, Batch(metrics=[metric(1, {"a": [1.0]})]))
    followers = [Follower(telemetry, ledger) for _ in range(100)]
    for follower in followers:
        await follower.next(4)
    looks, reads = ledger.looks, 0
    original = telemetry.curves.changes

    async def counted(*arguments):
        nonlocal reads
        reads += 1
        return await original(*arguments)

    monkeypatch.setattr(telemetry.curves, "changes", counted)
    await telemetry.store(JOB, 1, Batch(metrics=[metric(2, {"a": [2.0]})]))
    answers = await asyncio.gather(*(follower.next() for follower in followers))
    assert {answer[2] for answer in answers} == {2}
    assert reads == 1
    assert ledger.looks - looks <= 2
    for follower in followers:
        await follower.close()
    assert telemetry.watches._watches == {}


async def test_a_slow_follower_gets_one_event_for_all_it_slept_through(telemetry):
    ledger = Ledger(telemetry)
    slow = Follower(telemetry, ledger)
    await slow.next(4)
    for seq in range(1, 30):
        await telemetry.store(JOB, 1, Batch(metrics=[metric(seq, {"a": [float(seq)]})]))
    fast = Follower(telemetry, ledger, last_id=28)
    await fast.next(3)
    values = []
    while len(values) < 29:
        values += (await slow.next())[1]["series"]["a"][0]["value"]
    assert values == [float(seq) for seq in range(1, 30)]
    await slow.close()
    await fast.close()


async def test_a_look_that_fails_is_made_up_for(telemetry):
    ledger = Ledger(telemetry)
    failing = [True, True]
    original = ledger.look

    async def look():
        if failing:
            failing.pop()
            raise OSError("the database is away")
        return await original()

    ledger.look = look
    follower = Follower(telemetry, ledger)
    assert [one[0] for one in await follower.next(4)] == ["hello", "job", "metrics", "logs"]
    await follower.close()


async def test_a_read_that_fails_is_asked_again_by_the_next_follower(telemetry, monkeypatch):
    await telemetry.store(JOB, 1, Batch(metrics=[metric(1, {"a": [1.0]})]))
    original, calls = telemetry.curves.changes, []

    async def once_failing(*arguments):
        calls.append(arguments)
        if len(calls) == 1:
            raise OSError("the database is away")
        return await original(*arguments)

    monkeypatch.setattr(telemetry.curves, "changes", once_failing)
    ledger = Ledger(telemetry)
    keeper = Follower(telemetry, ledger)
    await keeper.next(4)
    first, second = Follower(telemetry, ledger, last_id=0), Follower(telemetry, ledger, last_id=0)
    await first.next(2)
    with pytest.raises(OSError, match="away"):
        await first.next()
    assert (await second.next(3))[2][0] == "metrics"
    for follower in (keeper, second):
        await follower.close()


async def test_streams_end_when_the_console_stops_or_their_time_is_up(telemetry, monkeypatch):
    follower = Follower(telemetry, Ledger(telemetry))
    await follower.next(4)
    waiting = asyncio.create_task(anext(follower._events, None))
    await asyncio.sleep(0)
    telemetry.watches.close()
    while (event := await waiting) is not None:
        assert b"ping" in event
        waiting = asyncio.create_task(anext(follower._events, None))
    telemetry.watches.closing = False
    monkeypatch.setattr(streaming, "LIFETIME_SECONDS", -1.0)
    stream = RunStream(telemetry.curves, telemetry.watches, JOB)
    ledger = Ledger(telemetry)
    async with aclosing(stream.events(ledger.look, ledger.job, (topic(JOB),), None)) as events:
        assert [event async for event in events] == [b"retry: 2000\nid: 0\nevent: hello\ndata: {}\n\n"]
