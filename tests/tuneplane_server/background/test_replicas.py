"""Consoles that share a database: who is there, and whether background work is on (scenario 9). Real processes are in
`test_real_replicas.py`.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import timedelta

import pytest
from sqlalchemy import select

from tests.tuneplane_server.harness import Harness, StillTime
from tuneplane_node.engine.supervisor.procfs import ProcessIdentity
from tuneplane_server.background.consoles import DEAD_SECONDS, ConsoleProcess, Consoles
from tuneplane_server.background.duty import Duty
from tuneplane_server.background.leases import Leases
from tuneplane_server.background.roles import BackgroundRoles
from tuneplane_server.background.tables import ConsoleRow
from tuneplane_server.db.engine import Database
from tuneplane_server.domain.findings import REPLICAS_ON_ONE_MACHINE, REPLICAS_WITHOUT_REDIS
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.jobs.ledger import Ledger
from tuneplane_server.findings import Findings
from tuneplane_server.wakeups import Wakeups


@dataclass
class Console:
    """One console process on the shared database."""

    duty: Duty
    findings: Findings

    @property
    def on(self) -> bool:
        return self.duty.roles.running

    @property
    def found(self) -> list[str]:
        return [finding.code for finding in self.findings.all()]


class Hall:
    """Consoles that come and go on one database, each with its own roles; time is the test's."""

    def __init__(self, database: Database) -> None:
        self.database, self.time = database, StillTime()
        self.consoles: list[Console] = []

    def open(
        self, *, redis: bool = False, one_console: bool = False, instance: str = "x", locked: bool = False
    ) -> Console:
        clock, wakeups, findings = self.time.clock(), Wakeups(), Findings(self.time.clock())
        leases = Leases(self.database, clock, f"instance-{len(self.consoles)}", timedelta(seconds=60))
        roles = BackgroundRoles(clock, Ledger(self.database, clock, wakeups), leases, wakeups, [])
        presence = Consoles(self.database, clock, instance, redis=redis, one_console=one_console, locked=locked)
        console = Console(Duty(presence, roles, findings), findings)
        self.consoles.append(console)
        return console

    async def look(self, *consoles: Console) -> None:
        for console in consoles or self.consoles:
            await console.duty.look()

    async def close(self) -> None:
        for console in self.consoles:
            await console.duty.stop()


@pytest.fixture
async def hall(database: Database) -> AsyncIterator[Hall]:
    hall = Hall(database)
    yield hall
    await hall.close()


async def rows(database: Database) -> list[str]:
    async with database.session() as session:
        return list(await session.scalars(select(ConsoleRow.id).order_by(ConsoleRow.started_at)))


# --- scenario 9 -------------------------------------------------------------------------------------------------------


async def test_two_consoles_without_redis_do_no_background_work_and_one_does(hall: Hall) -> None:
    """Scenario 9: two replicas without Redis → off on both; one → on, without a restart."""
    first = hall.open()
    await hall.look()
    assert (first.on, first.found) == (True, [])
    second = hall.open()
    await hall.look(second, first)
    for console in (first, second):
        assert (console.on, console.found) == (False, [REPLICAS_WITHOUT_REDIS])
        assert console.findings.all()[0].data == {"count": 2}
    await second.duty.stop()
    await hall.look(first)
    assert (first.on, first.found) == (True, [])


async def test_of_two_consoles_that_start_at_once_never_both_work(hall: Hall) -> None:
    """Scenario 9: whoever comes second sees the first, whatever the order of their steps."""
    consoles = [hall.open() for _number in range(3)]
    await asyncio.gather(*(console.duty.look() for console in consoles))
    assert sum(console.on for console in consoles) <= 1
    await hall.look()
    assert [console.on for console in consoles] == [False, False, False]


async def test_consoles_with_redis_all_work(hall: Hall) -> None:
    first, second = hall.open(redis=True), hall.open(redis=True)
    await hall.look()
    await hall.look()
    assert (first.on, second.on) == (True, True)
    third = hall.open(redis=False)
    await hall.look(third, first, second)
    assert [console.on for console in hall.consoles] == [False, False, False]


async def test_runs_that_only_their_own_console_can_see_allow_one_console(hall: Hall) -> None:
    hall.open(redis=True, one_console=True), hall.open(redis=True)
    await hall.look()
    await hall.look()
    assert [console.found for console in hall.consoles] == [[REPLICAS_ON_ONE_MACHINE]] * 2


async def test_a_console_that_leaves_is_gone_at_once(hall: Hall, database: Database) -> None:
    first, second = hall.open(), hall.open()
    await hall.look()
    assert len(await rows(database)) == 2
    await first.duty.stop()
    assert await rows(database) == [second.duty.consoles.id]


async def test_a_console_of_another_machine_that_falls_silent_is_dead_after_a_bound(
    hall: Hall, database: Database
) -> None:
    first, second = hall.open(), hall.open()
    await hall.look()
    await hall.look(first)
    hall.time.pass_(DEAD_SECONDS - 1)
    await hall.look(first)
    assert not first.on
    hall.time.pass_(2)
    await hall.look(first)
    assert first.on
    assert await rows(database) == [first.duty.consoles.id]
    await hall.look(second, first)  # it was only paused: it is there again
    assert len(await rows(database)) == 2
    assert (first.on, second.on) == (False, False)


async def test_a_clock_that_is_far_off_kills_nobody(hall: Hall) -> None:
    """Whether a console lives is seen by its row changing, never by comparing clocks."""
    first, second = hall.open(), hall.open()
    await hall.look()
    for hours in (5, -5, 0):
        hall.time.pass_(3600 * hours)
        await hall.look(second)
        hall.time.pass_(-3600 * hours + 3)
        await hall.look(first)
        assert len(first.duty.consoles.live) == 2


async def test_a_killed_console_of_this_machine_is_dead_at_once(hall: Hall, database: Database) -> None:
    """Scenario 9."""
    first, second = hall.open(), hall.open()
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "input()", stdin=asyncio.subprocess.PIPE)
    mine = second.duty.consoles._process
    second.duty.consoles._process = ConsoleProcess(ProcessIdentity.of(process.pid), mine.namespace)
    await hall.look()
    await hall.look(first)
    assert not first.on
    process.kill()
    await process.wait()
    await hall.look(first)
    assert first.on
    assert await rows(database) == [first.duty.consoles.id]


async def test_whoever_holds_the_data_directory_knows_that_its_predecessor_is_dead(
    hall: Hall, database: Database
) -> None:
    """Scenario 2: a container that is replaced is back at once, though its processes mean nothing to the new one."""
    before = hall.open(instance="y")
    await hall.look()
    other = hall.open(instance="z")
    successor = hall.open(instance="y", locked=True)
    await hall.look(successor)
    assert successor.on
    assert await rows(database) == [successor.duty.consoles.id]
    await hall.look(other, successor)
    assert not successor.on
    await before.duty.consoles.leave()


def test_a_process_of_another_boot_or_container_is_not_judged() -> None:
    here = ConsoleProcess.current()
    gone = ProcessIdentity(2**22 + 1, 1, here.identity.boot_id)
    assert ConsoleProcess(gone, here.namespace).surely_dead(here)
    assert not ConsoleProcess(gone, here.namespace + 1).surely_dead(here)
    assert not ConsoleProcess(gone._replace(boot_id="another"), here.namespace).surely_dead(here)
    assert not ConsoleProcess(ProcessIdentity.of(os.getpid()), here.namespace).surely_dead(here)


async def test_roles_that_are_switched_on_again_adopt_nothing_twice(harness: Harness, ada: Principal) -> None:
    job_id = await harness.running_job(ada)
    await harness.restart()
    await harness.roles.switch_on()
    await harness.roles.switch_off()
    health = harness.roles.health()
    assert all(role.off and role.healthy for role in health)
    await harness.roles.switch_on()
    await harness.roles.stop()
    # once by `restart`, once when the loops first ran
    assert (await harness.kinds(job_id)).count("adopted") == 2


async def test_roles_that_are_off_stop_nothing_and_hold_nothing(harness: Harness, ada: Principal) -> None:
    """Scenario 9: reading works, runs go on."""
    job_id = await harness.running_job(ada)
    await harness.roles.switch_off()
    assert (await harness.job(job_id)).phase == "running"
    assert harness.scripted.stopped == []
    other = harness.replica()
    await other.round()
    assert (await harness.job(job_id)).phase == "running"
    await other.close()
