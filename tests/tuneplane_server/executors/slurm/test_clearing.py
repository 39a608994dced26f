"""Stop with a grace, and cleanup that says gone only with proof."""

from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from tests.tuneplane_server.executors.slurm.memory import JOB, a_console_like, a_plan, directory_of
from tests.tuneplane_server.executors.slurm.test_observing import Stage
from tuneplane_server.domain.classify import Exit
from tuneplane_server.executors.port import CleanupState, ExecutorUnreachableError, Handle
from tuneplane_server.executors.slurm import clearing
from tuneplane_server.executors.slurm.rest.models import SlurmError

PLANNED = Handle(JOB, 1, nodes=(f"slurm/{JOB}-1/0",))
GRACE = timedelta(seconds=30)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


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
