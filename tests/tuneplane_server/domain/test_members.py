"""Which of a job's machines ended it: the cause counts, not who was seen first."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tuneplane_server.domain.classify import Exit
from tuneplane_server.domain.members import MemberEnd, follows, verdict_of
from tuneplane_server.domain.phases import Phase, StopCause

GLOO = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.3]:53211\n"


def member(rank: int, end: Exit, second: int | None = None, output: str = "") -> MemberEnd:
    at = None if second is None else datetime(2026, 1, 1, 0, 0, second, tzinfo=UTC)
    return MemberEnd(rank, f"n{rank}", end, at, output)


def outcome(rank: int, result: str, second: float, **known: Any) -> dict[str, Any]:
    """As the runner of machine `rank` writes it."""
    at = datetime(2026, 1, 1, tzinfo=UTC).timestamp() + second
    code = 0 if result == "succeeded" else 1
    return {"machine_rank": rank, "result": result, "finished_at": at, "exit_code": code, **known}


def test_the_first_machines_word_of_success_is_enough() -> None:
    ended = [member(0, Exit(exit_code=0), 1), member(1, Exit(exit_code=137, signal=9), 2)]
    verdict = verdict_of(ended, {0: outcome(0, "succeeded", 1)}, None)
    assert (verdict.phase, verdict.reason, follows(verdict)) == (Phase.SUCCEEDED, None, False)


def test_success_of_the_others_is_no_success() -> None:
    """Scenario 6: the first machine left no word."""
    ended = [member(0, Exit(exit_code=0), 1), member(1, Exit(exit_code=0), 2)]
    verdict = verdict_of(ended, {1: outcome(1, "succeeded", 2)}, None)
    assert verdict.reason is not None
    assert (verdict.phase, verdict.reason.code, verdict.reason.data["rank"]) == (Phase.FAILED, "no-outcome", 0)


@pytest.mark.parametrize("first", [0, 1, 2], ids="the cause is rank {}".format)
def test_who_lost_another_machine_is_not_the_cause_though_it_ended_earlier(first: int) -> None:
    """The clocks of machines differ: the kind of end goes before its time."""
    outcomes, ended = {}, []
    for rank in range(3):
        said = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n" if rank == first else GLOO
        outcomes[rank] = outcome(rank, "failed", 9 if rank == first else 5, log_tail=said)
        ended.append(member(rank, Exit(exit_code=1), 10))
    verdict = verdict_of(ended, outcomes, None)
    assert verdict.reason is not None
    assert (verdict.reason.code, verdict.reason.data["rank"]) == ("gpu-out-of-memory", first)
    assert verdict.reason.data["node"] == f"n{first}"
    assert str(verdict.reason.data["detail"]).startswith(f"machine {first} (n{first}): torch.OutOfMemoryError")
    assert not follows(verdict)


def test_when_all_only_lost_each_other_the_earliest_counts_and_says_so() -> None:
    outcomes = {rank: outcome(rank, "failed", 9 - rank, log_tail=GLOO) for rank in range(2)}
    verdict = verdict_of([member(rank, Exit(exit_code=1), 20) for rank in range(2)], outcomes, None)
    assert verdict.reason is not None
    assert (verdict.reason.code, verdict.reason.data["rank"], follows(verdict)) == ("rank-lost", 1, True)


def test_a_machine_that_is_gone_is_what_the_others_lost() -> None:
    gone = member(1, Exit(absent=True, cause="node-lost", detail="silent since 12:00"))
    verdict = verdict_of([member(0, Exit(exit_code=1), 5), gone], {0: outcome(0, "failed", 5)}, None)
    assert verdict.reason is not None
    assert (verdict.phase, verdict.reason.code) == (Phase.LOST, "node-lost")
    assert verdict.reason.data["detail"] == "machine 1 (n1): silent since 12:00"


def test_a_container_without_a_word_is_named_by_its_place() -> None:
    verdict = verdict_of([member(1, Exit(absent=True))], {}, None)
    assert verdict.reason is not None
    assert (verdict.reason.code, verdict.reason.data["detail"]) == ("container-lost", "machine 1 (n1)")


def test_who_was_told_to_stop_after_it_is_not_the_cause() -> None:
    ended = [member(0, Exit(exit_code=143, signal=15), 3), member(1, Exit(exit_code=137, signal=9), 8)]
    verdict = verdict_of(ended, {0: outcome(0, "cancelled", 2)}, None)
    assert verdict.reason is not None
    assert (verdict.reason.code, verdict.reason.data["rank"]) == ("killed", 1)


def test_one_that_ended_well_does_not_hide_the_one_that_did_not() -> None:
    ended = [
        member(1, Exit(exit_code=0), 1),
        member(2, Exit(exit_code=1), 2, "TUNEPLANE-BOOTSTRAP: disk-full: no room\n"),
    ]
    verdict = verdict_of(ended, {1: outcome(1, "succeeded", 1)}, None)
    assert verdict.reason is not None
    assert (verdict.reason.code, verdict.reason.data["rank"]) == ("disk-full", 2)


@pytest.mark.parametrize("known", [True, False])
def test_what_we_stopped_ourselves_ends_for_our_reason(known: bool) -> None:
    ended = [member(rank, Exit(exit_code=143, signal=15), 5) for rank in (0, 1)]
    outcomes = {0: outcome(0, "cancelled", 4)} if known else {}
    verdict = verdict_of(ended, outcomes, StopCause.CANCEL)
    assert verdict.reason is not None
    assert (verdict.phase, verdict.reason.code, dict(verdict.reason.data)) == (Phase.CANCELLED, "cancelled", {})


def test_the_first_machines_word_counts_before_its_container_has_ended() -> None:
    verdict = verdict_of(
        [member(1, Exit(exit_code=143, signal=15), 5)], {0: outcome(0, "cancelled", 4)}, StopCause.PAUSE
    )
    assert verdict.reason is not None
    assert verdict.reason.code == "paused"
