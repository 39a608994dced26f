"""The ledger under random histories: submits, cancels, pauses, ends, faults, repeated and late events, two consoles, and a
process that dies between any two writes. What must hold is checked after every step and at the end, on SQLite and Postgres.

It was tried against breaks made on purpose, one at a time, and noticed each of these: a terminal phase that is written again, cards
held beyond those there are, a launch that makes another container instead of finding the first, leases that are not checked
where a role writes, a cancel that a restart loses, runs that the quota does not count while they start, evidence of an earlier
attempt that is believed, cards freed without proof; with an executor's own queue also: a use that never begins or is never
settled, the condition of a wait that is over, machines that are never named. Not noticed, and no fault by itself: a quota that is
not checked again where a placement is written, since the plan and the lease keep it.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import hypothesis
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from sqlalchemy import select

from tests.tuneplane_server.background.mortal import DeadError, MortalHarness
from tests.tuneplane_server.executors.scripted import ScriptedExecutor
from tests.tuneplane_server.harness import gpu_pool, jobspec
from tuneplane_server.background.leases import Lease
from tuneplane_server.background.placer import ROW
from tuneplane_server.background.tables import LeaseRow
from tuneplane_server.domain.classify import Exit
from tuneplane_server.domain.own_queue import is_counted
from tuneplane_server.domain.phases import LIVE, TERMINAL, Phase, Reason, Verdict
from tuneplane_server.domain.transitions import Event, Ignored
from tuneplane_server.executors.port import Queued
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.governance.tables import QuotaRow
from tuneplane_server.features.hardware.tables import GpuHoldRow, GpuUseRow
from tuneplane_server.features.jobs.ledger import Guard, Stale
from tuneplane_server.features.jobs.tables import JobEventRow, JobRow

if TYPE_CHECKING:
    from tests.services.databases import PostgresServer

CARDS, QUOTA = 8, 6  # the second user may hold fewer cards than there are
EXITS = {
    "succeeded": Exit(exit_code=0),
    "failed": Exit(exit_code=1),
    "no-outcome": Exit(exit_code=0),
    "killed": Exit(exit_code=137, signal=9),
}
WORDS = ("succeeded", "failed")  # ends of which the runner leaves its word
# Evidence of these may come again or late; what a role does only once is not evidence.
SIGHTINGS = {"running", "unreachable", "outcome", "ended", "overdue", "cleaned", "settled"}
LAST_ROUNDS = 60  # more than any history here needs to come to its end
jobs = st.integers(0, 5)
# Hypothesis leaves whole rules out of a history; what follows an action is part of it, so that no history stands still.
then = st.integers(0, 2)


class LedgerMachine(RuleBasedStateMachine):
    """`url`: a migrated, empty database; it is this history's own. `own_queue`: the executor has one, as Slurm has."""

    own_queue = False

    def __init__(self, url: str) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.folder = Path(tempfile.mkdtemp(prefix="ledger-machine-"))
        self.world = ScriptedExecutor(gpus=CARDS, own_queue=self.own_queue)
        self.console = MortalHarness(url, self.folder, self.world)
        self.ids: list[str] = []
        self.ended: dict[str, tuple[Any, ...]] = {}
        self.cancelled: dict[str, int] = {}  # run -> the attempt it was at
        self.users: list[Principal] = self.run(self._people())

    def run[T](self, doing: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(doing)

    async def _people(self) -> list[Principal]:
        users = [await self.console.user(name) for name in ("ada", "bob")]
        for user in users:
            await self.console.bring_package(user)
        async with self.console.services.database.begin() as session:
            now = self.console.time.now
            session.add(
                QuotaRow(scope="user", subject_id=users[1].user_id, limits={"gpus": QUOTA}, version=1, updated_at=now, updated_by="test")
            )  # fmt: skip
        return users

    @initialize(
        sizes=st.lists(st.tuples(st.integers(0, 1), st.sampled_from((1, 2, 4, 6))), min_size=1, max_size=3),
        dies=st.booleans(),
    )
    def begin(self, sizes: list[tuple[int, int]], dies: bool) -> None:
        self.crowd()
        for number, (who, gpus) in enumerate(sizes):
            self.submit_one(who, gpus, 0, number % 3)
        self.run(self._die_launching() if dies else self.console.round())

    # --- what people do -------------------------------------------------------------------------------------------

    @precondition(lambda self: len(self.ids) < 6 and self.world.reachable)  # what there is must be known once
    @rule(
        who=st.integers(0, 1), gpus=st.sampled_from((1, 2, 4, 6)), priority=st.integers(-1, 1), infra=st.integers(0, 2)
    )
    def submit(self, who: int, gpus: int, priority: int, infra: int) -> None:
        self.submit_one(who, gpus, priority, infra)

    def submit_one(self, who: int, gpus: int, priority: int, infra: int) -> None:
        limits = {"retries": {"infra": infra}, "max_duration": 3600}
        spec = jobspec(resources=gpu_pool(gpus), priority=priority, limits=limits)
        self.ids.append(self.run(self.console.submit(self.users[who], spec)))

    @rule(which=jobs, event=st.sampled_from((Event.CANCEL, Event.PAUSE, Event.RESUME, Event.RESUME)), rounds=then)
    def ask(self, which: int, event: Event, rounds: int) -> None:
        if (job := self._job(which)) is None:
            return
        ledger = self.console.services.ledger
        self.run(ledger.apply(job.id, event, ledger.evidence(data={"actor": "ada"})))
        if event is Event.CANCEL and job.phase not in TERMINAL:
            self.cancelled.setdefault(job.id, job.attempt)
        self.run(self.console.round(rounds))

    # --- what happens out there -----------------------------------------------------------------------------------

    @rule(which=jobs, how=st.sampled_from((*EXITS, "vanished")), rounds=then)
    def end(self, which: int, how: str, rounds: int) -> None:
        running = [key for key, container in self.world.containers.items() if container.running]
        if not running:
            return
        job_id, attempt = running[which % len(running)]
        job, container = self.run(self.console.job(job_id)), self.world.containers[job_id, attempt]
        if job.attempt != attempt or (how == "vanished" and job.handle is None):
            return  # a launch that nobody recorded and that is gone is rightly done again
        if how == "vanished":
            del self.world.containers[job.id, job.attempt]
        else:
            if how in WORDS:
                self.run(self.console.write_outcome(job.id, how))
            container.exit = EXITS[how]
        self.run(self.console.round(rounds))

    @rule(which=jobs)
    def ignore_signals(self, which: int) -> None:
        for (job_id, _attempt), container in self.world.containers.items():
            if which < len(self.ids) and job_id == self.ids[which]:
                container.ignores_sigterm = True

    @rule(reachable=st.sampled_from((True, True, True, False)), cleans=st.booleans(), rounds=then)
    def weather(self, reachable: bool, cleans: bool, rounds: int) -> None:
        self.world.reachable, self.world.cleans = reachable, cleans
        self.run(self.console.round(rounds))

    @rule(seconds=st.sampled_from((1, 30, 130, 700, 4000)), rounds=then)
    def wait(self, seconds: int, rounds: int) -> None:
        self.console.time.pass_(seconds)
        self.run(self.console.round(rounds))

    # --- what the console does ------------------------------------------------------------------------------------

    @rule(times=st.integers(1, 2))
    def work(self, times: int) -> None:
        self.run(self.console.round(times))

    @rule(fuse=st.integers(1, 40))
    def work_and_die(self, fuse: int) -> None:
        self.console.life.fuse = fuse
        self.run(self._die())

    @rule()
    def die_while_launching(self) -> None:
        """Something was started, and nobody lived to write that down."""
        self.run(self._die_launching())

    @rule(which=jobs)
    def cancel_and_die(self, which: int) -> None:
        """A cancel was written, and the console died before it did anything for it."""
        live = [job_id for job_id in self.ids if self.run(self.console.job(job_id)).phase in LIVE]
        if live:
            self.ask(self.ids.index(live[which % len(live)]), Event.CANCEL, 0)
            self.console.life.fuse = 1
            self.run(self._die())
            self.run(self.console.round())

    @rule()
    def go_on_after_a_pause(self) -> None:
        """A further attempt; and at once everything is told again that is known of those before it."""
        for job_id, attempt in list(self.world.containers):
            if self.world.containers[job_id, attempt].running and self.run(self.console.job(job_id)).attempt == attempt:
                self.ask(self.ids.index(job_id), Event.PAUSE, 3)
                self.ask(self.ids.index(job_id), Event.RESUME, 1)
                self.run(self._tell_of_earlier_attempts(job_id))
                return

    @precondition(lambda self: len(self.ids) < 6 and self.world.reachable)
    @rule()
    def crowd(self) -> None:
        """More than the second user may hold, one shortly after the other."""
        for _time in range(2):
            self.submit_one(1, 4, 2, 0)
            self.run(self.console.round())

    @rule(which=jobs, late=st.integers(0, 40))
    def hear_again(self, which: int, late: int) -> None:
        """Something that was seen once is told again, as of the attempt it was seen of."""
        if (job := self._job(which)) is None:
            return
        told = [
            event for event in self.run(self.console.events(job.id)) if event.kind in SIGHTINGS and not event.ignored
        ]
        if told:
            self.run(self._tell(told[late % len(told)]))

    @rule()
    def another_console_works(self) -> None:
        self.run(self._by_another())

    @rule(role=st.sampled_from(("observer", "launcher", "reaper", "placer")), moments=st.integers(1, 6))
    def sleep_past_the_lease(self, role: str, moments: int) -> None:
        """scenario 7: paused in the middle of its work, another one does it meanwhile; awake again, it writes nothing."""
        self._give_work_to(role)
        self.run(self._oversleep(role, moments))

    def _give_work_to(self, role: str) -> None:
        """Something that the role has to write about."""
        if role in ("launcher", "placer"):
            if len(self.ids) < 8 and self.world.reachable:
                self.submit_one(0, 1, 1, 0)
            if role == "launcher":
                self.run(self.console.place())
            return
        for (job_id, attempt), container in self.world.containers.items():
            job = self.run(self.console.job(job_id))
            if job.attempt != attempt or not container.running:
                continue
            if role == "observer":
                container.exit = EXITS["failed"]
            else:
                self.ask(self.ids.index(job_id), Event.CANCEL, 0)
            return

    async def _die(self) -> None:
        console = self.console
        try:
            await console.round()
        except DeadError:
            pass
        for loop in console.roles.loops:
            await loop.idle()
        console.life.fuse = 0
        old = console.services
        await console.restart()
        await old.database.close()

    async def _die_launching(self) -> None:
        life = self.console.life

        def burn() -> None:
            life.fuse = 1 if life.fuse is None else life.fuse

        self.world.before_launch_returns = burn
        try:
            await self._die()
        finally:
            self.world.before_launch_returns = None

    async def _by_another(self) -> None:
        other = self.console.replica()
        try:
            await other.round()
            for loop in other.roles.loops:
                await loop._leases.release(loop._held.values())
        finally:
            await other.services.database.close()

    async def _oversleep(self, role: str, moments: int) -> None:
        console, loop = self.console, self.console.loop(role)
        await loop.tick()  # from here on all that it does is guarded by the leases that it has
        mine = dict(loop._held)
        before: set[tuple[str, int]] = set()
        kept: set[str] = set()

        async def meanwhile() -> None:
            console.time.pass_(console.services.settings.lease_seconds + 1)
            await self._by_another()
            before.update(await self._written())
            kept.update(await self._still_mine(role, mine))

        console.life.sleep_in(moments, meanwhile)
        await loop.idle()
        console.life.wake()
        if before:
            late = {job_id for job_id, _seq in await self._written() - before}
            lost = set() if ROW in kept else late - kept
            assert not lost, f"{role} wrote about {lost} when its lease was another's"

    async def _written(self) -> set[tuple[str, int]]:
        async with self.console.services.database.session() as session:
            return {(row[0], row[1]) for row in await session.execute(select(JobEventRow.job_id, JobEventRow.seq))}

    async def _still_mine(self, role: str, mine: dict[str, Lease]) -> set[str]:
        """Rows of which nobody took the lease, though it is over."""
        async with self.console.services.database.session() as session:
            rows = await session.scalars(select(LeaseRow).where(LeaseRow.role == role))
            return {row.row_id for row in rows if row.row_id in mine and row.token == mine[row.row_id].token}

    async def _tell(self, told: JobEventRow) -> None:
        verdict = None
        if told.data.get("verdict"):
            reason = told.data["reason"]
            verdict = Verdict(
                Phase(told.data["verdict"]), Reason(**reason) if reason else None, told.data["verdict"] == "succeeded"
            )
        ledger, now = self.console.services.ledger, await self.console.job(told.job_id)
        evidence = ledger.evidence(verdict=verdict, data={"again": True})
        result = await ledger.apply(told.job_id, Event(told.kind), evidence, guard=Guard(told.attempt))
        if told.attempt != now.attempt:
            assert isinstance(result, Stale), "what is known of an earlier attempt says nothing about this one"

    # --- what must hold -------------------------------------------------------------------------------------------

    @invariant()
    def holds(self) -> None:
        self.run(self._check())

    async def _check(self) -> None:
        async with self.console.services.database.session() as session:
            rows = {row.id: row for row in await session.scalars(select(JobRow))}
            held = list(await session.scalars(select(GpuHoldRow)))
            events = list(await session.scalars(select(JobEventRow).order_by(JobEventRow.job_id, JobEventRow.seq)))
        self._cards_are_held_once(rows, held)
        self._histories_are_whole(rows, events)
        for row in rows.values():
            self._ends_are_written_once(row)
            assert row.id not in self.cancelled or (row.desired, row.attempt) == ("cancel", self.cancelled[row.id])
        # No launch twice, and what is out there has its cards.
        assert len(self.world.created) == len(set(self.world.created))
        holders = {(hold.job_id, hold.attempt) for hold in held}
        assert set(self.world.containers) <= holders
        await self._every_phase_has_an_owner(rows)

    def _cards_are_held_once(self, rows: dict[str, JobRow], held: list[GpuHoldRow]) -> None:
        assert len({(hold.node, hold.gpu_index) for hold in held}) == len(held)
        assert self.own_queue or len(held) <= CARDS
        for hold in held:
            row = rows[hold.job_id]
            assert row.attempt == hold.attempt
            assert row.phase != "queued"
            assert row.cleanup != "confirmed", "cards are freed in the transaction that records the proof"
        assert sum(rows[hold.job_id].owner_id == self.users[1].user_id for hold in held) <= QUOTA
        for row in rows.values():
            if row.phase in LIVE and row.cleanup != "confirmed":
                mine = sum(hold.job_id == row.id for hold in held)
                assert mine == row.spec["spec"]["resources"]["pools"][0]["gpus_per_node"]

    def _histories_are_whole(self, rows: dict[str, JobRow], events: list[JobEventRow]) -> None:
        phase: dict[str, str] = {}
        count: dict[str, int] = {}
        for event in events:
            count[event.job_id] = count.get(event.job_id, 0) + 1
            assert event.seq == count[event.job_id]
            assert event.from_phase == phase.get(event.job_id, "")
            assert not event.ignored or event.from_phase == event.to_phase
            phase[event.job_id] = event.to_phase
        assert phase == {row.id: row.phase for row in rows.values()}

    def _ends_are_written_once(self, row: JobRow) -> None:
        if row.phase in TERMINAL:
            end = (row.phase, row.reason, row.finished_at, row.attempt)
            assert self.ended.setdefault(row.id, end) == end
        else:
            assert row.id not in self.ended

    async def _every_phase_has_an_owner(self, rows: dict[str, JobRow]) -> None:
        due = {work.row_id for loop in self.console.roles.loops for work in await loop.role.due()}
        for row in rows.values():
            if row.phase in LIVE:
                assert row.id in due, f"nobody looks after {row.phase}"

    def teardown(self) -> None:
        """The weather clears, and everything comes to its end: nothing stuck, nothing held, nothing out there."""
        try:
            self.run(self._come_to_an_end())
        finally:
            self.run(self.console.close())
            self.loop.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    async def _come_to_an_end(self) -> None:
        self.world.reachable = self.world.cleans = True
        ledger = self.console.services.ledger
        for job_id in self.ids:
            await ledger.apply(job_id, Event.RESUME, ledger.evidence(data={"actor": "ada"}))
        for _round in range(LAST_ROUNDS):
            if all([(await self.console.job(job_id)).phase in TERMINAL for job_id in self.ids]):
                break
            await self.console.round()
            self.console.time.pass_(130)
            for (job_id, attempt), container in self.world.containers.items():
                if container.running and (await self.console.job(job_id)).attempt == attempt:
                    container.begin("real")
                    await self.console.write_outcome(job_id)
                    container.exit = EXITS["succeeded"]
        await self.console.round(2)
        await self._check()
        await self._say_everything_again()
        await self._check()
        for job_id in self.ids:
            job = await self.console.job(job_id)
            assert job.phase in TERMINAL, f"{job_id} is stuck in {job.phase}"
            # Nothing to prove of an attempt that ended in the queue.
            assert job.cleanup == "confirmed" or (job.cleanup == "none" and job.handle is None)
        assert await self.console.held_gpus() == []
        assert self.world.containers == {}

    async def _say_everything_again(self) -> None:
        """scenario 3: whatever comes when all is over changes nothing, and is recorded."""
        ledger = self.console.services.ledger
        for job_id in self.ids:
            history = await self.console.events(job_id)
            seen = {(event.kind, event.attempt): event for event in history if event.kind in SIGHTINGS}
            for told in seen.values():
                await self._tell(told)
            for wish in (Event.CANCEL, Event.PAUSE, Event.RESUME, Event.TIME_LIMIT):
                assert isinstance(await ledger.apply(job_id, wish, ledger.evidence()), Ignored)
            after = (await self.console.events(job_id))[len(history) :]
            assert all(event.ignored for event in after)

    async def _tell_of_earlier_attempts(self, job_id: str) -> None:
        now = await self.console.job(job_id)
        for event in await self.console.events(job_id):
            if event.kind in SIGHTINGS and not event.ignored and event.attempt < now.attempt:
                await self._tell(event)

    def _job(self, which: int) -> JobRow | None:
        return self.run(self.console.job(self.ids[which % len(self.ids)])) if self.ids else None


# Not made smaller on failure: a step is a transaction, and the printed history with its blob is enough to repeat it.
# Always the same few histories in `make test`; TUNEPLANE_TEST_HISTORIES=200 tries so many new ones.
HISTORIES = settings(
    max_examples=int(os.environ.get("TUNEPLANE_TEST_HISTORIES", "6")),
    stateful_step_count=40,
    derandomize="TUNEPLANE_TEST_HISTORIES" not in os.environ,
    deadline=None,
    phases=(hypothesis.Phase.explicit, hypothesis.Phase.generate),
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
# The rules are the same on Postgres and with a queue of the executor's; what may be otherwise there shows in some of them.
FEWER, FEWEST = (settings(HISTORIES, max_examples=max(1, HISTORIES.max_examples // part)) for part in (2, 6))
pytestmark = pytest.mark.timeout(1800)


class QueueOutThere(LedgerMachine):
    """With an executor that has a queue of its own, as Slurm has: which machines and when is its decision."""

    own_queue = True

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.world.begins_after = 3  # and each history has some that run, whatever rules it leaves out

    @rule(which=jobs, what=st.sampled_from(("begin", "begin", "begin", "let-go", "move", "put-back")), rounds=then)
    def queue_out_there(self, which: int, what: str, rounds: int) -> None:
        """The executor's own queue moves: one begins on machines of its choice, is let go, moves up, or is put back."""
        waiting = [
            one for one in self.world.containers.values() if one.running and (not one.started or what == "put-back")
        ]
        if waiting:
            container = waiting[which % len(waiting)]
            if what == "begin":
                container.begin(f"real-{which}", at=self.console.time.now)
            elif what == "let-go":
                container.let_go()
            elif what == "move":
                container.queued = Queued("Priority", "", which + 1)
            else:
                container.exit = Exit(absent=True, cause="requeued")
        self.run(self.console.round(rounds))

    @invariant()
    def waiting_is_no_use(self) -> None:
        self.run(self._check_uses())

    async def _check_uses(self) -> None:
        """Who waits for the start says so and nobody else does; what waits uses nothing, and what ended settled what it used."""
        async with self.console.services.database.session() as session:
            rows = {row.id: row for row in await session.scalars(select(JobRow))}
            uses = list(await session.scalars(select(GpuUseRow)))
        for row in rows.values():
            before = {item["type"] for item in row.conditions} & {"executor-queue", "executor-starting"}
            assert not before or (row.phase == "starting" and row.handle is not None)
            if row.phase == "running":
                assert row.handle is not None
                assert not any(map(is_counted, row.handle["nodes"]))
        for use in uses:
            if use.ended_at is not None:
                assert use.started_at <= use.ended_at
                assert not use.pending
            elif rows[use.job_id].phase in ("starting", "running"):
                assert use.pending == (rows[use.job_id].phase == "starting")


def run_histories(machine: Callable[[], LedgerMachine], how: settings) -> None:
    """Whatever makes a machine will do, though the annotation there names its class alone."""
    run_state_machine_as_test(cast("type[LedgerMachine]", machine), settings=how)


@pytest.mark.parametrize("kind", [LedgerMachine, QueueOutThere])
def test_no_history_breaks_the_ledger_on_sqlite(
    kind: type[LedgerMachine], sqlite_template: Path, tmp_path: Path
) -> None:
    def on_sqlite() -> LedgerMachine:
        file = tmp_path / f"{uuid.uuid4().hex}.db"
        shutil.copy(sqlite_template, file)
        return kind(f"sqlite+aiosqlite:///{file}")

    run_histories(on_sqlite, HISTORIES if kind is LedgerMachine else FEWER)


@pytest.mark.parametrize("kind", [LedgerMachine, QueueOutThere])
def test_no_history_breaks_the_ledger_on_postgres(
    kind: type[LedgerMachine], postgres_server: PostgresServer, postgres_template: str
) -> None:
    names: list[str] = []

    def on_postgres() -> LedgerMachine:
        names.append(f"machine_{uuid.uuid4().hex}")
        postgres_server.create(names[-1], postgres_template)
        return kind(postgres_server.url(names[-1]))

    try:
        run_histories(on_postgres, FEWER if kind is LedgerMachine else FEWEST)
    finally:
        for name in names:
            postgres_server.drop(name)
