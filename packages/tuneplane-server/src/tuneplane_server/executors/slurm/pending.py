"""Why Slurm holds a job in its queue, in plain words, and where it stands there: pure, no calls."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tuneplane.i18n import N_
from tuneplane_server.executors.port import Queued
from tuneplane_server.executors.slurm.rest.models import SlurmJob

type Places = Mapping[tuple[str, int], int]  # (partition, leader's id) -> place

UNKNOWN = N_("Slurm holds it back, for a reason that has no plain words here")
_RESOURCES = N_("it is next, and waits until enough machines and GPUs are free")
_TEXTS = {
    "": N_("Slurm has it in its queue and has not said yet why it waits"),
    "None": N_("Slurm has it in its queue and has not said yet why it waits"),
    "Resources": _RESOURCES,
    "Priority": N_("jobs of higher priority are before it"),
    "Dependency": N_("it waits for another Slurm job"),
    "DependencyNeverSatisfied": N_("it waits for another Slurm job that ended otherwise than it must: it never starts"),
    "JobHeldUser": N_("it is held, until its Slurm user releases it"),
    "JobHeldAdmin": N_("an administrator of the cluster holds it"),
    "JobHoldMaxRequeue": N_("Slurm has started it too often and holds it now"),
    "BeginTime": N_("its earliest begin has not come yet"),
    "Reservation": N_("its reservation has not begun yet, or has no room for it"),
    "ReservationDeleted": N_("its reservation was removed: set TUNEPLANE_SLURM_RESERVATION to one that exists"),
    "PartitionDown": N_("its partition is down"),
    "PartitionInactive": N_("its partition starts nothing for now"),
    "PartitionNodeLimit": N_(
        "it asks for more machines than its partition gives: TUNEPLANE_SLURM_PARTITION names another"
    ),
    "PartitionTimeLimit": N_(
        "its time limit is longer than its partition's: lower limits.max_duration or TUNEPLANE_SLURM_TIME_LIMIT"
    ),
    "ReqNodeNotAvail": N_("machines that it needs are down, drained or reserved"),
    "NodeDown": N_("a machine that it needs is down"),
    "BadConstraints": N_("no machine of the cluster is as it asks for"),
    "Licenses": N_("it waits for a license"),
    "Cleaning": N_("Slurm is still clearing away what it ran before"),
    "InactiveLimit": N_("the limit for inactive jobs was reached"),
    "InvalidAccount": N_("its account is not valid: TUNEPLANE_SLURM_ACCOUNT names it"),
    "InvalidQOS": N_("its QOS is not valid: TUNEPLANE_SLURM_QOS names it"),
    "AccountNotAllowed": N_(
        "its account may not use this partition: see TUNEPLANE_SLURM_ACCOUNT and TUNEPLANE_SLURM_PARTITION"
    ),
    "QOSNotAllowed": N_(
        "its QOS may not be used in this partition: see TUNEPLANE_SLURM_QOS and TUNEPLANE_SLURM_PARTITION"
    ),
    "JobArrayTaskLimit": N_("as many jobs of its kind run as may run at once"),
    "FedJobLock": N_("the clusters of the federation have not agreed yet where it runs"),
    "FrontEndDown": N_("no front end of the cluster is up"),
    "SchedDefer": N_("Slurm puts off starting jobs for now"),
    "MaxBBLimit": N_("the burst buffers are full"),
    "BurstBufferResources": N_("it waits for room in a burst buffer"),
    "BurstBufferStageIn": N_("its data are being copied into a burst buffer"),
    "MaxPowerPerJob": N_("it would use more power than the cluster gives"),
    "NodeNotAvail": N_("machines that it needs are down, drained or reserved"),
    "Prolog": N_("the machines are being prepared"),
    "ReservationNotUsable": N_("its reservation cannot be used"),
    "ResourcesReserved": N_("the machines that it could use are reserved"),
    "JobHeld": N_("it is held"),
    "QOSJobLimit": N_("its QOS allows no further job at once"),
    "QOSResourceLimit": N_("its QOS allows no more resources at once"),
    "QOSTimeLimit": N_("its QOS allows no such time limit"),
    "QOSUsageThreshold": N_("its QOS has used up what it may use for now"),
    "AssociationJobLimit": N_("its account has as many jobs as it may have at once"),
    "AssociationResourceLimit": N_("its account uses as much as it may use at once"),
    "AssociationTimeLimit": N_("its account allows no such time limit"),
}
# The many limits of accounts and QOS, by how Slurm's words for them begin: the longest that fits counts.
_BEGINNINGS = (
    ("AssocGrpGRESMinutes", N_("its account has used up its GPU hours")),
    ("AssocGrpGRES", N_("its account uses as many GPUs as it may use at once")),
    ("AssocGrpCPU", N_("its account uses as many CPUs as it may use at once")),
    ("AssocGrpMem", N_("its account uses as much memory as it may use at once")),
    ("AssocGrpNode", N_("its account uses as many machines as it may use at once")),
    ("AssocGrpJobs", N_("its account has as many jobs as it may have at once")),
    ("AssocGrpWall", N_("its account has used up its time")),
    ("AssocGrp", N_("its account has reached a limit that it shares")),
    ("AssocMaxJobs", N_("its account has as many jobs as it may have at once")),
    ("AssocMaxGRES", N_("it asks for more GPUs than one job of its account may have")),
    ("AssocMaxWall", N_("its time limit is longer than its account allows: lower limits.max_duration or TUNEPLANE_SLURM_TIME_LIMIT")),
    ("AssocMax", N_("it asks for more than one job of its account may have")),
    ("Assoc", N_("a limit of its account keeps it waiting")),
    ("QOSGrpGRESMinutes", N_("its QOS has used up its GPU hours")),
    ("QOSGrpGRES", N_("the jobs of its QOS use as many GPUs as they may use at once")),
    ("QOSGrp", N_("the jobs of its QOS have reached a limit that they share")),
    ("QOSMaxJobs", N_("its QOS allows no further job at once")),
    ("QOSMaxGRES", N_("it asks for more GPUs than its QOS allows")),
    ("QOSMaxWall", N_("its time limit is longer than its QOS allows: lower limits.max_duration or TUNEPLANE_SLURM_TIME_LIMIT")),
    ("QOSMax", N_("it asks for more than its QOS allows")),
    ("QOSMin", N_("it asks for less than its QOS demands")),
    ("QOS", N_("a limit of its QOS keeps it waiting")),
    ("ReqNodeNotAvail", N_("machines that it needs are down, drained or reserved")),
    ("Nodes_required_for_job_are_DOWN", N_("machines that it needs are down, drained or reserved")),
    ("Partition", N_("a limit of its partition keeps it waiting: TUNEPLANE_SLURM_PARTITION names another")),
    ("BurstBuffer", N_("it waits for a burst buffer")),
    ("License", N_("it waits for a license")),
    ("Reservation", N_("its reservation keeps it waiting: see TUNEPLANE_SLURM_RESERVATION")),
)  # fmt: skip


def plain(reason: str) -> str:
    """Slurm's word as a sentence: the message id of a translation. `UNKNOWN` for a word that is not known: it is quoted beside it."""
    word = reason.partition(",")[0].partition(":")[0].strip()
    text = _TEXTS.get(word)
    if text is not None:
        return text
    fitting = [item for item in _BEGINNINGS if word.startswith(item[0])]
    return max(fitting, key=lambda item: len(item[0]))[1] if fitting else UNKNOWN


def queued_of(components: Sequence[SlurmJob], places: Places) -> Queued:
    """`places`: of everybody's jobs that wait, as far as Slurm shows them."""
    leader = components[0]
    # The component that keeps the others waiting is the one with more to say than that the leader waits.
    reason = next((job.reason for job in components if job.reason not in ("", "None")), leader.reason)
    return Queued(
        reason=reason,
        text=plain(reason),
        position=places.get((leader.partition, leader.leader_id)),
        starts_at=leader.estimated_start,
        since=leader.eligible_at or leader.submitted_at,
    )


def places_of(pending: Iterable[SlurmJob]) -> Places:
    """From 1, among the jobs that wait for the same partition, by Slurm's priority; equal ones as they came. A held job has none.

    A job that may go to several partitions waits in each, and the components of a heterogeneous one are one job.
    """
    waiting: dict[str, dict[int, int]] = {}
    for job in pending:
        for partition in job.partition.split(",") if job.priority else ():
            jobs = waiting.setdefault(partition, {})
            jobs[job.leader_id] = max(job.priority or 0, jobs.get(job.leader_id, 0))
    return {
        (partition, leader): place
        for partition, jobs in waiting.items()
        for place, leader in enumerate(sorted(jobs, key=lambda leader: (-jobs[leader], leader)), 1)
    }
