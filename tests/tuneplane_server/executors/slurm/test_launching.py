"""A launch is cut off between any two lines, its answer is lost, two consoles do it at once: the attempt is in Slurm once."""

from __future__ import annotations

import asyncio
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.tuneplane_server.executors.slurm.memory import (
    COMMENT,
    JOB,
    NAME,
    MemorySlurm,
    Time,
    a_foreign_job,
    a_plan,
    an_executor,
    directory_of,
)
from tuneplane_server.executors.port import (
    CleanupState,
    ExecutorUnreachableError,
    Handle,
    LaunchDelayedError,
    LaunchPlan,
    LaunchRefusedError,
)
from tuneplane_server.executors.slurm import launching
from tuneplane_server.executors.slurm.intents import OVER_FILE, Intent, begin, first_time, read_intent
from tuneplane_server.executors.slurm.rest.models import Component, SlurmError, SlurmNode, Submission

DROPPED = SlurmError("unknown-outcome", "the connection was dropped")
PLANNED = Handle(JOB, 1, nodes=(f"slurm/{JOB}-1/0",))


@pytest.fixture
def slurm() -> MemorySlurm:
    return MemorySlurm(Time())


def raising(error: BaseException) -> Callable[[], Any]:
    def fail() -> None:
        raise error

    return fail


class KilledError(BaseException):
    """The console dies here."""


async def test_what_slurm_is_given(slurm: MemorySlurm, tmp_path: Path) -> None:
    plan = a_plan(tmp_path)
    handle = await an_executor(slurm, tmp_path).launch(plan)
    (job,) = slurm.submitted
    assert (job.name, job.comment) == (NAME, COMMENT)
    assert job.directory == str(directory_of(plan))
    assert job.output == f"{job.directory}/job.out"
    assert job.script.startswith("#!")
    assert "secret" not in job.script
    assert job.environment["TUNEPLANE_INGEST_TOKEN"] == "secret"
    assert (handle.data["id"], handle.data["gpus"], handle.runtime, handle.isolated) == (17, 8, "apptainer", True)
    assert handle.nodes == PLANNED.nodes
    assert Handle.from_json(handle.to_json()) == handle


async def test_what_lies_in_the_directory(slurm: MemorySlurm, tmp_path: Path) -> None:
    plan = a_plan(tmp_path)
    await an_executor(slurm, tmp_path).launch(plan)
    directory = directory_of(plan)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o1777
    assert sorted(path.name for path in directory.iterdir()) == ["intent-1.json", "job.sh"]
    assert (directory / "job.sh").read_text() == slurm.submitted[0].script
    assert "secret" not in (directory / "intent-1.json").read_text()
    intent = read_intent(directory)
    assert intent is not None
    assert (intent.outcome, intent.slurm_id) == ("submitted", 17)


async def test_a_second_launch_gets_the_first_also_when_it_has_ended(slurm: MemorySlurm, tmp_path: Path) -> None:
    plan = a_plan(tmp_path)
    first = await an_executor(slurm, tmp_path).launch(plan)
    slurm.set(17, "COMPLETED", exit_code=0)
    assert await an_executor(slurm, tmp_path).launch(plan) == first
    slurm.known.clear()  # and when Slurm has forgotten it
    assert await an_executor(slurm, tmp_path).launch(plan) == first
    assert len(slurm.submitted) == 1


async def test_killed_between_intent_and_submit(slurm: MemorySlurm, tmp_path: Path) -> None:
    plan = a_plan(tmp_path)
    slurm.before_submit = raising(KilledError())
    with pytest.raises(KilledError):
        await cut_off(slurm, tmp_path, plan)
    slurm.before_submit = lambda: None
    with pytest.raises(ExecutorUnreachableError):  # it may be on its way
        await an_executor(slurm, tmp_path).launch(plan)
    assert await an_executor(slurm, tmp_path).cleanup(PLANNED) is CleanupState.UNKNOWN
    slurm.time.passed += launching.UNKNOWN_SECONDS
    handle = await an_executor(slurm, tmp_path).launch(plan)
    assert (handle.data["id"], len(slurm.submitted)) == (17, 1)


async def test_killed_between_submit_and_answer(slurm: MemorySlurm, tmp_path: Path) -> None:
    plan = a_plan(tmp_path)
    slurm.after_submit = raising(KilledError())
    with pytest.raises(KilledError):
        await cut_off(slurm, tmp_path, plan)
    handle = await an_executor(slurm, tmp_path).launch(plan)
    assert (handle.data["id"], len(slurm.submitted)) == (17, 1)
    assert await an_executor(slurm, tmp_path).launch(plan) == handle


async def test_killed_before_the_intent_leaves_nothing_to_look_for(
    slurm: MemorySlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = a_plan(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(launching, "begin", lambda *_given: raising(KilledError())())
        with pytest.raises(KilledError):
            await cut_off(slurm, tmp_path, plan)
    slurm.away = SlurmError("unreachable", "refused")
    assert await an_executor(slurm, tmp_path).cleanup(PLANNED) is CleanupState.CONFIRMED
    slurm.away = None
    await an_executor(slurm, tmp_path).launch(plan)
    assert len(slurm.submitted) == 1


async def test_the_answer_is_lost_and_the_job_runs(slurm: MemorySlurm, tmp_path: Path) -> None:
    slurm.after_submit = raising(DROPPED)
    handle = await an_executor(slurm, tmp_path).launch(a_plan(tmp_path))
    assert (handle.data["id"], len(slurm.submitted)) == (17, 1)


async def test_the_answer_is_lost_and_the_job_shows_up_late(slurm: MemorySlurm, tmp_path: Path) -> None:
    plan, hidden = a_plan(tmp_path), {}
    executor = an_executor(slurm, tmp_path)

    def vanish() -> None:
        hidden.update(slurm.known)
        slurm.known.clear()
        raise DROPPED

    slurm.after_submit = vanish
    with pytest.raises(ExecutorUnreachableError):
        await executor.launch(plan)
    slurm.time.passed += launching.UNKNOWN_SECONDS / 2
    with pytest.raises(ExecutorUnreachableError, match="looked for again"):
        await executor.launch(plan)
    slurm.known.update(hidden)
    assert (await executor.launch(plan)).data["id"] == 17
    assert len(slurm.submitted) == 1


async def test_the_answer_is_lost_and_the_job_has_ended_and_is_only_in_the_accounting(
    slurm: MemorySlurm, tmp_path: Path
) -> None:
    plan = a_plan(tmp_path)

    def forget() -> None:
        slurm.accounting = [
            replace(job, states=frozenset({"FAILED"}), exit_code=1, comment="", source="accounting", nodes=("n0",))
            for job in slurm.known.values()
        ]
        slurm.known.clear()
        raise DROPPED

    slurm.after_submit = forget
    handle = await an_executor(slurm, tmp_path).launch(plan)
    assert (handle.data["id"], len(slurm.submitted)) == (17, 1)


async def test_a_job_of_that_name_from_before_the_first_try_is_another_one(slurm: MemorySlurm, tmp_path: Path) -> None:
    plan = a_plan(tmp_path)
    slurm.before_submit = raising(DROPPED)
    with pytest.raises(ExecutorUnreachableError):
        await an_executor(slurm, tmp_path).launch(plan)
    slurm.before_submit = lambda: None
    await slurm.submit(a_namesake())
    slurm.set(17, "RUNNING", submitted_at=slurm.time.now() - timedelta(days=3))
    slurm.time.passed += launching.UNKNOWN_SECONDS
    assert (await an_executor(slurm, tmp_path).launch(plan)).data["id"] == 18


async def test_two_consoles_launch_at_once(slurm: MemorySlurm, tmp_path: Path) -> None:
    plan = a_plan(tmp_path)
    consoles = [an_executor(slurm, tmp_path) for _each in range(4)]
    answers = await asyncio.gather(*(console.launch(plan) for console in consoles), return_exceptions=True)
    assert len(slurm.submitted) == 1
    handles = [answer for answer in answers if isinstance(answer, Handle)]
    assert handles
    assert all(isinstance(answer, Handle | ExecutorUnreachableError) for answer in answers)
    assert [await console.launch(plan) for console in consoles] == [handles[0]] * 4


async def test_one_try_has_one_maker(slurm: MemorySlurm, tmp_path: Path) -> None:
    plan = a_plan(tmp_path)
    directory = directory_of(plan)
    directory.mkdir()
    intent = Intent(1, 0.0, 0.0, ("n",), 0, "apptainer")
    made = await asyncio.gather(*(asyncio.to_thread(begin, directory, intent) for _each in range(8)))
    assert made.count(True) == 1


async def test_whoever_stops_waiting_does_not_cut_off_the_answer(slurm: MemorySlurm, tmp_path: Path) -> None:
    plan, arrived, go_on = a_plan(tmp_path), asyncio.Event(), asyncio.Event()
    executor, submit = an_executor(slurm, tmp_path), slurm.submit

    async def slow(job: Submission) -> int:
        arrived.set()
        await go_on.wait()
        return await submit(job)

    slurm.submit = slow
    going = asyncio.create_task(executor.launch(plan))
    async with asyncio.timeout(60):
        await arrived.wait()
        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going
        clearing = asyncio.create_task(executor.cleanup(PLANNED))
        again = asyncio.create_task(executor.launch(plan))
        await asyncio.sleep(0)
        go_on.set()
        assert (await again).data["id"] == 17
        assert await clearing is CleanupState.CONFIRMED  # it waited for the answer, and ended what came of it
    assert (slurm.cancelled, len(slurm.submitted)) == ([17], 1)


async def test_a_launch_that_nobody_waits_for_any_more_submits_nothing(slurm: MemorySlurm, tmp_path: Path) -> None:
    plan, arrived = a_plan(tmp_path), asyncio.Event()
    executor = an_executor(slurm, tmp_path)

    async def slow() -> list[SlurmNode]:
        arrived.set()
        await asyncio.Event().wait()
        return []

    slurm.nodes = slow
    going = asyncio.create_task(executor.launch(plan))
    async with asyncio.timeout(60):
        await arrived.wait()
        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going
    assert await executor.cleanup(PLANNED) is CleanupState.CONFIRMED
    assert read_intent(directory_of(plan)) is None


async def test_a_launch_that_was_held_up_does_not_begin_what_is_over(slurm: MemorySlurm, tmp_path: Path) -> None:
    plan = a_plan(tmp_path)
    held_up = an_executor(slurm, tmp_path).launcher
    submission = await held_up._prepared(plan, directory_of(plan))
    assert await an_executor(slurm, tmp_path).cleanup(PLANNED) is CleanupState.CONFIRMED
    with pytest.raises(LaunchDelayedError, match="over meanwhile"):
        await held_up._submit(plan, directory_of(plan), None, submission)
    assert slurm.submitted == []


async def test_while_a_submit_is_on_its_way_nothing_is_proved(
    slurm: MemorySlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, arrived, go_on = a_plan(tmp_path), asyncio.Event(), asyncio.Event()
    executor, submit = an_executor(slurm, tmp_path), slurm.submit
    monkeypatch.setattr(launching, "CLOSE_SECONDS", 0.01)

    async def slow(job: Submission) -> int:
        arrived.set()
        await go_on.wait()
        return await submit(job)

    slurm.submit = slow
    going = asyncio.create_task(executor.launch(plan))
    async with asyncio.timeout(60):
        await arrived.wait()
        slurm.time.passed += 10 * launching.UNKNOWN_SECONDS
        assert await executor.cleanup(PLANNED) is CleanupState.UNKNOWN
        # Another console knows nothing of it, and its word counts.
        assert await an_executor(slurm, tmp_path).cleanup(PLANNED) is CleanupState.CONFIRMED
        go_on.set()
        with pytest.raises(LaunchDelayedError, match="over meanwhile"):
            await going
    assert slurm.cancelled == [17]
    assert await executor.cleanup(PLANNED) is CleanupState.CONFIRMED


async def test_a_job_whose_attempt_is_over_and_that_cannot_be_cancelled_is_an_orphan(
    slurm: MemorySlurm, tmp_path: Path
) -> None:
    plan = a_plan(tmp_path)
    executor = an_executor(slurm, tmp_path)

    def is_over_and_goes_away() -> None:
        first_time(directory_of(plan), OVER_FILE, 1.0)
        slurm.away = SlurmError("unreachable", "words")

    slurm.after_submit = is_over_and_goes_away
    with pytest.raises(LaunchDelayedError, match="over meanwhile"):
        await executor.launch(plan)
    slurm.away = None
    assert [handle.data["id"] for handle in await executor.owned()] == [17]


@pytest.mark.parametrize(
    ("code", "setting"),
    [
        (2000, "TUNEPLANE_SLURM_PARTITION"),
        (2051, "TUNEPLANE_SLURM_TIME_LIMIT"),
        (2006, "TUNEPLANE_SLURM_PARTITION"),
        (2014, "TUNEPLANE_SLURM_PARTITION"),
        (9001, "TUNEPLANE_SLURM_PARTITION"),
        (2072, "TUNEPLANE_SLURM_PARTITION"),
        (2045, "TUNEPLANE_SLURM_ACCOUNT"),
        (2066, "TUNEPLANE_SLURM_QOS"),
        (2053, "TUNEPLANE_SLURM_RESERVATION"),
        (4711, "TUNEPLANE_SLURM_PARTITION"),
    ],
)
async def test_a_refusal_names_the_setting_to_change(
    slurm: MemorySlurm, tmp_path: Path, code: int, setting: str
) -> None:
    plan = a_plan(tmp_path)
    slurm.before_submit = raising(SlurmError("refused", "Slurm's words", code))
    with pytest.raises(LaunchRefusedError) as refused:
        await an_executor(slurm, tmp_path).launch(plan)
    assert refused.value.reason == "slurm-refused"
    assert setting in refused.value.data["detail"]
    assert f"Slurm's words ({code})" in refused.value.data["detail"]
    slurm.away = SlurmError("unreachable", "refused")
    assert await an_executor(slurm, tmp_path).cleanup(PLANNED) is CleanupState.CONFIRMED


async def test_a_refusal_whose_answer_is_lost_is_a_refusal(slurm: MemorySlurm, tmp_path: Path) -> None:
    plan = a_plan(tmp_path)
    executor = an_executor(slurm, tmp_path)

    def refused() -> None:
        slurm.set(17, "FAILED", reason="BadConstraints", exit_code=1)  # Slurm keeps a record of what it refused
        raise DROPPED

    slurm.after_submit = refused
    with pytest.raises(LaunchRefusedError) as met:
        await executor.launch(plan)
    assert met.value.reason == "slurm-refused"
    assert "BadConstraints" in met.value.data["detail"]
    intent = read_intent(directory_of(plan))
    assert intent is not None
    assert intent.outcome == "not-submitted"


async def test_a_record_of_a_refusal_does_not_stand_for_the_job(slurm: MemorySlurm, tmp_path: Path) -> None:
    plan = a_plan(tmp_path)
    slurm.after_submit = raising(DROPPED)
    slurm.add(a_namesake(), states=frozenset({"FAILED"}))
    assert (await an_executor(slurm, tmp_path).launch(plan)).data["id"] == 18


async def test_a_refusal_says_nothing_of_an_earlier_try(slurm: MemorySlurm, tmp_path: Path) -> None:
    plan = a_plan(tmp_path)
    executor = an_executor(slurm, tmp_path)
    slurm.before_submit = raising(DROPPED)
    with pytest.raises(ExecutorUnreachableError):
        await executor.launch(plan)
    slurm.time.passed += launching.UNKNOWN_SECONDS
    slurm.before_submit = raising(SlurmError("refused", "words", 2014))
    with pytest.raises(LaunchRefusedError):
        await executor.launch(plan)
    slurm.away = SlurmError("unreachable", "words")
    assert await executor.cleanup(PLANNED) is CleanupState.UNKNOWN
    slurm.away = None
    slurm.time.passed += launching.UNKNOWN_SECONDS
    assert await executor.cleanup(PLANNED) is CleanupState.CONFIRMED


async def test_a_limit_on_submits_delays_and_the_next_try_is_made_at_once(slurm: MemorySlurm, tmp_path: Path) -> None:
    plan = a_plan(tmp_path)
    slurm.before_submit = raising(SlurmError("refused", "limit", 2050))
    with pytest.raises(LaunchDelayedError, match="TUNEPLANE_SLURM_QOS") as delayed:
        await an_executor(slurm, tmp_path).launch(plan)
    assert delayed.value.in_line
    slurm.before_submit = lambda: None
    assert (await an_executor(slurm, tmp_path).launch(plan)).data["id"] == 17


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        ("auth", "TUNEPLANE_SLURM_TOKEN_FILE"),
        ("unreachable", "TUNEPLANE_SLURM_URL"),
        ("version", "TUNEPLANE_SLURM_URL"),
    ],
)
async def test_a_slurm_that_cannot_be_asked_delays_a_launch(
    slurm: MemorySlurm, tmp_path: Path, kind: Any, named: str
) -> None:
    plan = a_plan(tmp_path)
    slurm.away = SlurmError(kind, "words", 1800)
    with pytest.raises(ExecutorUnreachableError, match=named) as met:
        await an_executor(slurm, tmp_path).launch(plan)
    assert met.value.reason == "slurm-unreachable"
    slurm.away = None
    slurm.before_submit = raising(SlurmError(kind, "words"))
    with pytest.raises(ExecutorUnreachableError):
        await an_executor(slurm, tmp_path).launch(plan)
    slurm.before_submit = lambda: None
    await an_executor(slurm, tmp_path).launch(plan)  # surely not submitted: nothing is waited for
    assert len(slurm.submitted) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
async def test_what_the_slurm_user_wrote_is_no_intent(slurm: MemorySlurm, tmp_path: Path) -> None:
    plan = a_plan(tmp_path)
    executor = an_executor(slurm, tmp_path)
    handle = await executor.launch(plan)
    directory = directory_of(plan)
    (directory / "intent-2.json").mkdir()
    with pytest.raises(LaunchDelayedError):  # ours, and no intent
        await executor.launch(plan)
    (directory / "intent-2.json").rmdir()
    forged = directory / "intent-3.json"
    forged.write_text("{}")
    os.chown(forged, 61017, 61017)
    assert await executor.launch(plan) == handle


async def test_a_console_that_was_frozen_submits_a_second_job_and_one_is_cancelled(
    slurm: MemorySlurm, tmp_path: Path
) -> None:
    plan = a_plan(tmp_path)
    executor = an_executor(slurm, tmp_path)
    handle = await executor.launch(plan)
    slurm.run(17)
    slurm.time.passed += 300
    second = slurm.add(slurm.submitted[0])
    seen = await executor.observe(handle)
    assert (seen.presence, seen.running, seen.started) == ("present", True, True)
    await slurm.is_cancelled(second)
    assert 17 not in slurm.cancelled


async def test_of_two_jobs_the_one_stays_that_the_script_let_begin(slurm: MemorySlurm, tmp_path: Path) -> None:
    plan = a_plan(tmp_path)
    executor = an_executor(slurm, tmp_path)
    handle = await executor.launch(plan)
    second = slurm.add(slurm.submitted[0])
    slurm.run(second)
    began = directory_of(plan) / "started"
    began.write_text(f"{second}\n")
    now = slurm.time.now().timestamp()
    os.utime(began, (now, now))
    assert (await executor.observe(handle)).started
    await slurm.is_cancelled(17)
    assert second not in slurm.cancelled
    assert await executor.cleanup(handle) is CleanupState.CONFIRMED
    assert second in slurm.cancelled


async def test_an_id_that_was_given_to_another_job_is_not_ours(slurm: MemorySlurm, tmp_path: Path) -> None:
    executor = an_executor(slurm, tmp_path)
    handle = await executor.launch(a_plan(tmp_path))
    slurm.known.clear()
    a_foreign_job(slurm, 17)
    assert (await executor.observe(handle)).presence == "unknown"
    await executor.stop(handle, timedelta(0))
    assert await executor.cleanup(handle) is CleanupState.UNKNOWN
    assert slurm.cancelled == slurm.signals == []


async def cut_off(slurm: MemorySlurm, root: Path, plan: LaunchPlan) -> None:
    """A console that dies in the middle of its launch."""
    launcher = an_executor(slurm, root).launcher
    directory = directory_of(plan)
    submission = await launcher._prepared(plan, directory)
    await launcher._submit(plan, directory, None, submission)


def a_namesake() -> Submission:
    return Submission(NAME, COMMENT, "#!/bin/sh\n", (Component(1),), {}, "/", "/dev/null")


async def test_what_was_placed_on_machines_before_the_setting_was_changed_is_not_submitted(
    slurm: MemorySlurm, tmp_path: Path
) -> None:
    plan = a_plan(tmp_path)
    placed = replace(plan, machines=tuple(replace(machine, node="box-3") for machine in plan.machines))
    with pytest.raises(ExecutorUnreachableError, match="TUNEPLANE_EXECUTOR"):
        await an_executor(slurm, tmp_path).launch(placed)
    assert slurm.known == {}
    assert read_intent(directory_of(plan)) is None
