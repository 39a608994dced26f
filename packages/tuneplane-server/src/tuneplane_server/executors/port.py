"""The port between the ledger and whatever starts containers. One contract suite in the tests runs on every executor.

Every call may be repeated at any time, also by another process after a crash, and is bounded in time. An executor that
cannot be asked says so (`unknown`, `CleanupState.UNKNOWN`, `ExecutorUnreachableError`); it never says that something is
gone without proof.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Protocol

from tuneplane_server.domain.classify import Exit
from tuneplane_server.domain.members import MemberEnd

LAUNCH_NAME_PREFIX = "tp"


@dataclass(frozen=True)
class GpuInfo:
    """`profile`: the card's name in the hardware registry, for example `h200`."""

    index: int
    profile: str
    product: str
    memory_gb: float | None
    simulated: bool


@dataclass(frozen=True)
class NodeInfo:
    """A machine as it is, whoever holds its cards. One that is not `placeable` gets no work for now; `why` says so to people.

    `gpus_used`: how many of its cards the backend itself says are taken, by whomever; None where only our holds tell that.
    """

    name: str
    cpus: float
    memory_gb: float
    gpus: tuple[GpuInfo, ...]
    facts: Mapping[str, Any] = field(default_factory=dict)
    placeable: bool = True
    why: str = ""
    gpus_used: int | None = None


@dataclass(frozen=True)
class Capabilities:
    """What the executor can do now. `image_form`: what `image` of a launch is here, an OCI reference, a Python environment, or a
    file of the runtime registry: `sif` and `sqsh` images, the `bundle` that Slurm's own `container` runs.

    `own_queue`: the backend has a queue of its own, which decides on what starts when. Ours gives it every job that quotas,
    approvals and a drain let through, with machines that are only counted and named `<executor>/<run>-<attempt>/<rank>`.
    """

    runtime: str
    image_form: Literal["oci", "environment", "sif", "sqsh", "bundle"]
    heterogeneous_pools: bool = False
    multi_node: bool = False
    on_this_machine: bool = False
    isolates: bool = True
    own_queue: bool = False
    one_console: bool = False  # only the console that started a run can ask about it


@dataclass(frozen=True)
class Finding:
    """One thing that `check()` found, in the language of the context it was made in."""

    code: str
    level: Literal["info", "warning", "error"]
    text: str
    hint: str = ""
    detail: str = ""


@dataclass(frozen=True)
class MachinePlan:
    """One machine of the job; `rank` is its machine rank. Memory in bytes; None: no limit."""

    rank: int
    node: str
    gpus: tuple[int, ...]
    cpus: float | None
    memory_bytes: int | None


@dataclass(frozen=True)
class PoolPlan:
    """Machines of one kind, as they were asked for. Each of the `machines` has `gpus` cards of `profile` (`cpu`: none), `cpus` and
    `memory_gb`; 0: no claim. The pools' machines follow each other in the order of the ranks.
    """

    name: str
    profile: str
    machines: int
    gpus: int
    cpus: float = 0
    memory_gb: float = 0


@dataclass(frozen=True)
class CardFigures:
    """What one card was measured to do; the names are `tuneplane_node.engine.sampling.samples`'. Invented cards have no figures."""

    index: int
    simulated: bool
    figures: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class RunFigures:
    """What one attempt uses on a node."""

    job_id: str
    attempt: int
    figures: Mapping[str, float]


@dataclass(frozen=True)
class NodeFigures:
    """What a node and everything on it uses at one moment. `time`: Unix seconds of its clock. `problem`: why its cards tell nothing."""

    node: str
    time: float
    figures: Mapping[str, float]
    cards: tuple[CardFigures, ...] = ()
    runs: tuple[RunFigures, ...] = ()
    problem: str = ""


@dataclass(frozen=True)
class LaunchPlan:
    """Everything a launch needs. `read_only`/`writable`: directories the job sees, at their own paths. `files`: what the capsule
    holds, name -> SHA-256. `grace`: what a member of the job gets to end when another one has ended the job.

    For a backend with a queue of its own: `pools` (what was asked for; `machines` are only counted there), `priority` (0 is
    usual, more is earlier), `max_seconds` (the run's limit, None without one) and the names of people's things: `experiment`,
    `owner`, `project`.
    """

    job_id: str
    attempt: int
    image: str | None
    capsule: Path
    env: Mapping[str, str] = field(repr=False)  # holds the ingest token
    read_only: tuple[Path, ...]
    writable: tuple[Path, ...]
    machines: tuple[MachinePlan, ...]
    capsule_digest: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    grace: timedelta = timedelta(seconds=60)
    pools: tuple[PoolPlan, ...] = ()
    priority: int = 0
    max_seconds: int | None = None
    experiment: str = ""
    owner: str = ""
    project: str = ""


@dataclass(frozen=True)
class Handle:
    """Where an attempt is out there. `data` is the executor's own, JSON; kept in the ledger as it is.

    `runtime` (`docker`, `podman`, `process`, …) and `isolated` are for readers: what it runs in, and whether that separates it
    from its machine. They stay true when the setting changes later. Empty and None: not launched yet, so not known.
    `nodes`: the machines by rank, also of a launch that nobody saw the end of: where to look for it. As many as the attempt has
    machines, always; with a queue of its own the backend names the real ones once it runs (`Observation.nodes`).
    """

    job_id: str
    attempt: int
    data: Mapping[str, Any] = field(default_factory=dict)
    runtime: str = ""
    isolated: bool | None = None
    nodes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "job_id": self.job_id,
            "attempt": self.attempt,
            "data": dict(self.data),
            "runtime": self.runtime,
            "isolated": self.isolated,
            "nodes": list(self.nodes),
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Handle:
        return cls(
            stored["job_id"],
            stored["attempt"],
            stored["data"],
            stored.get("runtime", ""),  # handles of earlier versions know neither
            stored.get("isolated"),
            tuple(stored.get("nodes", ())),
        )


@dataclass(frozen=True)
class Queued:
    """Why an attempt waits in the backend's own queue. `reason`: the backend's word; `text`: it in plain words, a message id of the
    catalogue of translations; `position`: from 1, None when the backend does not say; `starts_at`: its estimate; `since`: when it
    came into that queue, None when not known. Times are aware.
    """

    reason: str
    text: str
    position: int | None = None
    starts_at: datetime | None = None
    since: datetime | None = None


@dataclass(frozen=True)
class Observation:
    """What is known about an attempt now.

    `present`: it is there; `running` says whether it still runs, else `exit` says how it ended. `absent`: proved not to be
    there. `unknown`: nobody could be asked. `detail`: the backend's own words, for people. `output`: the end of what
    bootstrap and runner printed themselves, read only when it has ended. `members`: of a job on several machines, those that
    have ended, each for itself. `queued`: it has not started because the backend's own queue holds it. `nodes`: the real machines
    by rank, where the backend chooses them and once it has; empty else.
    """

    presence: Literal["present", "absent", "unknown"]
    running: bool = False
    started: bool = True  # False while it is created and has not begun (an image pull, a scheduler's queue)
    exit: Exit | None = None
    started_at: datetime | None = None
    detail: str = ""
    output: str = ""
    members: tuple[MemberEnd, ...] = ()
    queued: Queued | None = None
    nodes: tuple[str, ...] = ()


class CleanupState(StrEnum):
    CONFIRMED = "confirmed"  # proved: nothing of the attempt is left
    PENDING = "pending"  # something is still there
    UNKNOWN = "unknown"  # nobody could be asked


class LaunchRefusedError(Exception):
    """The launch cannot succeed as it is: the attempt fails for `reason`, a code of the reason table."""

    def __init__(self, reason: str, data: Mapping[str, Any]) -> None:
        super().__init__(f"{reason}: {dict(data)}")
        self.reason, self.data = reason, dict(data)


class LaunchDelayedError(Exception):
    """The launch did not succeed and may later; `reason` is what the attempt fails for when it never does. `in_line`: all that it
    waits for is its turn with an executor that has a queue of its own, and that takes no more for now."""

    def __init__(self, reason: str, data: Mapping[str, Any], *, in_line: bool = False) -> None:
        super().__init__(f"{reason}: {dict(data)}")
        self.reason, self.data, self.in_line = reason, dict(data), in_line


class ExecutorUnreachableError(Exception):
    """Nobody could be asked; nothing is known to have happened, and it may have. `reason`: what a launch fails for when nobody can
    be asked until its deadline, a code of the reason table."""

    def __init__(self, text: str, reason: str = "launch-failed") -> None:
        super().__init__(text)
        self.reason = reason


class Executor(Protocol):
    name: str

    async def open(self) -> None:
        """Called once before any other; raises nothing for a backend that is away."""
        ...

    async def close(self) -> None:
        """Let go of connections; what runs goes on."""
        ...

    def capabilities(self) -> Capabilities:
        """As of the last `open` or `check`."""
        ...

    async def check(self) -> list[Finding]:
        """What stands in the way of jobs, and what to know; shown by `tuneplane-server doctor` and used by admission."""
        ...

    async def nodes(self) -> list[NodeInfo]:
        """The machines. Raises `ExecutorUnreachableError`."""
        ...

    async def sample(self, node: str) -> NodeFigures | None:
        """What a node of `nodes` uses now; rates are since the last call. None: nothing is measured here, or the node is unknown.
        Raises `ExecutorUnreachableError`."""
        ...

    async def launch(self, plan: LaunchPlan) -> Handle:
        """Create-or-get under `launch_name`. Raises `LaunchRefusedError`, `LaunchDelayedError`, `ExecutorUnreachableError`."""
        ...

    async def observe(self, handle: Handle) -> Observation:
        """Never raises for a backend that is away: that is `unknown`."""
        ...

    async def stop(self, handle: Handle, grace: timedelta) -> None:
        """SIGTERM, and after the grace SIGKILL to everything. Raises `ExecutorUnreachableError`."""
        ...

    async def cleanup(self, handle: Handle) -> CleanupState:
        """End what runs, remove what is left. Works for a planned handle (`data` empty) of a launch nobody saw the end of."""
        ...

    async def owned(self, nodes: Sequence[str] = ()) -> list[Handle]:
        """Everything of this console on these nodes, or, with none named, on all that can be asked. Raises
        `ExecutorUnreachableError` when one that is named, or nobody at all, can be asked."""
        ...


def launch_name(job_id: str, attempt: int, rank: int) -> str:
    """The name under which a machine of an attempt is created: derived, so that a second launch finds the first."""
    return f"{LAUNCH_NAME_PREFIX}-{job_id}-{attempt}-{rank}"
