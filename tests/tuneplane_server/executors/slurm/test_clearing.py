"""Stop with a grace, and cleanup that says gone only with proof."""

from __future__ import annotations

import asyncio
import os
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.tuneplane_server.executors.slurm.memory import JOB, a_console_like, a_plan, directory_of
from tests.tuneplane_server.executors.slurm.stage import TWO_POOLS, Stage
from tuneplane_server.domain.classify import Exit
from tuneplane_server.executors.port import CleanupState, ExecutorUnreachableError, Handle
from tuneplane_server.executors.slurm import clearing
from tuneplane_server.executors.slurm.rest.models import SlurmError

PLANNED = Handle(JOB, 1, nodes=(f"slurm/{JOB}-1/0",))
GRACE = timedelta(seconds=30)


async def test_a_job_that_waits_is_cancelled_at_once(stage: Stage) -> None:
    handle = await stage.launch()
    await stage.executor.stop(handle, GRACE)
    assert (stage.slurm.signals, stage.slurm.cancelled) == ([], [17])
    seen = await stage.executor.observe(handle)
    assert seen.exit is not None
    assert (seen.running, seen.exit.cause) == (False, None)


async def test_a_job_that_runs_gets_sigterm_and_ends_by_itself(stage: Stage) -> None:
    handle = await stage.launch()
    stage.slurm.run(17)

    async def ends(job_id: int, signal: str) -> None:
        stage.slurm.signals.append((job_id, signal))
        stage.slurm.set(job_id, "FAILED", exit_code=143)

    stage.slurm.signal = ends
    await stage.executor.stop(handle, GRACE)
    assert (stage.slurm.signals, stage.slurm.cancelled) == ([(17, "TERM")], [])
    await stage.executor.stop(handle, GRACE)  # and again is fine
    assert len(stage.slurm.signals) == 1


async def test_what_ignores_sigterm_is_ended_after_the_grace(stage: Stage) -> None:
    handle = await stage.launch()
    stage.slurm.run(17)
    await stage.executor.stop(handle, timedelta(0))
    assert (stage.slurm.signals, stage.slurm.cancelled) == ([(17, "TERM")], [17])
    seen = await stage.executor.observe(handle)
    assert seen.exit == Exit(signal=9)


async def test_a_stop_that_is_told_again_counts_its_grace_from_the_first(stage: Stage) -> None:
    handle = await stage.launch()
    stage.slurm.run(17)
    told = asyncio.Event()

    async def deaf(job_id: int, signal: str) -> None:
        stage.slurm.signals.append((job_id, signal))
        told.set()

    stage.slurm.signal = deaf
    stopping = asyncio.create_task(stage.executor.stop(handle, GRACE))
    async with asyncio.timeout(60):
        await told.wait()
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert stage.slurm.cancelled == []
    stage.slurm.time.passed += 31
    await a_console_like(stage.executor, stage.slurm).stop(handle, GRACE)
    assert stage.slurm.cancelled == [17]


async def test_a_stop_whose_order_may_not_have_arrived_looks_on(stage: Stage) -> None:
    handle = await stage.launch()
    stage.slurm.run(17)

    async def lost(job_id: int, signal: str) -> None:
        stage.slurm.set(job_id, "FAILED", exit_code=143)
        raise SlurmError("unknown-outcome", "dropped")

    stage.slurm.signal = lost
    await stage.executor.stop(handle, GRACE)


async def test_a_job_that_does_not_end_is_told_to_whoever_asked(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = await stage.launch()
    stage.slurm.run(17)
    stage.slurm.ends_on_cancel = False
    monkeypatch.setattr(clearing, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(clearing, "CLEANUP_SECONDS", 0.05)
    with pytest.raises(ExecutorUnreachableError, match="still there"):
        await stage.executor.stop(handle, timedelta(0))
    assert await stage.executor.cleanup(handle) is CleanupState.PENDING
    stage.slurm.set(17, "CANCELLED+COMPLETING")
    assert await stage.executor.cleanup(handle) is CleanupState.PENDING


def test_who_waits_asks_ever_more_rarely() -> None:
    pauses = [clearing.polls_apart(polls) for polls in range(100)]
    assert (pauses[0], pauses[4], pauses[-1]) == (1.0, 2.0, 5.0)
    assert pauses == sorted(pauses)


# --- cleanup --------------------------------------------------------------------------------------------------------


async def test_cleanup_ends_it_and_says_so_for_good(stage: Stage) -> None:
    handle = await stage.launch()
    stage.slurm.run(17)
    assert await stage.executor.cleanup(handle) is CleanupState.CONFIRMED
    assert stage.slurm.cancelled == [17]
    assert (await stage.executor.observe(handle)).presence == "absent"
    stage.slurm.known.clear()
    other = a_console_like(stage.executor, stage.slurm)
    assert await other.cleanup(handle) is CleanupState.CONFIRMED
    assert (await other.observe(handle)).presence == "absent"


async def test_cleanup_ends_every_job_of_the_attempt(stage: Stage) -> None:
    handle = await stage.launch()
    second = stage.slurm.add(stage.slurm.submitted[0])
    assert await stage.executor.cleanup(handle) is CleanupState.CONFIRMED
    assert stage.slurm.cancelled == [17, second]


async def test_a_slurm_that_loses_its_memory_meanwhile_proves_nothing(stage: Stage) -> None:
    handle = await stage.launch()
    stage.slurm.run(17)

    async def forgets(job_id: int) -> None:
        stage.slurm.cancelled.append(job_id)
        stage.slurm.known.clear()

    stage.slurm.cancel = forgets
    assert await stage.executor.cleanup(handle) is CleanupState.UNKNOWN
    stage.slurm.time.passed += 121
    assert await stage.executor.cleanup(handle) is CleanupState.CONFIRMED


async def test_cleanup_ends_what_slurm_put_back_into_its_queue(stage: Stage) -> None:
    handle = await stage.launch()
    stage.slurm.set(17, "PENDING+REQUEUE_HOLD", restarts=1)
    assert await stage.executor.cleanup(handle) is CleanupState.CONFIRMED
    assert stage.slurm.cancelled == [17]


async def test_cleanup_of_a_launch_nobody_saw_the_end_of(stage: Stage) -> None:
    await stage.launch()
    stage.slurm.run(17)
    assert await stage.executor.cleanup(PLANNED) is CleanupState.CONFIRMED
    assert stage.slurm.cancelled == [17]


async def test_cleanup_of_a_launch_that_was_never_begun(stage: Stage) -> None:
    assert await stage.executor.cleanup(PLANNED) is CleanupState.CONFIRMED
    stage.slurm.away = SlurmError("unreachable", "words")
    assert await stage.executor.cleanup(PLANNED) is CleanupState.CONFIRMED


async def test_a_directory_that_was_removed_holds_nothing_up(stage: Stage) -> None:
    handle = await stage.launch()
    stage.slurm.run(17)
    shutil.rmtree(directory_of(stage.plan))
    await stage.executor.stop(handle, timedelta(0))
    assert stage.slurm.cancelled == [17]
    assert not (await stage.executor.observe(handle)).running
    assert await stage.executor.cleanup(handle) is CleanupState.CONFIRMED


async def test_a_launch_that_another_executor_was_about_to_do_is_not_ours(stage: Stage) -> None:
    assert await stage.executor.cleanup(Handle(JOB, 1, nodes=("worker-3",))) is CleanupState.UNKNOWN


async def test_without_the_storage_root_nothing_is_known(stage: Stage, tmp_path: Path) -> None:
    shutil.rmtree(tmp_path / "projects")
    assert await stage.executor.cleanup(PLANNED) is CleanupState.UNKNOWN


async def test_cleanup_of_a_submit_without_an_answer_waits_until_it_cannot_come_any_more(stage: Stage) -> None:
    def lost() -> None:
        raise SlurmError("unknown-outcome", "dropped")

    stage.slurm.before_submit = lost
    with pytest.raises(ExecutorUnreachableError):
        await stage.launch()
    assert await stage.executor.cleanup(PLANNED) is CleanupState.UNKNOWN
    stage.slurm.time.passed += 61
    assert await stage.executor.cleanup(PLANNED) is CleanupState.CONFIRMED


async def test_a_slurm_that_cannot_be_asked_proves_nothing(stage: Stage) -> None:
    handle = await stage.launch()
    stage.slurm.away = SlurmError("unreachable", "words", 1800)
    assert await stage.executor.cleanup(handle) is CleanupState.UNKNOWN
    assert await stage.executor.cleanup(PLANNED) is CleanupState.UNKNOWN


async def test_a_job_that_is_nowhere_is_gone_when_it_is_so_twice(stage: Stage) -> None:
    handle = await stage.launch()
    stage.slurm.known.clear()
    assert await stage.executor.cleanup(handle) is CleanupState.UNKNOWN
    stage.slurm.time.passed += 121
    assert await stage.executor.cleanup(handle) is CleanupState.CONFIRMED


async def test_a_job_that_the_accounting_knows_to_be_over_is_gone(stage: Stage) -> None:
    handle = await stage.launch()
    stage.slurm.accounting = [
        replace(job, states=frozenset({"COMPLETED"}), source="accounting") for job in stage.slurm.known.values()
    ]
    stage.slurm.known.clear()
    assert await stage.executor.cleanup(handle) is CleanupState.CONFIRMED


async def test_a_forgotten_job_whose_machine_was_seen_to_end_is_gone(stage: Stage) -> None:
    handle = await stage.launch()
    stage.slurm.known.clear()
    (directory_of(stage.plan) / "rank-0.exit").write_text("0 1796040000 0\n")
    assert await stage.executor.cleanup(handle) is CleanupState.CONFIRMED


async def test_other_attempts_are_left_alone(stage: Stage, tmp_path: Path) -> None:
    await stage.launch()
    second = await stage.executor.launch(a_plan(tmp_path, attempt=2))
    assert await stage.executor.cleanup(PLANNED) is CleanupState.CONFIRMED
    assert await stage.executor.owned() == [second]


# --- a slurmctld that lost its newest state -------------------------------------------------------------------------


class Forgotten(Stage):
    """Job 17 runs, and slurmctld takes it for one that waits."""

    async def launch(self) -> Handle:
        handle = await super().launch()
        self.leave(started="17\n", beat="0\n")
        self.directory = directory_of(self.plan)
        self.spool = self.plan.capsule.parent / "spool"
        self.spool.mkdir()
        return handle

    def was_told(self, rank: int = 0) -> bool:
        return (self.spool / f"rank-{rank}/stop").exists()

    def falls_silent(self) -> None:
        os.utime(self.directory / "beat", (0, 0))


@pytest.fixture
def forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Forgotten:
    monkeypatch.setattr(clearing, "WAIT_SECONDS", 0.05)
    monkeypatch.setattr(clearing, "CLEANUP_SECONDS", 0.05)
    return Forgotten(tmp_path)


async def test_a_start_that_slurm_does_not_know_is_told_and_is_not_gone_before_it_ended(forgotten: Forgotten) -> None:
    handle = await forgotten.launch()
    assert await forgotten.executor.cleanup(handle) is CleanupState.PENDING
    assert (forgotten.was_told(), forgotten.slurm.cancelled) == (True, [17])
    assert await forgotten.executor.cleanup(handle) is CleanupState.PENDING  # also when Slurm calls it CANCELLED
    forgotten.leave(rank_0__exit="143 1796040000 1\n")
    assert await forgotten.executor.cleanup(handle) is CleanupState.CONFIRMED


async def test_a_start_that_slurm_does_not_know_and_that_fell_silent_is_gone(forgotten: Forgotten) -> None:
    handle = await forgotten.launch()
    forgotten.falls_silent()
    assert await forgotten.executor.cleanup(handle) is CleanupState.CONFIRMED
    assert not forgotten.was_told()


async def test_a_stop_of_what_slurm_does_not_know_tells_its_runners_first(forgotten: Forgotten) -> None:
    handle = await forgotten.launch()
    with pytest.raises(ExecutorUnreachableError, match="does not know that it runs"):
        await forgotten.executor.stop(handle, timedelta(0))
    assert (forgotten.was_told(), forgotten.slurm.cancelled, forgotten.slurm.signals) == (True, [17], [])
    with pytest.raises(ExecutorUnreachableError):
        await forgotten.executor.stop(handle, timedelta(0))
    forgotten.leave(rank_0__exit="143 1796040000 1\n")
    await forgotten.executor.stop(handle, timedelta(0))


async def test_every_machine_of_a_start_that_slurm_does_not_know_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clearing, "CLEANUP_SECONDS", 0.05)
    gang = Forgotten(tmp_path, TWO_POOLS)
    handle = await gang.launch()
    gang.leave(rank_1__exit="0 1796040000 0\n")
    assert await gang.executor.cleanup(handle) is CleanupState.PENDING
    assert [gang.was_told(rank) for rank in range(3)] == [True, False, True]


async def test_a_second_start_that_slurm_knows_does_not_stand_for_the_first(forgotten: Forgotten) -> None:
    handle = await forgotten.launch()
    forgotten.slurm.run(17)
    began = forgotten.slurm.time.now().timestamp()
    os.utime(forgotten.directory / "started", (began, began - 60))
    assert await forgotten.executor.cleanup(handle) is CleanupState.PENDING
    assert forgotten.was_told()


async def test_what_slurm_says_of_the_only_start_is_enough(forgotten: Forgotten) -> None:
    handle = await forgotten.launch()
    forgotten.slurm.run(17)
    began = forgotten.slurm.time.now().timestamp()
    os.utime(forgotten.directory / "started", (began, began + 1))
    assert await forgotten.executor.cleanup(handle) is CleanupState.CONFIRMED
    assert not forgotten.was_told()


async def test_a_job_that_slurm_forgot_and_that_gives_signs_of_life_is_not_gone(forgotten: Forgotten) -> None:
    handle = await forgotten.launch()
    forgotten.slurm.known.clear()
    assert await forgotten.executor.cleanup(handle) is CleanupState.UNKNOWN
    forgotten.slurm.time.passed += 1000
    assert await forgotten.executor.cleanup(handle) is CleanupState.UNKNOWN
    assert forgotten.was_told()
    forgotten.falls_silent()
    assert await forgotten.executor.cleanup(handle) is CleanupState.CONFIRMED


async def test_a_link_that_the_job_left_is_not_followed(forgotten: Forgotten, tmp_path: Path) -> None:
    handle = await forgotten.launch()
    (tmp_path / "elsewhere").mkdir()
    (forgotten.spool / "rank-0").symlink_to(tmp_path / "elsewhere")
    assert await forgotten.executor.cleanup(handle) is CleanupState.PENDING
    assert list((tmp_path / "elsewhere").iterdir()) == []
