"""From evidence to verdict, whether to try again, and from which checkpoint."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tuneplane_server.domain.checkpoints import (
    FoundCheckpoint,
    complete_steps,
    newest_complete,
    next_start,
    of_step,
)
from tuneplane_server.domain.classify import Exit, classify, names_cause
from tuneplane_server.domain.phases import Phase, Reason, StopCause, Verdict
from tuneplane_server.domain.reasons import REASONS, fill
from tuneplane_server.domain.retries import may_retry


def outcome(result: str = "failed", **known: Any) -> dict[str, Any]:
    return {"result": result, "exit_code": 1, "signal": None, "reason": None, "detail": "", "log_tail": ""} | known


def code(verdict: Verdict) -> str | None:
    return verdict.reason.code if verdict.reason else None


def test_the_runners_word_makes_a_success_whatever_the_exit_says() -> None:
    verdict = classify(Exit(exit_code=137, signal=9), outcome("succeeded", exit_code=0), None)
    assert verdict == Verdict(Phase.SUCCEEDED, None, from_outcome=True)


@pytest.mark.parametrize(
    ("cause", "phase", "reason"),
    [
        (StopCause.CANCEL, Phase.CANCELLED, "cancelled"),
        (StopCause.TIME_LIMIT, Phase.FAILED, "time-limit"),
        (None, Phase.FAILED, "interrupted"),
    ],
)
def test_a_stopped_trainer_is_told_apart_by_who_stopped_it(cause: StopCause | None, phase: Phase, reason: str) -> None:
    verdict = classify(Exit(exit_code=143), outcome("cancelled", exit_code=143), cause)
    assert (verdict.phase, code(verdict)) == (phase, reason)


@pytest.mark.parametrize(
    ("known", "end", "reason"),
    [
        ({"reason": "entrypoint-missing"}, Exit(), "entrypoint-missing"),
        ({"reason": "a-code-of-a-newer-runner"}, Exit(), "trainer-failed"),
        ({}, Exit(oom_killed=True), "out-of-memory"),
        ({"log_tail": "x\ntorch.OutOfMemoryError: CUDA out of memory. Tried"}, Exit(), "gpu-out-of-memory"),
        ({"log_tail": "Traceback\nModuleNotFoundError: No module named 'x'"}, Exit(), "module-missing"),
        ({"log_tail": "the word ModuleNotFoundError: in a sentence"}, Exit(), "trainer-failed"),
        ({"log_tail": "OSError: [Errno 28] No space left on device"}, Exit(), "disk-full"),
        ({"log_tail": "ncclSystemError: System call"}, Exit(), "communication-failed"),
        ({"exit_code": None, "signal": 9}, Exit(), "killed"),
        ({"exit_code": None, "signal": 11}, Exit(), "segmentation-fault"),
        ({"exit_code": None, "signal": 10}, Exit(), "trainer-signalled"),
        ({"exit_code": None}, Exit(), "runner-failed"),
        ({"exit_code": 3}, Exit(), "trainer-failed"),
    ],
)
def test_a_failure_gets_the_most_particular_reason(known: dict[str, Any], end: Exit, reason: str) -> None:
    verdict = classify(end, outcome(**known), None)
    assert (verdict.phase, code(verdict)) == (Phase.FAILED, reason)


def test_a_failure_of_its_own_stays_one_though_it_was_being_cancelled() -> None:
    assert code(classify(Exit(), outcome(exit_code=3), StopCause.CANCEL)) == "trainer-failed"


def test_the_facts_of_a_failure_are_kept_and_the_rest_is_not() -> None:
    verdict = classify(Exit(), outcome(exit_code=3, detail="x"), None)
    assert verdict.reason == Reason("trainer-failed", {"exit_code": 3, "detail": "x"})


@pytest.mark.parametrize(
    ("end", "tail", "phase", "reason"),
    [
        (Exit(absent=True), "", Phase.LOST, "container-lost"),
        (Exit(), "", Phase.LOST, "container-lost"),
        (Exit(exit_code=0), "", Phase.FAILED, "no-outcome"),
        (Exit(exit_code=137, oom_killed=True), "", Phase.FAILED, "out-of-memory"),
        (Exit(signal=15), "", Phase.FAILED, "interrupted"),
        (Exit(exit_code=143), "", Phase.FAILED, "interrupted"),
        (Exit(signal=9), "", Phase.FAILED, "killed"),
        (Exit(exit_code=137), "", Phase.FAILED, "killed"),
        (Exit(exit_code=78), "TUNEPLANE-BOOTSTRAP: no-such-code: x", Phase.FAILED, "runner-failed"),
        (Exit(exit_code=78), "ModuleNotFoundError: No module named 'x'", Phase.FAILED, "runner-failed"),
        (Exit(exit_code=1), "ModuleNotFoundError: No module named 'x'", Phase.FAILED, "module-missing"),
        (Exit(exit_code=1), "", Phase.FAILED, "runner-failed"),
        (Exit(exit_code=78), "TUNEPLANE-BOOTSTRAP: python-missing: none", Phase.FAILED, "python-missing"),
        (Exit(exit_code=78), "x\nTUNEPLANE-BOOTSTRAP: package-corrupt: the capsule", Phase.FAILED, "package-corrupt"),
    ],
)
def test_without_the_runners_word_the_exit_decides_and_never_for_success(
    end: Exit, tail: str, phase: Phase, reason: str
) -> None:
    verdict = classify(end, None, None, tail)
    assert (verdict.phase, code(verdict), verdict.from_outcome) == (phase, reason, False)


@pytest.mark.parametrize(
    ("cause", "phase"), [(StopCause.CANCEL, Phase.CANCELLED), (StopCause.TIME_LIMIT, Phase.FAILED)]
)
def test_a_run_we_killed_ended_for_our_reason(cause: StopCause, phase: Phase) -> None:
    assert classify(Exit(signal=9), None, cause).phase is phase


def test_every_reason_can_be_shown() -> None:
    assert len(REASONS) >= 25
    for entry in REASONS.values():
        assert re.fullmatch(r"[a-z]+(-[a-z]+)*", entry.code)
        assert entry.text
        assert entry.hint
        assert "{" not in fill(entry.text, {})
        assert entry.anchor == f"reference/reasons#{entry.code}"


def test_a_text_is_filled_and_what_is_unknown_shows_as_a_question_mark() -> None:
    assert fill("exit code {exit_code} of {who}", {"exit_code": 3}) == "exit code 3 of ?"


LOST = Verdict(Phase.LOST, Reason("container-lost"), from_outcome=False)
NO_MODULE = Verdict(Phase.FAILED, Reason("module-missing"), from_outcome=True)
SUCCESS = Verdict(Phase.SUCCEEDED, None, from_outcome=True)


@pytest.mark.parametrize(
    ("verdict", "earlier", "limits", "expected"),
    [
        (LOST, [], {"infra": 1}, True),
        (LOST, [], {}, False),
        (LOST, ["killed"], {"infra": 1}, False),
        (LOST, ["killed"], {"infra": 2}, True),
        (LOST, ["trainer-failed", "no-longer-in-the-table"], {"infra": 1}, True),
        (NO_MODULE, [], {"user": 5}, False),
        (SUCCESS, [], {"infra": 5}, False),
    ],
)
def test_a_further_attempt_needs_a_reason_it_can_help_and_a_limit_that_is_left(
    verdict: Verdict, earlier: list[str], limits: dict[str, int], expected: bool
) -> None:
    assert may_retry(verdict, earlier, limits) is expected


def test_the_newest_complete_checkpoint_of_the_latest_attempt_is_taken() -> None:
    found = [
        FoundCheckpoint(1, "checkpoints/checkpoint-100", 100, complete=True),
        FoundCheckpoint(1, "checkpoints/checkpoint-90", 90, complete=True),
        FoundCheckpoint(2, "checkpoints/checkpoint-120", 120, complete=False),
    ]
    assert newest_complete(found) == found[0]
    assert newest_complete([]) is None


def test_the_checkpoint_of_a_step_is_a_complete_one_where_there_is_one() -> None:
    whole, cut, again = (
        FoundCheckpoint(1, "checkpoint-10", 10, complete=True),
        FoundCheckpoint(2, "checkpoint-10", 10, complete=False, problem="cut off"),
        FoundCheckpoint(2, "checkpoint-20", 20, complete=False, problem="cut off"),
    )
    assert of_step([whole, cut, again], 10) == whole
    assert of_step([whole, cut, again], 20) == again
    assert of_step([whole, cut, again], 30) is None
    assert complete_steps([again, cut, whole, whole]) == [10]


def test_a_further_attempt_starts_where_the_last_one_was_or_where_that_one_started() -> None:
    first = FoundCheckpoint(1, "checkpoint-10", 10, complete=True)
    second = FoundCheckpoint(2, "checkpoint-5", 5, complete=True)
    cut = FoundCheckpoint(2, "checkpoint-6", 6, complete=False, problem="cut off")
    assert next_start([first, second, cut], 2, "/older") == second
    assert (
        next_start([first, cut], 2, "/older") == "/older"
    )  # it was asked to start there: not from the newer checkpoint-10
    assert next_start([first, cut], 2, None) == first
    assert next_start([], 1, "/of/another/run") == "/of/another/run"
    assert next_start([], 1, None) is None


SLURM = (
    "requeued", "preempted", "slurm-time-limit", "gpus-missing", "slurm-cancelled", "node-lost", "node-boot-failed",
    "slurm-job-lost", "deadline-exceeded",
)  # fmt: skip


@pytest.mark.parametrize("cause", SLURM)
def test_what_slurm_says_of_an_end_counts_whether_or_not_its_signal_reached_the_runner(cause: str) -> None:
    """A runner that was told to stop says so, and only Slurm knows why."""
    said = "Slurm job 17: TIMEOUT"
    told = {"result": "cancelled", "signal": 15}
    for end, outcome in (
        (Exit(exit_code=143, signal=15, cause=cause, detail=said), told),
        (Exit(absent=True, cause=cause, detail=said), told),
        (Exit(exit_code=143, signal=15, cause=cause, detail=said), None),
        (Exit(absent=True, cause=cause, detail=said), None),
    ):
        assert names_cause(end)
        verdict = classify(end, outcome, None)
        assert verdict.reason is not None
        assert (verdict.reason.code, verdict.reason.data["detail"]) == (cause, said)
        assert classify(end, outcome, StopCause.CANCEL).phase is Phase.CANCELLED  # unless it was our own wish
        assert classify(end, {"result": "succeeded"}, None).phase is Phase.SUCCEEDED
    lost = classify(Exit(absent=True, cause=cause), None, None).phase
    assert (lost is Phase.LOST) == (REASONS[cause].class_ == "infra")


def test_a_memory_limit_that_ended_a_run_through_a_signal_is_the_cause() -> None:
    end = Exit(exit_code=137, signal=9, oom_killed=True)
    assert names_cause(end)
    verdict = classify(end, {"result": "cancelled", "signal": 15}, None)
    assert verdict.reason == Reason("out-of-memory", {"signal": 15})


def test_a_cause_that_the_table_does_not_know_is_none() -> None:
    assert not names_cause(Exit(exit_code=1, cause="of-a-later-version"))
    assert not names_cause(Exit(exit_code=1))
