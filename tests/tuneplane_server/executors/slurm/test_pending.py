"""Why a job waits, in plain words, and its place in the queue."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.tuneplane_server.executors.slurm.test_states import NOW, a_job
from tuneplane_server.executors.slurm.pending import UNKNOWN, places_of, plain, queued_of
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
    places = places_of(
        [
            a_waiting(20, 100),
            a_waiting(10, 100),
            a_waiting(11, 500, user="other"),
            a_waiting(12, 99),
            a_waiting(13, 900, partition="small"),
            a_waiting(30, 100),
        ]
    )
    assert [places["main", job] for job in (11, 10, 20, 30, 12)] == [1, 2, 3, 4, 5]
    assert places["small", 13] == 1


def test_a_job_that_may_go_to_several_partitions_waits_in_each() -> None:
    places = places_of(
        [a_waiting(5, 900, partition="main,small"), a_waiting(20, 100), a_waiting(21, 100, partition="small")]
    )
    assert (places["main", 20], places["small", 21]) == (2, 2)


def test_components_of_a_job_are_one_in_the_queue() -> None:
    parts = [a_waiting(5 + offset, 900, het_id=5, het_offset=offset) for offset in (0, 1)]
    places = places_of([*parts, a_waiting(20, 100)])
    assert (places["main", 5], places["main", 20]) == (1, 2)


@pytest.mark.parametrize("priority", [0, None])
def test_a_held_job_has_no_place(priority: int | None) -> None:
    assert places_of([a_waiting(20, priority)]) == {}


def test_what_is_told_of_a_job_that_waits() -> None:
    soon = NOW + timedelta(hours=1)
    me = a_waiting(20, 100, reason="Resources", estimated_start=soon, eligible_at=NOW)
    told = queued_of((me,), places_of([me]))
    known = (told.reason, told.text, told.position, told.starts_at, told.since)
    assert known == ("Resources", plain("Resources"), 1, soon, NOW)


def test_the_component_with_something_to_say_says_it() -> None:
    parts = (a_waiting(5, 1, reason="None"), a_waiting(6, 1, reason="PartitionDown"))
    assert queued_of(parts, {}).reason == "PartitionDown"
