"""Handles of the executor `slurm`, and how its jobs are called in Slurm.

`data`: `{"slurm": 1, "id": 17, "directory": "…/attempts/1/slurm", "gpus": 16}`; `id` is the leader's, `gpus` what was asked for on all
machines together. The id is only where to look first: ids are reissued, so a job is recognised by its name, and by its comment or where it
starts: sites rewrite comments.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneplane_server.executors.port import LAUNCH_NAME_PREFIX, Handle, launch_name
from tuneplane_server.executors.slurm.rest.models import SlurmJob

MARK = "slurm"
DIRECTORY = "slurm"  # beside the capsule
ELSEWHERE = (
    "it was begun by another executor; set TUNEPLANE_EXECUTOR back to that one on a console until such runs have ended"
)
_NAME = re.compile(LAUNCH_NAME_PREFIX + r"-([0-9a-z]{8,64})-([1-9][0-9]{0,8})-0", re.ASCII)

type Attempt = tuple[str, int]


@dataclass(frozen=True)
class Place:
    """Where an attempt is in Slurm. `slurm_id` None and `directory` None: not known, for want of a launch that anybody saw the end of."""

    job_id: str
    attempt: int
    slurm_id: int | None = None
    directory: Path | None = None
    gpus: int = 0

    @property
    def key(self) -> Attempt:
        return self.job_id, self.attempt


def is_foreign(handle: Handle) -> bool:
    """Whether another executor made it, or was about to, before the setting was changed."""
    if handle.data:
        return MARK not in handle.data
    return bool(handle.nodes) and not any(node.startswith(f"{MARK}/") for node in handle.nodes)


def place_of(handle: Handle) -> Place:
    data = handle.data
    if not data:
        return Place(handle.job_id, handle.attempt)
    return Place(handle.job_id, handle.attempt, int(data["id"]), Path(data["directory"]), int(data.get("gpus", 0)))


def make_handle(place: Place, nodes: tuple[str, ...], runtime: str) -> Handle:
    """`nodes`: one name for each machine, as the plan calls them. `runtime`: the container profile."""
    data: dict[str, Any] = {MARK: 1, "id": place.slurm_id, "directory": str(place.directory), "gpus": place.gpus}
    return Handle(place.job_id, place.attempt, data, runtime, True, nodes)


def name_of(job_id: str, attempt: int) -> str:
    return launch_name(job_id, attempt, 0)


def comment_of(job_id: str, attempt: int) -> str:
    return f"tuneplane {job_id} {attempt}"


def attempt_of(job: SlurmJob, root: Path) -> Attempt | None:
    """Whose job this is; None for one that is not ours. slurmdbd keeps comments only where it is told to. `root`: of the storage."""
    match = _NAME.fullmatch(job.name)
    if match is None:
        return None
    key = match[1], int(match[2])
    unsaid = job.source == "accounting" and not job.comment
    return key if unsaid or job.comment == comment_of(*key) or starts_at(job, key, root) else None


def starts_at(job: SlurmJob, key: Attempt, root: Path) -> bool:
    """Whether it starts in the attempt's directory below the storage root: anybody may name a job like ours, and another console
    may have the same Slurm user."""
    parts, wanted = Path(job.directory).parts, (key[0], "attempts", str(key[1]), DIRECTORY)
    return Path(job.directory).is_relative_to(root / "projects") and ".." not in parts and parts[-4:] == wanted


def plain_user(name: str) -> str:
    """`corp\\Trainer` and `trainer@corp` are `trainer`: machines of one cluster need not spell users alike."""
    return name.rpartition("\\")[2].partition("@")[0].casefold()
