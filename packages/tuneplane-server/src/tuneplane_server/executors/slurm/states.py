"""What Slurm's words for a job mean here: pure, no calls.

A job is a leader and, when it is heterogeneous, its further components; all of them are seen as one. A word that is not known is
never an end: such a job is there and runs, and the word is shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from signal import Signals

from tuneplane_server.domain.classify import Exit
from tuneplane_server.executors.slurm.rest.models import SlurmJob

# Slurm puts the job back into its queue, or holds it there for somebody to release: no attempt of ours goes on like that.
_REQUEUES = frozenset({"REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"})
# Processes or data of it are still being cleared away, whatever else is said.
_CLEARING = frozenset({"COMPLETING", "STAGE_OUT"})
_PREPARING = frozenset({"CONFIGURING", "POWER_UP_NODE"})
_WAITING = frozenset({"PENDING", "RESV_DEL_HOLD"})
# Another cluster of a federation has taken the job: what this one says beside it ends nothing.
_ELSEWHERE = "REVOKED"
_RUNNING = frozenset({"RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "RESIZING", _ELSEWHERE})
# How a job ended -> the code of the reason table that says so; None: its exit code says it. What is told first counts most.
_ENDS: dict[str, str | None] = {
    "NODE_FAIL": "node-lost",
    "BOOT_FAIL": "node-boot-failed",
    "RECONFIG_FAIL": "node-boot-failed",
    "OUT_OF_MEMORY": None,
    "PREEMPTED": "preempted",
    "TIMEOUT": "slurm-time-limit",
    "DEADLINE": "deadline-exceeded",
    "LAUNCH_FAILED": "launch-failed",
    "CANCELLED": "slurm-cancelled",
    "FAILED": None,
    "COMPLETED": None,
}
# Why Slurm says that a job FAILED which never came to its script, or lost its machine.
_REASONS = {"JobLaunchFailure": "launch-failed", "NodeDown": "node-lost", "ReqNodeNotAvail": "node-lost"}
# Only flags beside a base state: alone they end nothing.
_FLAGS_OF_ENDS = frozenset({"LAUNCH_FAILED", "RECONFIG_FAIL"})
# slurmd's own mark for a batch script that could not be started: its directory or its output file cannot be opened there.
UNSTARTED_SIGNAL = 53


class Stage(IntEnum):
    """How far a job is. Of several components the lowest counts."""

    REQUEUED = 0
    QUEUED = 1
    PREPARING = 2  # its machines are chosen, and are made ready
    RUNNING = 3
    ENDING = 4  # its processes have been told to end, or are being cleared away
    ENDED = 5


@dataclass(frozen=True)
class Words:
    """What Slurm calls the state: for people. `strange`: words that are not known here."""

    text: str
    strange: tuple[str, ...] = ()


def stage_of(components: Sequence[SlurmJob]) -> Stage:
    """`components`: at least one."""
    return min(_stage(job) for job in components)


def is_over(components: Sequence[SlurmJob]) -> bool:
    """Whether Slurm says that nothing of it runs or will run."""
    return all(_has_ended(job.states) for job in components)


def was_refused(components: Sequence[SlurmJob]) -> bool:
    """Whether this is only what Slurm keeps of a submit that it refused: a job that FAILED before it had anything."""
    return all("FAILED" in job.states and job.started_at is None and not job.nodes for job in components)


def words_of(components: Sequence[SlurmJob]) -> Words:
    """For example `Slurm job 17: RUNNING`, `Slurm job 18: CANCELLED+COMPLETING (NodeDown)`."""
    said = dict.fromkeys("+".join(sorted(job.states)) or "?" for job in components)
    reasons = dict.fromkeys(job.reason for job in components if job.reason and job.reason != "None")
    why = f" ({', '.join(reasons)})" if reasons else ""
    strange = sorted({word for job in components for word in _strange(job.states)})
    return Words(f"Slurm job {components[0].leader_id}: {', '.join(said)}{why}", tuple(strange))


def exit_of(components: Sequence[SlurmJob], *, told: bool) -> Exit:
    """How a job ended. `told`: it was told to end by us, so that its cancelling is no news."""
    leader = components[0]
    detail = words_of(components).text
    base = {word for job in components for word in job.states if word in _ENDS}
    causes = [cause for word, cause in _ENDS.items() if word in base and cause is not None]
    # One that ends within its grace is FAILED or COMPLETED like any other, also where its trainer saves and exits with 0; that a run
    # has succeeded all the same is for its outcome to say, which counts before any cause.
    if "preempted" not in causes and any(job.preempted_at for job in components):
        causes.insert(0, "preempted")
    if told:
        causes = [cause for cause in causes if cause != "slurm-cancelled"]
    failed = next((job for job in components if job.signal or job.exit_code), leader)
    code, signal = failed.exit_code, failed.signal
    if code == 0 and (signal is not None or base != {"COMPLETED"}):
        code = None  # Slurm says 0 of what it ended itself
    if code is None and signal is None:  # 22.05 also says JobLaunchFailure of a script that was killed
        causes += [cause for word, cause in _REASONS.items() if any(job.reason == word for job in components)]
    if failed.signal == UNSTARTED_SIGNAL:
        causes.append("storage-failed")
        detail += "; Slurm could not start the batch script: is the storage root there, at the same path?"
    if signal is None and code is not None and 128 < code < 192:
        signal = _known_signal(code - 128)
    never_ran = leader.started_at is None and code is None and signal is None
    return Exit(
        absent=never_ran or "node-lost" in causes,
        exit_code=code,
        signal=signal,
        oom_killed="OUT_OF_MEMORY" in base,
        cause=causes[0] if causes else None,
        detail=detail if causes else "",
    )


def requeued_exit(components: Sequence[SlurmJob]) -> Exit:
    restarts = max(job.restarts for job in components)
    again = f", started again {restarts} times" if restarts > 1 else ""
    return Exit(absent=True, cause="requeued", detail=f"{words_of(components).text}{again}")


def missing_gpus(components: Sequence[SlurmJob], asked: int) -> str | None:
    """Why a job that has got its machines cannot do what it was meant to: fewer cards than were asked for. None: it has them, or
    nothing says how many it has. `asked`: on all its machines together.
    """
    if not asked or any(job.gpus_allocated is None or not _has_machines(job) for job in components):
        return None
    got = sum(job.gpus_allocated or 0 for job in components)
    return None if got >= asked else f"Slurm gave the job {got} of the {asked} GPUs that it asked for"


def nodes_of(components: Sequence[SlurmJob]) -> tuple[str, ...]:
    """The real machines by rank; empty before Slurm has chosen them all."""
    if not all(job.nodes for job in components):
        return ()
    return tuple(name for job in components for name in job.nodes)


def grouped(jobs: Iterable[SlurmJob]) -> list[tuple[SlurmJob, ...]]:
    """Components of one job together, leader first; the jobs as they were submitted."""
    found: dict[int, list[SlurmJob]] = {}
    for job in jobs:
        found.setdefault(job.leader_id, []).append(job)
    groups = [tuple(sorted(items, key=lambda job: job.het_offset or 0)) for items in found.values()]
    return sorted(groups, key=lambda group: (group[0].submitted_at is None, group[0].submitted_at, group[0].leader_id))


def _stage(job: SlurmJob) -> Stage:
    states = job.states
    if states & _REQUEUES or job.restarts > 0:
        return Stage.REQUEUED
    if states & _CLEARING:
        return Stage.ENDING
    if _has_ended(states):
        return Stage.ENDED
    if states & _PREPARING:
        return Stage.PREPARING
    if states & _WAITING:
        return Stage.QUEUED
    return Stage.RUNNING


def _has_ended(states: frozenset[str]) -> bool:
    if states & (_CLEARING | _REQUEUES) or _ELSEWHERE in states:
        return False
    return any(word in _ENDS and word not in _FLAGS_OF_ENDS for word in states)


def _has_machines(job: SlurmJob) -> bool:
    return job.started_at is not None and _stage(job) >= Stage.RUNNING and bool(job.nodes)


def _strange(states: frozenset[str]) -> frozenset[str]:
    return states - _REQUEUES - _CLEARING - _PREPARING - _WAITING - _RUNNING - _ENDS.keys()


def _known_signal(number: int) -> int | None:
    return number if number in {int(item) for item in Signals} else None
