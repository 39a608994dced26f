"""Reading `capsule.json` (contract/capsule.py) with the standard library, and checking that it is this job's."""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any, Dict, List, Mapping, Optional

from tuneplane.contract.names import is_run_id, is_segment, is_sha256
from tuneplane.contract.words import CAPSULE_API_VERSION, CAPSULE_FILE, ENV_ATTEMPT, ENV_RUN_ID
from tuneplane.runner.failures import PACKAGE_CORRUPT, StartError, storage_error

_MAX_BYTES = 64 * 1024 * 1024


class Capsule:
    """The capsule as plain values (`data`), and the parts that the runner asks for."""

    def __init__(self, data: Dict[str, Any]) -> None:
        self.data = data
        self.job_id: str = data["job"]["id"]
        self.attempt: int = data["job"]["attempt"]
        self.spec: Dict[str, Any] = data["jobspec"]["spec"]
        self.experiment: str = data["jobspec"]["metadata"]["name"]
        self.paths: Dict[str, Optional[str]] = data["paths"]
        self.out_dir = str(data["paths"]["out_dir"])
        self.spool_dir = str(data["paths"]["spool_dir"])
        self.package = str(data["paths"]["package"])
        self.package_digest: str = data["digests"]["package"]
        self.runner_digest: str = data["digests"]["runner"]
        self.pools: List[Dict[str, Any]] = data["topology"]["pools"]
        self.machine_count: int = data["topology"]["machine_count"]
        self.ingest: Dict[str, Any] = data["ingest"]
        self.recipe: Dict[str, Any] = data["recipe"]

    @property
    def grace(self) -> float:
        """Seconds between SIGTERM and SIGKILL."""
        return float((self.spec.get("limits") or {}).get("grace", 30))

    @property
    def aliases(self) -> Dict[str, str]:
        return dict((self.recipe.get("metrics") or {}).get("aliases") or {})

    @property
    def checkpoint_globs(self) -> List[str]:
        return list((self.recipe.get("artifacts") or {}).get("checkpoints") or []) or ["checkpoints/checkpoint-*"]

    @property
    def secrets(self) -> List[str]:
        """Names of the variables whose values are nobody's to read."""
        return [str(name) for name in self.spec.get("secrets") or []]

    @property
    def observability(self) -> str:
        return str(self.spec["framework"].get("observability", "platform"))


def read_capsule(directory: str, environ: Mapping[str, str]) -> Capsule:
    """The checked capsule; raises `StartError` with what is wrong with it."""
    path = os.path.join(directory, CAPSULE_FILE)
    try:
        with open(path, "rb") as file:
            data = json.loads(file.read(_MAX_BYTES))
    except OSError as error:
        raise storage_error("the capsule cannot be read", error) from error
    except ValueError as error:
        raise StartError(PACKAGE_CORRUPT, f"{path} is not JSON: {error}") from error
    if not isinstance(data, dict) or data.get("apiVersion") != CAPSULE_API_VERSION:
        found = data.get("apiVersion") if isinstance(data, dict) else type(data).__name__
        raise StartError(PACKAGE_CORRUPT, f"{path} is {found!r}; this runner reads {CAPSULE_API_VERSION}")
    try:
        capsule = Capsule(data)
        _check(capsule, environ)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StartError(PACKAGE_CORRUPT, f"{path} is incomplete: {type(error).__name__}: {error}") from error
    return capsule


def verify_runner(capsule: Capsule, archive: Optional[str]) -> None:
    """The running archive is the one that the capsule names. `archive` is None when the runner runs from a source tree."""
    if archive is None:
        return
    digest = file_digest(archive)
    if digest != capsule.runner_digest:
        raise StartError(PACKAGE_CORRUPT, f"{archive} has digest {digest}, the capsule names {capsule.runner_digest}")


def file_digest(path: str) -> str:
    """SHA-256 in lower-case hex. Raises `OSError`."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        for block in iter(lambda: file.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def _check(capsule: Capsule, environ: Mapping[str, str]) -> None:
    if not is_run_id(capsule.job_id) or not is_segment(capsule.experiment):
        raise ValueError("job id or experiment name")
    if type(capsule.attempt) is not int or capsule.attempt < 1 or type(capsule.machine_count) is not int:
        raise ValueError("attempt or machine count")
    if not is_sha256(capsule.package_digest) or not is_sha256(capsule.runner_digest):
        raise ValueError("digests")
    for path in (capsule.out_dir, capsule.spool_dir, capsule.package):
        if not os.path.isabs(path) or "\0" in path:
            raise ValueError(f"path {path!r} is not absolute")
    given = (environ.get(ENV_RUN_ID, capsule.job_id), environ.get(ENV_ATTEMPT, str(capsule.attempt)))
    if given != (capsule.job_id, str(capsule.attempt)):
        raise StartError(
            PACKAGE_CORRUPT,
            f"the capsule is of run {capsule.job_id} attempt {capsule.attempt}, this container is of run {given[0]} attempt {given[1]}",
        )
