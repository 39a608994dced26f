"""Why a job waits, in plain words, and its place in the queue."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.tuneplane_server.executors.slurm.test_states import NOW, a_job
from tuneplane_server.executors.slurm.pending import UNKNOWN, plain, position_of, queued_of
from tuneplane_server.executors.slurm.rest.models import SlurmJob

# fmt: off
KNOWN = [
    "Resources", "Priority", "Dependency", "DependencyNeverSatisfied", "JobHeldUser", "JobHeldAdmin", "BeginTime", "Reservation",
    "ReservationDeleted", "PartitionDown", "PartitionInactive", "PartitionNodeLimit", "PartitionTimeLimit", "PartitionConfig",
    "ReqNodeNotAvail", "NodeDown", "BadConstraints", "Licenses", "Cleaning", "InvalidAccount", "InvalidQOS", "AccountNotAllowed",
    "QOSNotAllowed", "JobHoldMaxRequeue", "AssocGrpGRES", "AssocGrpGRESMinutes", "AssocGrpCpuLimit", "AssocGrpNodeLimit", "AssocGrpJobsLimit",
    "AssocGrpSubmitJobsLimit", "AssocGrpMemLimit", "AssocGrpWallLimit", "AssocMaxJobsLimit", "AssocMaxWallDurationPerJobLimit",
    "AssocMaxGRESPerJob", "AssocMaxNodePerJobLimit", "AssocMaxCpuPerJobLimit", "QOSGrpGRES", "QOSGrpCpuLimit", "QOSGrpGRESMinutes",
    "QOSMaxJobsPerUserLimit", "QOSMaxGRESPerUser", "QOSMaxWallDurationPerJobLimit", "QOSMaxNodePerUserLimit", "QOSMinGRES", "QOSJobLimit",
    "QOSUsageThreshold", "BurstBufferStageIn", "MaxBBLimit", "Prolog", "FedJobLock",
]
# fmt: on


@pytest.mark.parametrize("reason", KNOWN)
def test_every_known_reason_has_plain_words(reason: str) -> None:
    assert plain(reason) != UNKNOWN
    assert plain(f"{reason}, UnavailableNodes:n[1-4]") == plain(reason)


def test_a_reason_that_is_not_known_is_not_guessed() -> None:
    assert plain("SomethingOf2031") == UNKNOWN


def test_the_longest_beginning_counts() -> None:
    assert "GPU hours" in plain("AssocGrpGRESMinutes")
    assert "at once" in plain("AssocGrpGRES")


def a_waiting(job_id: int, priority: int | None, **values: Any) -> SlurmJob:
    return a_job("PENDING", id=job_id, priority=priority, partition=values.pop("partition", "main"), nodes=(), **values)


def test_the_place_counts_everybody_s_jobs_of_the_partition_by_priority() -> None:
    me = a_waiting(20, 100)
    others = [
        a_waiting(10, 100),
        a_waiting(11, 500, user="other"),
        a_waiting(12, 99),
        a_waiting(13, 900, partition="small"),
        a_waiting(30, 100),
    ]
    assert position_of(me, [me, *others]) == 3


def test_components_of_a_job_are_one_in_the_queue() -> None:
    leader, rest = (a_waiting(5 + offset, 900, het_id=5, het_offset=offset) for offset in (0, 1))
    assert position_of(a_waiting(20, 100), [leader, rest]) == 2
    assert position_of(leader, [leader, rest]) == 1


@pytest.mark.parametrize("priority", [0, None])
def test_a_held_job_has_no_place(priority: int | None) -> None:
    assert position_of(a_waiting(20, priority), []) is None


def test_what_is_told_of_a_job_that_waits() -> None:
    soon = NOW + timedelta(hours=1)
    me = a_waiting(20, 100, reason="Resources", estimated_start=soon, eligible_at=NOW)
    told = queued_of((me,), [me])
    assert (told.reason, told.text, told.position, told.starts_at, told.since) == (
        "Resources",
        plain("Resources"),
        1,
        soon,
        NOW,
    )


def test_the_component_with_something_to_say_says_it() -> None:
    parts = (a_waiting(5, 1, reason="None"), a_waiting(6, 1, reason="PartitionDown"))
    assert queued_of(parts, ()).reason == "PartitionDown"
