"""What is told of an attempt: from the controller, by name, from the accounting, from its own files; and gone only after a while."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.tuneplane_server.executors.slurm.memory import (
    JOB,
    MemorySlurm,
    Time,
    a_console_like,
    a_foreign_job,
    a_plan,
    an_executor,
    directory_of,
)
from tuneplane_server.domain.classify import Exit
from tuneplane_server.domain.members import verdict_of
from tuneplane_server.domain.phases import Phase
from tuneplane_server.executors.port import (
    Capabilities,
    CleanupState,
    ExecutorUnreachableError,
    Handle,
    LaunchPlan,
    PoolPlan,
)
from tuneplane_server.executors.slurm.executor import SlurmExecutor
from tuneplane_server.executors.slurm.rest.models import ErrorKind, SlurmError, SlurmJob

TWO_POOLS = (PoolPlan("train", "h200", 2, 8), PoolPlan("rollout", "h200", 1, 4))


class Stage:
    """An attempt that Slurm has been given, as its job 17."""

    def __init__(self, root: Path, pools: tuple[PoolPlan, ...] = ()) -> None:
        self.slurm = MemorySlurm(Time())
        self.plan: LaunchPlan = a_plan(root, pools=pools)
        self.executor: SlurmExecutor = an_executor(self.slurm, root)

    async def launch(self) -> Handle:
        return await self.executor.launch(self.plan)

    def leave(self, **files: str) -> None:
        for name, text in files.items():
            (directory_of(self.plan) / name.replace("__", ".").replace("_", "-")).write_text(text)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


@pytest.fixture
def gang(tmp_path: Path) -> Stage:
    return Stage(tmp_path, TWO_POOLS)


async def test_what_it_can_do(stage: Stage) -> None:
    assert stage.executor.capabilities() == Capabilities(
        "apptainer",
        "sif",
        heterogeneous_pools=True,
        multi_node=True,
        on_this_machine=False,
        isolates=True,
        own_queue=True,
    )
    assert await stage.executor.sample("n1") is None


async def test_a_job_that_waits_tells_why_and_where_it_stands(stage: Stage) -> None:
    handle = await stage.launch()
    await stage.slurm.submit(replace(stage.slurm.submitted[0], name="someone", comment="else"))
    stage.slurm.set(18, "PENDING", priority=500, user="other")
    seen = await stage.executor.observe(handle)
    assert (seen.presence, seen.running, seen.started, seen.exit) == ("present", True, False, None)
    assert seen.queued is not None
    assert (seen.queued.reason, seen.queued.position) == ("Resources", 2)
    assert seen.queued.since is not None


async def test_a_job_whose_machines_are_made_ready_has_not_started(stage: Stage) -> None:
    handle = await stage.launch()
    stage.slurm.run(17)
    stage.slurm.set(17, "CONFIGURING+RUNNING")
    seen = await stage.executor.observe(handle)
    assert (seen.running, seen.started, seen.queued, seen.nodes) == (True, False, None, ("n00",))


async def test_a_job_that_runs_has_real_machines_by_rank(gang: Stage) -> None:
    handle = await gang.launch()
    gang.slurm.run(17)
    seen = await gang.executor.observe(handle)
    assert (seen.running, seen.started, seen.nodes) == (True, True, ("n00", "n01", "n10"))
    assert seen.started_at is not None
    assert len(handle.nodes) == 3


async def test_states_that_are_not_known_run_on(stage: Stage) -> None:
    handle = await stage.launch()
    stage.slurm.run(17)
    stage.slurm.set(17, "FROBBING")
    seen = await stage.executor.observe(handle)
    assert (seen.presence, seen.running, seen.started) == ("present", True, True)
    assert "FROBBING" in seen.detail


async def test_completing_is_still_running(stage: Stage) -> None:
    handle = await stage.launch()
    stage.slurm.run(17)
    stage.slurm.set(17, "COMPLETING", exit_code=0)
    assert (await stage.executor.observe(handle)).running


async def test_how_it_ended_with_the_end_of_its_output(stage: Stage) -> None:
    handle = await stage.launch()
    stage.slurm.run(17)
    stage.slurm.set(17, "FAILED", exit_code=3)
    stage.leave(job__out="x" * 40_000 + "last words\n", rank_0__exit="3 1796040000 0\n")
    seen = await stage.executor.observe(handle)
    assert (seen.presence, seen.running, seen.exit) == ("present", False, Exit(exit_code=3))
    assert seen.output.endswith("last words\n")
    assert len(seen.output) == 16 * 1024
    assert seen.members == ()


async def test_too_few_cards_end_the_job(gang: Stage) -> None:
    handle = await gang.launch()
    gang.slurm.run(17, gpus=2)
    seen = await gang.executor.observe(handle)
    assert (seen.running, seen.started) == (True, False)
    assert seen.detail == "Slurm gave the job 4 of the 20 GPUs that it asked for"
    await gang.slurm.is_cancelled(17)
    gang.slurm.set(17, "CANCELLED", gpus_allocated=None)  # without accounting for cards nobody knows any more
    seen = await gang.executor.observe(handle)
    assert seen.exit is not None
    assert (seen.running, seen.exit.cause, seen.exit.detail) == (False, "gpus-missing", seen.detail)


async def test_a_job_that_slurm_starts_again_is_over_as_an_attempt(stage: Stage) -> None:
    handle = await stage.launch()
    stage.slurm.run(17)
    stage.slurm.set(17, "PENDING", restarts=1, reason="BeginTime")
    seen = await stage.executor.observe(handle)
    assert (seen.presence, seen.running) == ("present", False)
    assert seen.exit is not None
    assert (seen.exit.absent, seen.exit.cause) == (True, "requeued")


@pytest.mark.parametrize(
    ("minutes", "words", "code", "cause"),
    [
        (59, "FAILED", 143, "slurm-time-limit"),  # its limit is 60, and it was told a minute before
        (59, "COMPLETED", 0, "slurm-time-limit"),
        (59, "FAILED", 1, None),
        (57, "FAILED", 143, None),
        (59, "CANCELLED", 143, "slurm-cancelled"),
    ],
)
async def test_a_job_that_ended_when_slurm_warned_it_of_its_limit(
    stage: Stage, minutes: int, words: str, code: int, cause: str | None
) -> None:
    handle = await stage.launch()
    stage.slurm.run(17)
    ended = stage.slurm.time.now() + timedelta(minutes=minutes)
    stage.slurm.set(17, words, exit_code=code, ended_at=ended, time_limit_minutes=60)
    seen = await stage.executor.observe(handle)
    assert seen.exit is not None
    assert (seen.exit.cause, seen.exit.exit_code) == (cause, code)


async def test_a_job_that_ended_before_its_script_began_could_not_be_started(stage: Stage) -> None:
    """slurmd refuses a job whose number it has had, or whose prolog fails, and Slurm cancels what it may not requeue."""
    handle = await stage.launch()
    stage.slurm.run(17)
    stage.slurm.set(17, "CANCELLED", ended_at=stage.slurm.time.now() + timedelta(seconds=1))
    seen = await stage.executor.observe(handle)
    assert seen.exit is not None
    assert (seen.exit.cause, seen.exit.exit_code) == ("launch-failed", None)
    assert "before its script began; unless somebody ended it in Slurm, the log of slurmd on n00" in seen.exit.detail
    stage.leave(started="17\n")
    seen = await stage.executor.observe(handle)
    assert seen.exit is not None
    assert seen.exit.cause == "slurm-cancelled"


async def test_a_job_that_was_cancelled_while_it_waited_was_ended_by_somebody(stage: Stage) -> None:
    """Slurm says of it that it began when it ended."""
    handle = await stage.launch()
    now = stage.slurm.time.now()
    stage.slurm.set(17, "CANCELLED", started_at=now, ended_at=now)
    seen = await stage.executor.observe(handle)
    assert seen.exit is not None
    assert seen.exit.cause == "slurm-cancelled"


async def test_the_end_of_a_second_start_is_not_meant_for_the_first_one(stage: Stage) -> None:
    """A node refuses a start that a slurmctld makes again because it has lost the first one, and the job is cancelled for it."""
    handle = await stage.launch()
    stage.leave(started="17\n", rank_0__exit="143 1796040001 0\n")
    began = stage.slurm.time.now().timestamp() - 6
    os.utime(directory_of(stage.plan) / "started", (began, began))
    stage.slurm.run(17)
    stage.slurm.set(17, "CANCELLED", ended_at=stage.slurm.time.now())
    assert (await stage.executor.observe(handle)).exit == Exit(exit_code=143, signal=15)


async def test_a_job_that_slurm_calls_running_long_after_its_end_is_ended_there(stage: Stage) -> None:
    """As a slurmctld does that was killed before it wrote the end down."""
    handle = await stage.launch()
    stage.slurm.run(17)
    stage.leave(started="17\n", rank_0__exit="3 1796040000 0\n")
    assert (await stage.executor.observe(handle)).running
    assert stage.slurm.cancelled == []
    old = (directory_of(stage.plan) / "rank-0.exit").stat().st_mtime - 121
    os.utime(directory_of(stage.plan) / "rank-0.exit", (old, old))
    assert (await stage.executor.observe(handle)).running  # its files were looked at a moment ago
    runner = hold(stage.plan.capsule.parent / "spool" / "rank-0" / "claim")
    stage.slurm.time.passed += 20
    assert (await stage.executor.observe(handle)).running
    assert stage.slurm.cancelled == []
    os.close(runner)
    stage.slurm.time.passed += 20
    assert (await stage.executor.observe(handle)).running  # until Slurm says that nothing of it is left
    await stage.slurm.is_cancelled(17)
    ended = datetime.fromtimestamp(1796040000 + 121, UTC)
    for words in ("CANCELLED", "NODE_FAIL", "TIMEOUT"):  # whoever ends it
        stage.slurm.set(17, words, started_at=ended - timedelta(seconds=125), ended_at=ended)
        stage.slurm.time.passed += 20
        assert (await stage.executor.observe(handle)).exit == Exit(exit_code=3)
    stage.slurm.set(17, "NODE_FAIL", ended_at=ended - timedelta(seconds=120))
    stage.slurm.time.passed += 20
    seen = await stage.executor.observe(handle)
    assert seen.exit is not None
    assert seen.exit.cause == "node-lost"


# --- several machines -----------------------------------------------------------------------------------------------


async def test_the_first_machine_that_failed_is_the_cause(gang: Stage) -> None:
    handle = await gang.launch()
    gang.slurm.run(17)
    gang.slurm.set(17, "FAILED", exit_code=143)
    gang.leave(rank_0__exit="143 1796040009 1\n", rank_1__exit="1 1796040001 0\n", rank_2__exit="143 1796040008 1\n")
    gang.leave(rank_1__out="CUDA error: an illegal memory access was encountered\n")
    seen = await gang.executor.observe(handle)
    assert [member.rank for member in seen.members] == [0, 1, 2]
    assert [member.node for member in seen.members] == ["n00", "n01", "n10"]
    assert seen.members[1].finished_at == datetime.fromtimestamp(1796040001, UTC)
    assert [member.end.signal for member in seen.members] == [15, None, 15]
    verdict = verdict_of(seen.members, {}, None)
    assert verdict.reason is not None
    assert (verdict.phase, verdict.reason.data["rank"]) == (Phase.FAILED, 1)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("0 n01 10.0.0.2\n1 n00 10.0.0.1\n0 n10 10.0.0.3\n", ("n01", "n00", "n10")),  # the batch host is machine 0
        ("0 n01 10.0.0.2\n", ("n00", "n01", "n10")),
        ("0 evil ; x\n1 n00\n2 n10\n", ("n00", "n01", "n10")),
    ],
)
async def test_machines_are_named_as_the_steps_counted_them(gang: Stage, text: str, names: tuple[str, ...]) -> None:
    handle = await gang.launch()
    gang.slurm.run(17)
    gang.slurm.set(17, "FAILED", exit_code=1)
    gang.leave(nodes=text)
    seen = await gang.executor.observe(handle)
    assert (seen.nodes, tuple(member.node for member in seen.members)) == (names, names)


async def test_a_machine_whose_end_nobody_saw_ended_as_the_job_did(gang: Stage) -> None:
    handle = await gang.launch()
    gang.slurm.run(17)
    gang.slurm.set(17, "NODE_FAIL")
    gang.leave(rank_0__exit="1 1796040001 1\n")
    seen = await gang.executor.observe(handle)
    assert [member.end.cause for member in seen.members] == [None, "node-lost", "node-lost"]
    verdict = verdict_of(seen.members, {}, None)
    assert verdict.reason is not None
    assert (verdict.phase, verdict.reason.code) == (Phase.LOST, "node-lost")


async def test_what_the_job_s_user_wrote_instead_is_not_read(gang: Stage) -> None:
    handle = await gang.launch()
    gang.slurm.run(17)
    gang.slurm.set(17, "FAILED", exit_code=1)
    gang.leave(rank_0__exit="0; rm -rf /\n", rank_1__exit="1 1796040001 0\n")
    (directory_of(gang.plan) / "rank-2.exit").symlink_to("/etc/passwd")
    os.mkfifo(directory_of(gang.plan) / "job.out")
    seen = await gang.executor.observe(handle)
    assert [member.finished_at is not None for member in seen.members] == [False, True, False]
    assert seen.output == ""


# --- nobody knows it ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["unreachable", "auth", "version", "refused"])
async def test_a_slurm_that_cannot_be_asked_says_nothing(stage: Stage, kind: str) -> None:
    handle = await stage.launch()
    stage.slurm.away = SlurmError(kind, "words")  # ty: ignore[invalid-argument-type]
    for _each in range(3):
        stage.slurm.time.passed += 1000
        seen = await stage.executor.observe(handle)
        assert (seen.presence, seen.exit) == ("unknown", None)
        assert "words" in seen.detail
    with pytest.raises(ExecutorUnreachableError):
        await stage.executor.owned()
    with pytest.raises(ExecutorUnreachableError):
        await stage.executor.nodes()
    with pytest.raises(ExecutorUnreachableError):
        await stage.executor.stop(handle, timedelta(seconds=1))


async def test_a_job_that_slurm_lost_is_lost_when_it_is_absent_twice_past_the_grace(stage: Stage) -> None:
    handle = await stage.launch()
    stage.slurm.known.clear()
    a_foreign_job(stage.slurm, 17)
    assert (await stage.executor.observe(handle)).presence == "unknown"
    stage.slurm.time.passed += 119
    seen = await stage.executor.observe(handle)
    assert seen.presence == "unknown"
    assert "counts as lost" in seen.detail
    stage.slurm.time.passed += 2
    assert (
        await a_console_like(stage.executor, stage.slurm).observe(handle)
    ).presence == "unknown"  # it has looked once
    seen = await stage.executor.observe(handle)
    assert seen.presence == "absent"
    assert seen.exit == Exit(absent=True, cause="slurm-job-lost", detail=seen.detail)


async def test_a_job_that_slurm_lost_and_that_gives_signs_of_life_is_not_lost(stage: Stage) -> None:
    handle = await stage.launch()
    stage.slurm.known.clear()
    stage.leave(started="17\n", beat="0\n")
    assert (await stage.executor.observe(handle)).presence == "unknown"
    stage.slurm.time.passed += 121
    seen = await stage.executor.observe(handle)
    assert seen.presence == "unknown"
    assert "signs of life" in seen.detail
    os.utime(directory_of(stage.plan) / "beat", (0, 0))
    assert (await stage.executor.observe(handle)).presence == "absent"


def hold(claim: Path) -> int:
    """As a runner does as long as it lives; the open file."""
    claim.parent.mkdir(parents=True)
    fd = os.open(claim, os.O_RDWR | os.O_CREAT)
    os.write(fd, b"{}")
    fcntl.flock(fd, fcntl.LOCK_EX)
    return fd


async def test_a_job_that_slurm_lost_is_not_over_as_long_as_a_runner_lives(stage: Stage) -> None:
    """Its srun was killed, or the script with it."""
    handle = await stage.launch()
    stage.slurm.known.clear()
    stage.leave(started="17\n", beat="0\n", rank_0__exit="137 1796040000 0\n")
    os.utime(directory_of(stage.plan) / "beat", (0, 0))
    runner = hold(stage.plan.capsule.parent / "spool" / "rank-0" / "claim")
    assert (await stage.executor.observe(handle)).presence == "unknown"
    assert await stage.executor.cleanup(handle) is CleanupState.UNKNOWN
    stage.slurm.time.passed += 121
    assert (await stage.executor.observe(handle)).presence == "unknown"
    os.close(runner)
    seen = await stage.executor.observe(handle)
    assert (seen.presence, seen.exit) == ("present", Exit(exit_code=137, signal=9))
    assert await stage.executor.cleanup(handle) is CleanupState.CONFIRMED


async def test_a_job_that_was_only_out_of_sight_begins_anew(stage: Stage) -> None:
    handle = await stage.launch()
    hidden = dict(stage.slurm.known)
    stage.slurm.known.clear()
    assert (await stage.executor.observe(handle)).presence == "unknown"
    stage.slurm.time.passed += 100
    stage.slurm.known.update(hidden)
    assert (await stage.executor.observe(handle)).presence == "present"
    stage.slurm.known.clear()
    stage.slurm.time.passed += 100
    assert (await stage.executor.observe(handle)).presence == "unknown"


async def test_an_absence_that_nobody_asked_about_for_long_begins_anew(stage: Stage) -> None:
    handle = await stage.launch()
    stage.slurm.known.clear()
    assert (await stage.executor.observe(handle)).presence == "unknown"
    stage.slurm.time.passed += 100_000  # another console looks after it
    other = replace(handle, attempt=2)
    assert (await stage.executor.observe(other)).presence == "unknown"
    assert list(stage.executor._lookup._absent) == [(JOB, 2)]
    assert (await stage.executor.observe(handle)).presence == "unknown"


async def test_a_forgotten_job_is_looked_up_in_the_accounting(stage: Stage) -> None:
    handle = await stage.launch()
    stage.slurm.run(17)
    stage.slurm.set(17, "TIMEOUT", exit_code=0, source="accounting", comment="")
    stage.slurm.accounting = list(stage.slurm.known.values())
    stage.slurm.known.clear()
    seen = await stage.executor.observe(handle)
    assert seen.presence == "present"
    assert seen.exit is not None
    assert seen.exit.cause == "slurm-time-limit"


async def test_an_accounting_that_lags_behind_ends_nothing(stage: Stage) -> None:
    handle = await stage.launch()
    stage.slurm.run(17)
    stage.slurm.accounting = [replace(job, source="accounting") for job in stage.slurm.known.values()]
    stage.slurm.known.clear()
    assert (await stage.executor.observe(handle)).presence == "unknown"


async def test_an_accounting_that_is_away_leaves_it_unknown(stage: Stage) -> None:
    handle = await stage.launch()
    stage.slurm.known.clear()
    await stage.executor.observe(handle)

    async def away(**_query: object) -> None:
        raise SlurmError("unreachable", "slurmdbd", 7000)

    stage.slurm.accounted = away
    stage.slurm.time.passed += 500
    assert (await stage.executor.observe(handle)).presence == "unknown"


@pytest.mark.parametrize("kind", ["unreachable", "refused"])
async def test_an_accounting_that_does_not_answer_hides_no_exit_that_was_seen(stage: Stage, kind: ErrorKind) -> None:
    handle = await stage.launch()
    stage.slurm.known.clear()

    async def fails(**_query: object) -> None:
        raise SlurmError(kind, "words", 7000)

    stage.slurm.accounted = fails
    stage.leave(rank_0__exit="3 1796040001 0\n")
    seen = await stage.executor.observe(handle)
    assert (seen.presence, seen.exit) == ("present", Exit(exit_code=3))
    assert (await stage.executor.cleanup(handle)).value == "confirmed"
    assert (await stage.executor.observe(handle)).presence == "absent"


async def test_an_accounting_that_is_not_for_us_keeps_nothing_unknown(stage: Stage) -> None:
    handle = await stage.launch()
    stage.slurm.known.clear()

    async def refuses(**_query: object) -> None:
        raise SlurmError("refused", "Access/permission denied", 2002)

    stage.slurm.accounted = refuses
    assert (await stage.executor.observe(handle)).presence == "unknown"
    stage.slurm.time.passed += 121
    seen = await stage.executor.observe(handle)
    assert seen.exit is not None
    assert (seen.presence, seen.exit.cause) == ("absent", "slurm-job-lost")


async def test_the_accounting_is_not_asked_at_every_look(stage: Stage) -> None:
    handle = await stage.launch()
    stage.slurm.known.clear()
    for _each in range(20):
        await stage.executor.observe(handle)
    assert stage.slurm.asked.count("accounted") == 1


async def test_a_forgotten_job_whose_machines_were_all_seen_to_end(gang: Stage) -> None:
    handle = await gang.launch()
    gang.slurm.known.clear()
    gang.leave(rank_0__exit="0 1796040001 0\n", rank_1__exit="0 1796040001 0\n")
    assert (await gang.executor.observe(handle)).presence == "unknown"
    gang.leave(rank_2__exit="0 1796040001 0\n")
    seen = await gang.executor.observe(handle)
    assert (seen.presence, seen.running, seen.exit) == ("present", False, Exit(exit_code=0))


# --- a site that writes into jobs what it likes ---------------------------------------------------------------------


@pytest.mark.parametrize(
    "values",
    [
        {"comment": "billed to x"},
        {"user": "trainer@corp.example"},
        {"user": "CORP\\Trainer"},
        {"user": ""},
        {"user": "uid-4711"},
        {"user": "uid-4711", "comment": "billed to x"},
        {"comment": "billed to x", "directory": "/elsewhere"},
    ],
)
async def test_a_job_that_the_site_marked_otherwise_is_seen_and_ended(stage: Stage, values: dict[str, str]) -> None:
    handle = await stage.launch()
    stage.slurm.run(17)
    stage.slurm.set(17, "RUNNING", **values)
    for _each in range(3):
        seen = await stage.executor.observe(handle)
        assert (seen.presence, seen.started) == ("present", True)
        stage.slurm.time.passed += 1000
    assert (await a_console_like(stage.executor, stage.slurm).cleanup(handle)).value == "confirmed"
    assert stage.slurm.cancelled == [17]


async def test_how_slurm_spells_our_user_is_learnt_from_a_job_that_is_ours_by_its_id(stage: Stage) -> None:
    handle = await stage.launch()
    stage.slurm.set(17, "PENDING", user="uid-4711")
    assert await stage.executor.owned() == []
    await stage.executor.observe(handle)
    assert await stage.executor.owned() == [handle]
    stage.slurm.asked.clear()
    for _each in range(10):
        assert (await stage.executor.observe(handle)).presence == "present"
    assert "job" not in stage.slurm.asked


async def test_a_planned_launch_s_job_is_looked_for_by_the_id_in_its_intent_too(stage: Stage) -> None:
    handle = await stage.launch()
    stage.slurm.set(17, "RUNNING", comment="billed to x", directory="/elsewhere")
    assert (await stage.executor.cleanup(Handle(JOB, 1, nodes=handle.nodes))).value == "confirmed"
    assert stage.slurm.cancelled == [17]


async def test_a_job_of_somebody_else_that_is_called_like_ours_is_not_ours(stage: Stage) -> None:
    handle = await stage.launch()
    made = stage.slurm.add(stage.slurm.submitted[0], user="other", directory="/home/other")
    stage.slurm.known.pop(17)
    assert (await stage.executor.observe(handle)).presence == "unknown"
    assert (await stage.executor.cleanup(handle)).value == "unknown"
    assert made not in stage.slurm.cancelled


# --- many, others', owned -------------------------------------------------------------------------------------------


async def test_many_looks_are_one_question(stage: Stage) -> None:
    handle = await stage.launch()
    stage.slurm.asked.clear()
    for _each in range(50):
        await stage.executor.observe(handle)
    assert stage.slurm.asked == ["jobs"]


async def test_a_listing_that_takes_long_is_asked_for_rarely(stage: Stage) -> None:
    handle = await stage.launch()
    quick = stage.slurm.jobs

    async def slow(*, name: str | None = None, everyone: bool = False) -> list[SlurmJob]:
        stage.slurm.time.passed += 5
        return await quick(name=name, everyone=everyone)

    stage.slurm.jobs = slow
    stage.slurm.asked.clear()
    for _each in range(20):
        await stage.executor.observe(handle)
        stage.slurm.time.passed += 1.5
    assert stage.slurm.asked == ["jobs"] * 2


async def test_a_listing_that_was_on_its_way_when_something_changed_is_not_kept(stage: Stage) -> None:
    handle = await stage.launch()
    quick, asked, go_on = stage.slurm.jobs, asyncio.Event(), asyncio.Event()

    async def slow(*, name: str | None = None, everyone: bool = False) -> list[SlurmJob]:
        found = await quick(name=name, everyone=everyone)
        asked.set()
        await go_on.wait()
        return found

    stage.slurm.jobs = slow
    looking = asyncio.create_task(stage.executor.observe(handle))
    async with asyncio.timeout(60):
        await asked.wait()
        stage.slurm.jobs = quick
        stage.slurm.run(17)
        stage.executor.clearing.listings.forget()
        go_on.set()
        assert (await looking).queued is not None
    assert (await stage.executor.observe(handle)).started


async def test_a_missing_job_costs_no_question_at_every_look(stage: Stage) -> None:
    handle = await stage.launch()
    stage.slurm.known.clear()
    await stage.executor.observe(handle)
    stage.slurm.asked.clear()
    for _each in range(10):
        await stage.executor.observe(handle)
    assert stage.slurm.asked == []


async def test_a_listing_from_before_the_launch_does_not_make_a_job_missing(stage: Stage) -> None:
    await stage.executor.owned()
    handle = await a_console_like(stage.executor, stage.slurm).launch(stage.plan)
    assert (await stage.executor.observe(handle)).presence == "present"


async def test_runs_of_another_executor_are_unknown_and_never_gone(stage: Stage) -> None:
    handle = Handle(JOB, 1, {"machines": ["docker/tp-x"], "instance": "x"})
    seen = await stage.executor.observe(handle)
    assert seen.presence == "unknown"
    assert "TUNEPLANE_EXECUTOR" in seen.detail
    assert (await stage.executor.cleanup(handle)).value == "unknown"
    with pytest.raises(ExecutorUnreachableError, match="TUNEPLANE_EXECUTOR"):
        await stage.executor.stop(handle, timedelta(seconds=1))
    assert stage.slurm.asked == []


async def test_what_is_owned_is_made_again_from_slurm_and_the_intent(gang: Stage) -> None:
    handle = await gang.launch()
    assert await gang.executor.owned() == [handle]
    assert await gang.executor.owned([handle.nodes[1]]) == [handle]
    assert await gang.executor.owned(["elsewhere"]) == []
    gang.slurm.run(17)
    assert await gang.executor.owned() == [handle]
    gang.slurm.set(17, "COMPLETED")
    assert await gang.executor.owned() == []


@pytest.mark.parametrize("break_it", [lambda path: path.unlink(), lambda path: path.write_text("{")])
async def test_what_is_owned_without_an_intent_is_told_as_slurm_has_it(
    gang: Stage, break_it: Callable[[Path], object]
) -> None:
    handle = await gang.launch()
    break_it(directory_of(gang.plan) / "intent-1.json")
    assert await gang.executor.owned() == [handle]


async def test_other_people_s_jobs_are_not_owned(stage: Stage) -> None:
    a_foreign_job(stage.slurm, 5)
    await stage.launch()
    stage.slurm.set(17, "PENDING", user="other")
    assert await stage.executor.owned() == []
    stage.slurm.set(17, "PENDING", user="trainer", comment="tuneplane of another run", directory="/elsewhere")
    assert await stage.executor.owned() == []


@pytest.mark.parametrize(
    "directory",
    ["", "/elsewhere/attempts/1/slurm", "{root}/projects/ann/demo/jobs/other/attempts/1/slurm", "{root}/../x"],
)
async def test_jobs_of_another_console_are_not_owned(stage: Stage, tmp_path: Path, directory: str) -> None:
    await stage.launch()
    stage.slurm.set(17, "PENDING", directory=directory.format(root=tmp_path))
    assert await stage.executor.owned() == []


async def test_machines_of_the_partitions_that_jobs_can_go_to(stage: Stage) -> None:
    first, *_others = await stage.executor.nodes()
    assert (first.name, first.cpus, first.memory_gb, first.placeable, first.why) == ("n0", 64.0, 500.0, True, "")
    assert [(gpu.index, gpu.profile, gpu.simulated) for gpu in first.gpus] == [
        (index, "h200", False) for index in range(8)
    ]
    assert first.gpus_used == 0
