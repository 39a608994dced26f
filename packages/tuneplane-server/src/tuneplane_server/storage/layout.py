"""Where everything lies below the storage root. Every name is checked before it becomes a path.

```
projects/<owner>/<project>/jobs/<job>/attempts/<n>/{out,spool,capsule}
recipes/<tree>   packages/<sha256>   runtimes/<runtime_id>   cache/{data,hub}   volumes/<owner>/<name>   datasets/<owner>/<name>/<version>
```
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tuneplane.contract.names import is_run_id, is_segment, is_sha256


class UnsafeNameError(ValueError):
    """A name that must not become part of a path."""


@dataclass(frozen=True)
class AttemptPaths:
    """The directories of one attempt. `out` is the only one that outlives the job."""

    root: Path

    @property
    def out(self) -> Path:
        return self.root / "out"

    @property
    def spool(self) -> Path:
        return self.root / "spool"

    @property
    def capsule(self) -> Path:
        return self.root / "capsule"


@dataclass(frozen=True)
class StorageRoot:
    root: Path

    @property
    def data_cache(self) -> Path:
        return self.root / "cache" / "data"

    @property
    def hub_cache(self) -> Path:
        return self.root / "cache" / "hub"

    @property
    def volumes(self) -> Path:
        return self.root / "volumes"

    @property
    def recipes(self) -> Path:
        """What the organisation published through the API."""
        return self.root / "recipes"

    def job(self, owner: str, project: str, job_id: str) -> Path:
        if not is_run_id(job_id):
            raise UnsafeNameError(f"{job_id!r} is not a run id")
        return self.root / "projects" / _segment(owner) / _segment(project) / "jobs" / job_id

    def attempt(self, owner: str, project: str, job_id: str, number: int) -> AttemptPaths:
        if number < 1:
            raise UnsafeNameError(f"{number} is not an attempt")
        return AttemptPaths(self.job(owner, project, job_id) / "attempts" / str(number))

    def package(self, digest: str) -> Path:
        """Where nodes read a package; with an object store elsewhere it is fetched to here before a launch."""
        if not is_sha256(digest):
            raise UnsafeNameError(f"{digest!r} is not a digest")
        return self.root / "packages" / digest

    def volume(self, owner: str, name: str) -> Path:
        return self.volumes / _segment(owner) / _segment(name)

    def dataset(self, owner: str, name: str, version: str) -> Path:
        return self.root / "datasets" / _segment(owner) / _segment(name) / _segment(version)

    def prepare(self) -> None:
        """Make the top directories. Other users of the machine may pass through `projects`, where jobs of any uid write,
        and not look around in it."""
        for path in (self.root / "packages", self.recipes, self.data_cache, self.hub_cache, self.volumes):
            path.mkdir(parents=True, exist_ok=True)
        (self.root / "projects").mkdir(mode=0o711, exist_ok=True)


def _segment(name: str) -> str:
    if not is_segment(name):
        raise UnsafeNameError(f"{name!r} cannot be part of a path")
    return name
