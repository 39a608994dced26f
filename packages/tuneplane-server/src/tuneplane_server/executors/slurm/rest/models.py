"""What a Slurm cluster says and is asked for, the same for every version of its REST API.

Times are UTC, memory is MiB (Slurm's unit), time limits are minutes. None means that Slurm did not say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

ErrorKind = Literal["refused", "auth", "unreachable", "unknown-outcome", "not-found", "version"]


@dataclass(frozen=True)
class Component:
    """Machines of one kind: the whole of a plain job, or one component of a heterogeneous one. One task runs on each machine.

    `gpus`, `cpus`, `memory_mb`: for each machine. `gpu_type`: Slurm's name of the card (`h200` in `gpu:h200:8`), None for any.
    """

    nodes: int
    gpus: int = 0
    gpu_type: str | None = None
    cpus: int | None = None
    memory_mb: int | None = None
    partition: str | None = None


@dataclass(frozen=True)
class Submission:
    """A job to submit. `environment` is everything that the batch script will see, next to what Slurm sets itself.

    `directory`: where the script starts. `output`: file for its stdout and stderr, Slurm's patterns (`%j`) allowed. `warning`: a
    signal without `SIG` that Slurm sends to the steps so many seconds before the time limit (at most a minute early).
    `qos`, `account`, `reservation`: None for the cluster's default. Slurm is told never to requeue the job.
    """

    name: str
    comment: str
    script: str = field(repr=False)
    components: tuple[Component, ...]
    environment: Mapping[str, str] = field(repr=False)  # holds secrets
    directory: str
    output: str
    time_limit_minutes: int | None = None
    account: str | None = None
    qos: str | None = None
    reservation: str | None = None
    nice: int | None = None
    warning: tuple[str, int] | None = None


@dataclass(frozen=True)
class SlurmJob:
    """A job, or one component of a heterogeneous one, whose leader has `het_offset` 0 and `id == het_id`.

    `states`: upper case, the base state and its flags: `{"RUNNING"}`, `{"CANCELLED", "COMPLETING"}`. `reason`: Slurm's word for why
    it waits or ended (`Resources`, `NonZeroExitCode`), empty when there is none. `exit_code`, `signal`: of the batch script, only when
    it has ended. `nodes`: machines by rank as Slurm allocated them. `started_at`: None before it started; `estimated_start`:
    Slurm's guess while it waits. `preempted_at`: when Slurm told it to make room, whatever state it ended in. `gpus_allocated`: cards that it holds or held, of all its machines together, None when nothing says
    how many; `gpus_asked`: the cards that it asked for, of all its machines.
    `time_limit_minutes`: None for no limit. `directory`: where the script starts. `nodes_asked`: machines that it wants. `source`: `controller` (slurmctld's memory) or `accounting` (slurmdbd).
    """

    id: int
    name: str
    comment: str
    user: str
    states: frozenset[str]
    reason: str = ""
    submitted_at: datetime | None = None
    eligible_at: datetime | None = None
    started_at: datetime | None = None
    estimated_start: datetime | None = None
    ended_at: datetime | None = None
    exit_code: int | None = None
    signal: int | None = None
    nodes: tuple[str, ...] = ()
    partition: str = ""
    account: str = ""
    qos: str = ""
    priority: int | None = None
    time_limit_minutes: int | None = None
    restarts: int = 0
    het_id: int | None = None
    het_offset: int | None = None
    preempted_at: datetime | None = None
    gpus_allocated: int | None = None
    gpus_asked: int = 0
    nodes_asked: int | None = None
    directory: str = ""
    source: Literal["controller", "accounting"] = "controller"

    @property
    def leader_id(self) -> int:
        """What a job is asked for and ended by: the leader's id for a component, its own else."""
        return self.het_id or self.id


@dataclass(frozen=True)
class SlurmNode:
    """`states`: upper case with flags (`{"IDLE", "DRAIN"}`). `cpus`: that jobs can be given. `gpus`: type -> cards, type `""` when the cluster names none.
    `gpus_used`: cards that jobs hold now, None when it does not say. `cpus_used`, `memory_used_mb`: the same. `architecture`: as
    uname has it (`x86_64`), empty for a node that never came up."""

    name: str
    address: str
    states: frozenset[str]
    reason: str = ""
    cpus: int = 0
    memory_mb: int = 0
    gpus: Mapping[str, int] = field(default_factory=dict)
    gpus_used: int | None = None
    cpus_used: int | None = None
    memory_used_mb: int | None = None
    partitions: tuple[str, ...] = ()
    architecture: str = ""


@dataclass(frozen=True)
class Partition:
    """`max_minutes`, `max_nodes`: None for no limit. `default_minutes`: None when a job without a limit gets `max_minutes`.
    `default`: whether it is the one of a job that names none; versions from v0.0.40 on never say so."""

    name: str
    states: frozenset[str]
    max_minutes: int | None = None
    default_minutes: int | None = None
    max_nodes: int | None = None
    nodes: tuple[str, ...] = ()
    default: bool = False


@dataclass(frozen=True)
class Association:
    """What our user may book on. `qos`: those that may be asked for there. `partition`: empty for all."""

    account: str
    qos: tuple[str, ...] = ()
    partition: str = ""


@dataclass(frozen=True)
class Health:
    """`version`: Slurm's (`24.11.5`), as the server says it. `api`: the data version in use (`v0.0.42`). `controllers_up`: whether a
    slurmctld answers slurmrestd. `token_expires_at`, `token_issued_at`: from the token itself, unverified; None when it does not say."""

    version: str
    api: str
    controllers_up: bool
    token_expires_at: datetime | None = None
    token_issued_at: datetime | None = None


class SlurmError(Exception):
    """What went wrong, by `kind`:

    - `refused`: Slurm said no, and nothing happened. `code`, `text`: its own.
    - `not-found`: it does not know that job.
    - `auth`: the token or user is not accepted, or no token can be read. Nothing happened, and nothing is known of jobs.
    - `unreachable`: no answer, or none that can be understood, from slurmrestd or slurmctld. Nothing is known of jobs.
    - `unknown-outcome`: a submit, signal or cancel that may or may not have happened: look before doing it again.
    - `version`: the server offers no data version that is known here (SlurmVersionError).

    `code`: Slurm's error number (2000 …), None when there is none. `text` holds neither token nor environment nor script.
    """

    def __init__(self, kind: ErrorKind, text: str, code: int | None = None) -> None:
        self.kind: ErrorKind = kind
        self.text = text
        self.code = code
        super().__init__(f"{kind}: {text}" if code is None else f"{kind}: {text} ({code})")


class SlurmVersionError(SlurmError):
    """`offered`: the versions that the server has. `known`: those that can be talked to."""

    def __init__(self, offered: Sequence[str], known: Sequence[str]) -> None:
        self.offered, self.known = tuple(offered), tuple(known)
        there = ", ".join(self.offered) or "none"
        super().__init__("version", f"the server offers {there}; known here are {', '.join(self.known)}")
