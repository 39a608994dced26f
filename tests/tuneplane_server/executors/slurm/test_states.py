"""What Slurm's words mean: every state of every version, alone and with flags, and none that is not known ends anything."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuneplane_server.domain.classify import Exit
from tuneplane_server.domain.reasons import REASONS
from tuneplane_server.executors.slurm import states
from tuneplane_server.executors.slurm.rest.models import SlurmJob
from tuneplane_server.executors.slurm.states import Stage

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
# state words as slurmrestd has them -> how far such a job is
STAGES = {
    "PENDING": Stage.QUEUED,
    "RESV_DEL_HOLD+PENDING": Stage.QUEUED,
    "PENDING+STAGE_OUT": Stage.ENDING,
    "CONFIGURING": Stage.PREPARING,
    "CONFIGURING+RUNNING": Stage.PREPARING,
    "RUNNING+POWER_UP_NODE": Stage.PREPARING,
    "RUNNING": Stage.RUNNING,
    "SUSPENDED": Stage.RUNNING,
    "RUNNING+STOPPED": Stage.RUNNING,
    "RUNNING+SIGNALING": Stage.RUNNING,
    "RUNNING+RESIZING": Stage.RUNNING,
    "COMPLETING": Stage.ENDING,
    "COMPLETED+COMPLETING": Stage.ENDING,
    "CANCELLED+COMPLETING": Stage.ENDING,
    "FAILED+STAGE_OUT": Stage.ENDING,
    "COMPLETED": Stage.ENDED,
    "FAILED": Stage.ENDED,
    "CANCELLED": Stage.ENDED,
    "TIMEOUT": Stage.ENDED,
    "NODE_FAIL": Stage.ENDED,
    "PREEMPTED": Stage.ENDED,
    "BOOT_FAIL": Stage.ENDED,
    "DEADLINE": Stage.ENDED,
    "OUT_OF_MEMORY": Stage.ENDED,
    "REVOKED": Stage.RUNNING,
    "CANCELLED+REVOKED": Stage.RUNNING,
    "FAILED+LAUNCH_FAILED": Stage.ENDED,
    "FAILED+RECONFIG_FAIL": Stage.ENDED,
    "COMPLETED+UPDATE_DB": Stage.ENDED,
    "PENDING+LAUNCH_FAILED": Stage.QUEUED,
    "LAUNCH_FAILED": Stage.RUNNING,
    "REQUEUED": Stage.REQUEUED,
    "PENDING+REQUEUED": Stage.REQUEUED,
    "PENDING+REQUEUE_HOLD": Stage.REQUEUED,
    "PENDING+SPECIAL_EXIT": Stage.REQUEUED,
    "PENDING+REQUEUE_FED": Stage.REQUEUED,
    "COMPLETING+REQUEUED": Stage.REQUEUED,
    "": Stage.RUNNING,
    "SOMETHING_OF_2031": Stage.RUNNING,
}
CAUSES = {
    "CANCELLED": "slurm-cancelled",
    "TIMEOUT": "slurm-time-limit",
    "DEADLINE": "deadline-exceeded",
    "NODE_FAIL": "node-lost",
    "BOOT_FAIL": "node-boot-failed",
    "FAILED+RECONFIG_FAIL": "node-boot-failed",
    "FAILED+LAUNCH_FAILED": "launch-failed",
    "PREEMPTED": "preempted",
    "FAILED": None,
    "COMPLETED": None,
    "OUT_OF_MEMORY": None,
}


def a_job(words: str = "RUNNING", **values: Any) -> SlurmJob:
    given: dict[str, Any] = {"id": 17, "name": "n", "comment": "c", "user": "u", "started_at": NOW, "nodes": ("n1",)}
    return SlurmJob(**{**given, **values}, states=frozenset(filter(None, words.split("+"))))


@pytest.mark.parametrize(("words", "stage"), STAGES.items())
def test_every_state_is_known(words: str, stage: Stage) -> None:
    assert states.stage_of((a_job(words),)) is stage
    assert states.is_over((a_job(words),)) is (stage is Stage.ENDED)


@given(
    st.frozensets(
        st.sampled_from(sorted({word for words in STAGES for word in words.split("+")})) | st.text("AB_", min_size=1)
    )
)
def test_only_words_that_are_known_as_ends_end_a_job(words: frozenset[str]) -> None:
    stage = states.stage_of((a_job("+".join(words)),))
    if stage is Stage.ENDED:
        assert words & CAUSES.keys() - {"FAILED+RECONFIG_FAIL", "FAILED+LAUNCH_FAILED"}
        assert not words & {"COMPLETING", "STAGE_OUT", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "REQUEUE_FED"}


def test_a_strange_word_is_told() -> None:
    words = states.words_of((a_job("RUNNING+FROBBING"),))
    assert words.strange == ("FROBBING",)
    assert words.text == "Slurm job 17: FROBBING+RUNNING"


def test_a_job_that_slurm_started_again_is_requeued_whatever_it_does_now() -> None:
    for word in ("PENDING", "RUNNING", "COMPLETED"):
        assert states.stage_of((a_job(word, restarts=1),)) is Stage.REQUEUED
    found = states.requeued_exit((a_job("PENDING", restarts=2, reason="BeginTime"),))
    assert (found.absent, found.cause) == (True, "requeued")
    assert found.detail == "Slurm job 17: PENDING (BeginTime), started again 2 times"


def test_a_heterogeneous_job_is_as_far_as_its_last_component() -> None:
    leader = a_job("RUNNING", id=5, het_id=5, het_offset=0)
    rest = a_job("COMPLETED", id=6, het_id=5, het_offset=1)
    assert states.stage_of((leader, rest)) is Stage.RUNNING
    assert not states.is_over((leader, rest))
    assert states.grouped([rest, leader]) == [(leader, rest)]


@pytest.mark.parametrize(("words", "cause"), CAUSES.items())
def test_every_end_has_its_cause_and_the_table_knows_it(words: str, cause: str | None) -> None:
    end = states.exit_of((a_job(words, exit_code=0, reason="Why"),), told=False)
    assert end.cause == cause
    assert cause is None or cause in REASONS
    assert end.oom_killed is (words == "OUT_OF_MEMORY")
    assert end.exit_code == (0 if words == "COMPLETED" else None)
    assert end.detail == ("" if cause is None else f"Slurm job 17: {'+'.join(sorted(words.split('+')))} (Why)")


def test_a_job_that_ends_within_the_grace_of_a_preemption_was_preempted() -> None:
    assert states.exit_of((a_job("FAILED", exit_code=143, preempted_at=NOW),), told=False).cause == "preempted"
    assert states.exit_of((a_job("CANCELLED", preempted_at=NOW),), told=False).cause == "preempted"
    assert states.exit_of((a_job("COMPLETED", exit_code=0, preempted_at=NOW),), told=False).cause == "preempted"


def test_what_we_cancelled_is_no_news() -> None:
    assert states.exit_of((a_job("CANCELLED", signal=15),), told=True) == Exit(exit_code=None, signal=15)
    assert states.exit_of((a_job("TIMEOUT"),), told=True).cause == "slurm-time-limit"


def test_a_job_that_was_cancelled_while_it_waited_never_ran() -> None:
    end = states.exit_of((a_job("CANCELLED", started_at=None, nodes=(), exit_code=0),), told=False)
    assert (end.absent, end.exit_code, end.cause) == (True, None, "slurm-cancelled")


@pytest.mark.parametrize(
    ("values", "code", "signal"),
    [
        ({"exit_code": 3}, 3, None),
        ({"exit_code": 137}, 137, 9),
        ({"exit_code": 143}, 143, 15),
        ({"exit_code": 0, "signal": 9}, None, 9),
        ({"exit_code": 0}, None, None),
        ({"exit_code": 190}, 190, None),
        ({"exit_code": 255}, 255, None),
    ],
)
def test_exit_code_and_signal_of_a_failed_job(values: dict[str, int], code: int | None, signal: int | None) -> None:
    end = states.exit_of((a_job("FAILED", **values),), told=False)
    assert (end.exit_code, end.signal, end.cause) == (code, signal, None)


def test_a_script_that_could_not_be_started_is_the_storage_s_fault() -> None:
    end = states.exit_of((a_job("FAILED", exit_code=0, signal=53, reason="RaisedSignal:53"),), told=False)
    assert end.cause == "storage-failed"
    assert "same path" in end.detail


def test_a_lost_node_counts_before_what_followed_from_it() -> None:
    parts = (a_job("FAILED", exit_code=1), a_job("NODE_FAIL", id=18))
    end = states.exit_of(parts, told=False)
    assert (end.cause, end.absent) == ("node-lost", True)


def test_reasons_of_failed_jobs_that_say_more_than_the_state() -> None:
    assert states.exit_of((a_job("FAILED", reason="JobLaunchFailure"),), told=False).cause == "launch-failed"
    assert states.exit_of((a_job("FAILED", reason="NodeDown"),), told=False).cause == "node-lost"
    assert states.exit_of((a_job("FAILED", reason="JobLaunchFailure", signal=9),), told=False).cause is None


@pytest.mark.parametrize(
    ("asked", "got", "missing"),
    [(8, 8, False), (8, 4, True), (8, 0, True), (8, None, False), (0, 0, False), (8, 16, False)],
)
def test_cards_are_counted_in_what_slurm_allocated(asked: int, got: int | None, missing: bool) -> None:
    assert (states.missing_gpus((a_job(gpus_allocated=got),), asked) is not None) is missing


def test_cards_of_components_count_together_and_only_once_there_are_machines() -> None:
    first, second = a_job(gpus_allocated=8), a_job(id=18, gpus_allocated=2)
    assert states.missing_gpus((first, second), 10) is None
    assert states.missing_gpus((first, second), 16) == "Slurm gave the job 10 of the 16 GPUs that it asked for"
    waiting = a_job("PENDING", started_at=None, nodes=(), gpus_allocated=0)
    assert states.missing_gpus((waiting,), 8) is None


def test_real_machines_by_rank_once_all_are_chosen() -> None:
    first, second = a_job(nodes=("n1", "n2")), a_job(id=18, nodes=("g1",))
    assert states.nodes_of((first, second)) == ("n1", "n2", "g1")
    assert states.nodes_of((first, a_job(id=18, nodes=()))) == ()
