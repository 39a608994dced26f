"""What a batch script is made from, and what comes out. Pure values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tuneplane.contract.names import is_env_name
from tuneplane_node.engine import Mount

type Profile = Literal["apptainer", "enroot-pyxis", "oci"]

_UNFIT = re.compile("[:,\0\n\r]")


class ScriptError(ValueError):
    """The profile cannot express what was asked; the message says what and why, in English."""


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
    ended the job; `linger`: seconds they may run on after the first one has ended well; `silent`: after how
    many seconds without a sign of life the first start of a job counts as gone (four times as many before its first sign). `bundle`: `config.json` of the registered bundle, for the profile `oci` (`bundles.read_bundle`).
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
    linger: float = 60.0
    silent: float = 90.0
    bundle: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def machines(self) -> int:
        return sum(part.machines for part in self.parts)

    @property
    def spool(self) -> Path:
        """Beside the capsule (storage/layout.py); a `stop` file in it ends a runner that no signal reaches (runner/claim.py)."""
        return self.capsule.parent / "spool"

    def mounts(self) -> list[Mount]:
        """All of them, once each, parents before what lies in them: else the parent would hide it. Raises `ScriptError`."""
        wanted = {str(path): Mount(str(path), str(path), read_only=True) for path in self.read_only}
        wanted |= {str(path): Mount(str(path), str(path)) for path in (*self.writable, self.spool)}
        wanted |= {mount.target: mount for mount in self.extra_mounts}
        found = sorted(wanted.values(), key=lambda mount: (mount.target.count("/"), mount.target))
        for mount in found:
            _refuse_unfit("mount", mount.source, mount.target)
        return found

    def check(self) -> None:
        """Raises `ScriptError`."""
        if not self.parts or any(part.machines < 1 or part.gpus < 0 for part in self.parts):
            raise ScriptError("a job needs at least one machine in each of its parts")
        for name in self.environment_names:
            if not is_env_name(name):
                raise ScriptError(f"{name[:80]!r} cannot be the name of an environment variable")
        _refuse_unfit("image", self.image)
        for path in (self.image, str(self.capsule), str(self.slurm_dir), str(self.storage_root)):
            if not path.startswith("/") or "\0" in path:
                raise ScriptError(f"{path[:200]!r} is no absolute path")


@dataclass(frozen=True)
class Script:
    """`text` is submitted. `files`: path relative to the `slurm/` directory -> content, there before the submit."""

    text: str
    files: Mapping[str, str] = field(default_factory=dict)


def _refuse_unfit(what: str, *paths: str) -> None:
    for path in paths:
        if _UNFIT.search(path) is not None:
            raise ScriptError(
                f"the {what} path {path[:200]!r} holds a colon, a comma or a line end, which container runtimes cannot take"
            )
