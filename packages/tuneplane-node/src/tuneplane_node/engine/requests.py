"""What goes into the engine and what it answers: plain frozen values, no I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from tuneplane.contract.names import is_env_name
from tuneplane_node.engine.problems import NodeError

# Labels by which a container is found again. `instance` keeps two consoles on one machine apart.
LABEL_JOB = "tuneplane.job"
LABEL_ATTEMPT = "tuneplane.attempt"
LABEL_INSTANCE = "tuneplane.instance"
IDENTITY_LABELS = (LABEL_JOB, LABEL_ATTEMPT, LABEL_INSTANCE)

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{1,62}\Z", re.ASCII)

State = Literal["created", "running", "exited", "absent", "unknown"]


@dataclass(frozen=True)
class Mount:
    """A directory or file of this machine (`source`) at `target` inside the container; both absolute."""

    source: str
    target: str
    read_only: bool = False


def parse_mounts(text: str) -> tuple[Mount, ...]:
    """`/a:/b:ro,/data:/data`: absolute paths, read-write unless `ro`. Empty text gives none."""
    mounts = []
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        fields = part.split(":")
        paths, mode = fields[:2], fields[2:] or ["rw"]
        if len(paths) != 2 or mode not in (["ro"], ["rw"]) or not all(map(_is_plain_absolute, paths)):
            form = "/host/path:/container/path[:ro],…"
            raise NodeError("setting-invalid", setting="TUNEPLANE_CONTAINER_MOUNTS", value=part[:200], form=form)
        mounts.append(Mount(paths[0], paths[1], read_only=mode == ["ro"]))
    return tuple(mounts)


@dataclass(frozen=True, kw_only=True)
class LaunchRequest:
    """One container to start. Checked when made: a wrong field raises NodeError `request-invalid`.

    `name`: unique per job, attempt and machine; 2 to 63 of `[a-z0-9-]`. `labels` hold at least
    `tuneplane.job` and `tuneplane.attempt`. `image`: an OCI reference, or in process mode the path of a Python
    environment, or None. `gpus`: indexes of the inventory. `cpus`: cores. `workdir`: an existing absolute path inside.
    """

    name: str
    labels: Mapping[str, str]
    command: Sequence[str]
    image: str | None = None
    env: Mapping[str, str] = field(default_factory=dict, repr=False)  # holds tokens
    mounts: Sequence[Mount] = ()
    gpus: tuple[int, ...] = ()
    cpus: float | None = None
    memory_bytes: int | None = None
    workdir: str | None = None

    def __post_init__(self) -> None:
        for problem in _problems_of(self):
            raise NodeError("request-invalid", field=problem[0], value=problem[1])


@dataclass(frozen=True)
class RuntimeHandle:
    """Where a launched container is: the runtime that has it and its name there. `str()` and `parse` are inverse."""

    runtime: str
    name: str

    def __str__(self) -> str:
        return f"{self.runtime}/{self.name}"

    @classmethod
    def parse(cls, text: str) -> RuntimeHandle:
        runtime, slash, name = text.partition("/")
        if not slash or _NAME.match(runtime) is None or _NAME.match(name) is None:
            raise NodeError("request-invalid", field="handle", value=text[:80])
        return cls(runtime, name)


@dataclass(frozen=True)
class Observed:
    """What is known about a container now.

    `absent` is a proof that it is not there; `unknown` says that nobody could be asked. `exit_code` follows the shell
    (128 + signal when killed) and is None when it ended and nobody saw how. `oom_killed` is None when the runtime
    cannot tell. `detail` is the runtime's own wording, for people.
    """

    state: State
    exit_code: int | None = None
    signal: int | None = None
    oom_killed: bool | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    detail: str = ""


@dataclass(frozen=True)
class OwnedContainer:
    """A container of this console's `instance` that exists, whatever its state."""

    handle: RuntimeHandle
    labels: Mapping[str, str]

    @property
    def name(self) -> str:
        return self.handle.name


def is_launch_name(name: str) -> bool:
    return _NAME.match(name) is not None


def signal_of(exit_code: int | None) -> int | None:
    """The signal that a shell-style exit code stands for."""
    return exit_code - 128 if exit_code is not None and 128 < exit_code <= 128 + 64 else None


def same_identity(ours: Mapping[str, str], theirs: Mapping[str, str]) -> bool:
    """Whether two label sets name the same job, attempt and console."""
    return all(ours.get(label) == theirs.get(label) for label in IDENTITY_LABELS)


def _problems_of(request: LaunchRequest) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    if _NAME.match(request.name) is None:
        found.append(("name", request.name[:80]))
    found += [(f"labels.{label}", "") for label in (LABEL_JOB, LABEL_ATTEMPT) if not request.labels.get(label)]
    if not request.command or any("\0" in part for part in request.command):
        found.append(("command", ""))
    # Values may be secret: only the name is told.
    found += [("env", name[:80]) for name, value in request.env.items() if not is_env_name(name) or "\0" in value]
    for mount in request.mounts:
        found += [("mounts", path[:200]) for path in (mount.source, mount.target) if not _is_plain_absolute(path)]
    if len(set(request.gpus)) != len(request.gpus) or any(index < 0 for index in request.gpus):
        found.append(("gpus", str(list(request.gpus))[:80]))
    if request.cpus is not None and not 0 < request.cpus < 1_000_000:
        found.append(("cpus", str(request.cpus)))
    if request.memory_bytes is not None and request.memory_bytes <= 0:
        found.append(("memory_bytes", str(request.memory_bytes)))
    if request.workdir is not None and not _is_plain_absolute(request.workdir):
        found.append(("workdir", request.workdir[:200]))
    return found


def _is_plain_absolute(path: str) -> bool:
    return path.startswith("/") and "\0" not in path and ".." not in path.split("/")
