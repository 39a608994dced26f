"""What is told of an attempt that Slurm knows: how it waits, runs and ended, by Slurm and by its own files."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from tests.tuneplane_server.executors.slurm.memory import (
    directory_of,
)
from tests.tuneplane_server.executors.slurm.stage import Stage, hold
from tuneplane_server.domain.classify import Exit
from tuneplane_server.domain.members import verdict_of
from tuneplane_server.domain.phases import Phase
from tuneplane_server.executors.port import (
    Capabilities,
)


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
