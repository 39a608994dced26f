"""What a batch script is made from, and what comes out. Pure values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tuneplane_node.engine import Mount

type Profile = Literal["apptainer", "enroot-pyxis", "oci"]


@dataclass(frozen=True)
class Part:
    """One component of the allocation: so many machines with so many GPUs each. Machine ranks count through the parts in order."""

    machines: int
    gpus: int


@dataclass(frozen=True, kw_only=True)
class ScriptRequest:
    """One attempt. All paths are absolute and the same on every machine of the cluster.

    `image`: a `.sif`, a `.sqsh` or the directory of an OCI bundle, by profile. `read_only`/`writable`: what the job sees at its own
    path; `extra_mounts`: the administrator's (TUNEPLANE_CONTAINER_MOUNTS). `environment_names`: names of the variables in the job's
    own environment that reach the runner; no value is in the script. `grace`: seconds a machine has to end when another one has
    ended the job. `bundle`: `config.json` of the registered bundle, for the profile `oci` (`bundles.read_bundle`).
    """

    job_id: str
    attempt: int
    profile: Profile
    image: str
    capsule: Path
    slurm_dir: Path
    storage_root: Path
    parts: tuple[Part, ...]
    environment_names: tuple[str, ...]
    read_only: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    extra_mounts: tuple[Mount, ...] = ()
    grace: float = 60.0
    bundle: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def machines(self) -> int:
        return sum(part.machines for part in self.parts)


@dataclass(frozen=True)
class Script:
    """`text` is submitted. `files`: path relative to the `slurm/` directory -> content, there before the submit."""

    text: str
    files: Mapping[str, str] = field(default_factory=dict)


class ScriptError(ValueError):
    """The profile cannot express what was asked; the message says what and why, in English."""
