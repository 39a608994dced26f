"""What is told of an attempt that the controller does not know: from the accounting, from its own files; and gone only after a while."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta

import pytest

from tests.tuneplane_server.executors.slurm.memory import (
    JOB,
    a_console_like,
    a_foreign_job,
    directory_of,
)
from tests.tuneplane_server.executors.slurm.stage import Stage, hold
from tuneplane_server.domain.classify import Exit
from tuneplane_server.executors.port import (
    CleanupState,
    ExecutorUnreachableError,
    Handle,
)
from tuneplane_server.executors.slurm.rest.models import ErrorKind, SlurmError


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
