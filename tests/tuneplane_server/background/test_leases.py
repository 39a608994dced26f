"""Leases and loops under faults: two consoles on one job (scenario 7), a row whose handler raises (scenario 8)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta

import pytest

from tests.tuneplane_server.harness import Harness, StillTime
from tuneplane_server.background.leases import BACKOFF_MOST, Lease, Leases, still_held
from tuneplane_server.background.loop import BackOffError, SupervisedLoop, Work
from tuneplane_server.background.writing import RoleWriter
from tuneplane_server.db.engine import Database
from tuneplane_server.domain.transitions import Event
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.wakeups import Wakeups

LIFETIME = timedelta(seconds=60)


def leases(database: Database, time: StillTime, owner: str = "a") -> Leases:
    return Leases(database, time.clock(), owner, LIFETIME)


async def held(database: Database, lease: Lease) -> bool:
    async with database.begin() as session:
        return await still_held(session, lease)


async def test_a_row_is_held_by_one_at_a_time(database: Database) -> None:
    time = StillTime()
    first, second = leases(database, time), leases(database, time, "b")
    (lease,) = await first.claim("launcher", ["x"])
    assert await second.claim("launcher", ["x"]) == []
    assert [other.row_id for other in await second.claim("reaper", ["x"])] == ["x"]
    await first.release([lease])
    assert [other.row_id for other in await second.claim("launcher", ["x", "y"])] == ["x", "y"]


async def test_two_consoles_that_claim_at_once_never_both_get_a_row(database: Database) -> None:
    time = StillTime()
    rows = [f"row-{number}" for number in range(20)]
    consoles = [leases(database, time, owner) for owner in "abcd"]
    claims = await asyncio.gather(*(console.claim("launcher", rows) for console in consoles))
    assert sorted(lease.row_id for claim in claims for lease in claim) == sorted(rows)


async def test_a_lease_that_ran_out_is_anybodys_and_its_old_token_is_worth_nothing(database: Database) -> None:
    time = StillTime()
    first, second = leases(database, time), leases(database, time, "b")
    (old,) = await first.claim("launcher", ["x"])
    time.pass_(61)
    (new,) = await second.claim("launcher", ["x"])
    assert not await held(database, old)
    assert await held(database, new)
    assert await first.renew([old]) == set()
    await first.release([old])
    await first.fail(old)
    assert await held(database, new)


async def test_a_renewed_lease_stays(database: Database) -> None:
    time = StillTime()
    first, second = leases(database, time), leases(database, time, "b")
    (lease,) = await first.claim("launcher", ["x"])
    for _time in range(5):
        time.pass_(40)
        assert await first.renew([lease]) == {"x"}
        assert await second.claim("launcher", ["x"]) == []


async def test_a_row_that_fails_rests_longer_each_time_up_to_a_bound(database: Database) -> None:
    time = StillTime()
    console = leases(database, time)
    rests = []
    for _time in range(12):
        (lease,) = await console.claim("launcher", ["x"])
        rests.append(await console.fail(lease))
        assert await console.claim("launcher", ["x"]) == []
        time.pass_(rests[-1].total_seconds() + 1)
    assert rests[:3] == [timedelta(seconds=1), timedelta(seconds=2), timedelta(seconds=4)]
    assert rests == sorted(rests)
    assert rests[-1] == BACKOFF_MOST


async def test_a_console_that_starts_again_takes_back_its_own_leases_only(database: Database) -> None:
    time = StillTime()
    mine, others = leases(database, time), leases(database, time, "b")
    await mine.claim("launcher", ["x"])
    await others.claim("launcher", ["y"])
    await leases(database, time).forget_own()
    assert [lease.row_id for lease in await mine.claim("launcher", ["x", "y"])] == ["x"]


# --- scenario 7 -------------------------------------------------------------------------------------------------------


async def test_a_console_paused_past_its_lease_writes_nothing_and_one_container_exists(
    harness: Harness, ada: Principal
) -> None:
    """Scenario 7; real processes are in `test_real_replicas.py`."""
    other = harness.replica()
    job_id = await harness.submit(ada)
    entered, resume = asyncio.Event(), asyncio.Event()

    async def pause() -> None:
        if not entered.is_set():
            entered.set()
            await resume.wait()

    harness.scripted.before_launch_returns = pause
    await harness.place()
    launcher = harness.loop("launcher")
    await launcher.tick()
    await entered.wait()  # placed and created; the ledger has not heard of it
    harness.time.pass_(61)
    await other.round()
    assert (await harness.job(job_id)).phase == "running"
    events = len(await harness.events(job_id))
    resume.set()
    await launcher.idle()
    assert len(await harness.events(job_id)) == events
    assert harness.scripted.created == [(job_id, 1)]
    assert list(harness.scripted.containers) == [(job_id, 1)]
    await other.close()


async def test_evidence_about_an_earlier_attempt_changes_nothing(harness: Harness, ada: Principal) -> None:
    job_id = await harness.running_job(ada)
    row = await harness.job(job_id)
    writer = RoleWriter(harness.services.database, harness.services.clock, harness.services.ledger)
    (lease,) = await harness.roles._leases.claim("test", [job_id])
    row.attempt = 2
    assert not await writer.apply(row, lease, Event.UNREACHABLE)
    assert "unreachable" not in await harness.kinds(job_id)


# --- scenario 8 -------------------------------------------------------------------------------------------------------


async def test_one_row_whose_handler_raises_delays_nobody(harness: Harness, ada: Principal) -> None:
    """Scenario 8: the others go on at their pace, the row backs off and shows a condition, the loop keeps ticking."""
    bad, good = await harness.running_job(ada), await harness.running_job(ada)
    harness.scripted.observe_errors[bad] = RuntimeError("boom")
    observer = harness.loop("observer")
    seen: list[datetime] = []
    for _time in range(5):
        await observer._supervised_tick()
        await observer.idle()
        assert observer.last_tick is not None
        seen.append(observer.last_tick)
        harness.time.pass_(2)
    assert sorted(set(seen)) == seen
    assert observer.healthy()
    assert observer.failures < 5  # it rests between its tries
    assert [item["type"] for item in (await harness.job(bad)).conditions] == ["handler-failing"]
    await harness.write_outcome(good)
    await observer.tick()
    await observer.idle()
    assert (await harness.job(good)).phase == "finishing"
    harness.scripted.observe_errors.clear()
    harness.time.pass_(120)
    await harness.round()
    job = await harness.job(bad)
    assert (job.phase, job.conditions) == ("running", [])


class Role:
    """Rows and what happens to them are the test's."""

    name = "test"
    topics = ("test",)
    interval = 1.0

    def __init__(self) -> None:
        self.rows = ["a", "b"]
        self.after: dict[str, float] = {}
        self.handled: list[str] = []
        self.fails: Exception | None = None
        self.broken = False
        self.moved = asyncio.Event()

    async def due(self) -> Sequence[Work]:
        if self.broken:
            raise OSError("the database is away")
        return [Work(row, row, after=self.after.get(row, 0.0)) for row in self.rows]

    async def handle(self, work: Work, lease: Lease) -> None:
        self.handled.append(work.row_id)
        self.moved.set()
        if self.fails is not None:
            raise self.fails

    async def failed(self, work: Work, lease: Lease, error: Exception) -> None:
        return None


@pytest.fixture
def loop_of(database: Database) -> tuple[SupervisedLoop, Role, StillTime]:
    time, role = StillTime(), Role()
    return SupervisedLoop(role, leases(database, time), Wakeups(), time.clock()), role, time


async def test_a_loop_works_on_what_is_due_and_lets_go_of_the_rest(
    loop_of: tuple[SupervisedLoop, Role, StillTime], database: Database
) -> None:
    loop, role, time = loop_of
    await loop.tick()
    await loop.idle()
    role.rows = ["b"]
    await loop.tick()
    await loop.idle()
    assert role.handled == ["a", "b", "b"]
    assert [lease.row_id for lease in await leases(database, time, "b").claim("test", ["a", "b"])] == ["a"]


async def test_what_is_in_no_hurry_waits_before_it_begins_and_keeps_nobody_from_beginning(
    loop_of: tuple[SupervisedLoop, Role, StillTime],
) -> None:
    loop, role, _time = loop_of
    role.after = {"a": 0.05}
    await loop.tick()
    await loop.idle()
    assert role.handled == ["b", "a"]


async def test_what_waits_to_begin_is_not_due_once_more_for_that_and_begins_at_once_when_it_is_in_a_hurry(
    loop_of: tuple[SupervisedLoop, Role, StillTime],
) -> None:
    """Else hundreds of rows that wait make a loop look again each time one of them is done, for ever."""
    loop, role, _time = loop_of
    role.rows, role.after = ["a"], {"a": 3600.0}
    await loop.tick()
    await loop.tick()
    assert (loop.busy, role.handled) == (1, [])
    role.after = {}
    await loop.tick()
    async with asyncio.timeout(60):
        await loop.idle()
    assert role.handled == ["a"]
    assert not loop._wake.is_set(), "nothing has changed that was not looked at"


async def test_backing_off_is_no_failure(loop_of: tuple[SupervisedLoop, Role, StillTime]) -> None:
    loop, role, _time = loop_of
    role.fails = BackOffError()
    for _round in range(3):
        await loop.tick()
        await loop.idle()
    assert role.handled == ["a", "b"]
    assert loop.failures == 0


async def test_a_loop_that_cannot_read_its_rows_lives_on_and_turns_red(
    loop_of: tuple[SupervisedLoop, Role, StillTime],
) -> None:
    loop, role, time = loop_of
    await loop._supervised_tick()
    await loop.idle()
    role.broken = True
    time.pass_(120)
    await loop._supervised_tick()
    assert not loop.healthy()
    role.broken = False
    await loop._supervised_tick()
    await loop.idle()
    assert loop.healthy()


async def test_a_wake_up_makes_a_loop_look_at_once(database: Database) -> None:
    wakeups, role = Wakeups(), Role()
    role.interval = 3600.0
    loop = SupervisedLoop(role, leases(database, StillTime()), wakeups, StillTime().clock())
    running = asyncio.create_task(loop.run())
    await _handled(role, 2)
    wakeups.notify("test")
    await _handled(role, 4)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert len(await leases(database, StillTime(), "b").claim("test", ["a", "b"])) == 2


async def test_a_loop_that_runs_again_claims_its_rows_anew(database: Database) -> None:
    """Roles that are switched off and on: with leases it gave back it could write nothing until it renews them."""
    role = Role()
    loop = SupervisedLoop(role, leases(database, StillTime()), Wakeups(), StillTime().clock())
    for handled in (2, 4):
        running = asyncio.create_task(loop.run())
        await _handled(role, handled)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        assert loop.held == 0


async def _handled(role: Role, count: int) -> None:
    async with asyncio.timeout(60):
        while len(role.handled) < count:
            role.moved.clear()
            await role.moved.wait()
