"""The job capsule: `capsule.json`, `bootstrap.sh` and `runner.pex`, written beside each other before the launch.

Content-addressed: the same job, attempt and server give the same bytes; `bootstrap.sh` holds the digests of the other two.
It holds no secret: the values of the experiment's `env` may be some, so they travel in the environment only. Written into a draft directory and renamed, so that a capsule is whole or not there.
"""

from __future__ import annotations

import functools
import os
import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tuneplane.contract.capsule import (
    Capsule,
    CapsuleDigests,
    CapsuleIngest,
    CapsuleJob,
    CapsulePaths,
    CapsulePool,
    CapsuleRecipe,
    CapsuleTopology,
)
from tuneplane.contract.digests import canonical_json, digest_bytes
from tuneplane.contract.export import CapsuleExport
from tuneplane.contract.jobspec import JobSpec
from tuneplane.contract.recipe import AdapterOptions, Artifacts, Entrypoint, Metrics, Validation
from tuneplane.contract.words import BOOTSTRAP_FILE, CAPSULE_FILE, RUNNER_FILE
from tuneplane_server.features.jobs.references import ResolvedReferences
from tuneplane_server.storage.layout import StorageRoot


@dataclass(frozen=True)
class CapsuleInput:
    """What a capsule is made of. `ingest_address`: the console as jobs reach it; `resume_from`: absolute path."""

    job_id: str
    owner: str
    attempt: int
    spec: JobSpec
    manifest: dict[str, Any]
    references: ResolvedReferences
    ingest_address: str
    resume_from: str | None


@functools.cache
def runner_bytes() -> bytes:
    """The runner of this server, built once for each process."""
    from tuneplane.runner.archive import build_runner

    return build_runner()


def ingest_url(address: str, job_id: str) -> str:
    return f"{address}/ingest/v1/jobs/{job_id}"


def build_capsule(given: CapsuleInput, storage: StorageRoot) -> Capsule:
    """The capsule as a model. Raises nothing for admitted jobs."""
    spec, manifest, references = given.spec, given.manifest, given.references
    paths = storage.attempt(given.owner, spec.metadata.project, given.job_id, given.attempt)
    package = spec.provenance.package_digest
    return Capsule(
        job=CapsuleJob(id=given.job_id, owner=given.owner, attempt=given.attempt),
        jobspec=_without_env(spec),
        recipe=CapsuleRecipe(
            entrypoint=Entrypoint.model_validate(manifest["entrypoint"]),
            adapter_options=AdapterOptions.model_validate(manifest["adapter_options"]),
            metrics=Metrics.model_validate(manifest["metrics"]),
            validation=Validation.model_validate(manifest["validation"]),
            artifacts=Artifacts.model_validate(manifest["artifacts"]),
            param_paths={name: param["path"] for name, param in manifest["params"].items()},
        ),
        action=_action(given),
        topology=_topology(spec, manifest),
        paths=CapsulePaths(
            storage_root=str(storage.root),
            out_dir=str(paths.out),
            spool_dir=str(paths.spool),
            package=str(storage.package(package)),
            data_cache=str(storage.data_cache),
            hub_cache=str(storage.hub_cache),
            volumes_dir=str(storage.volumes),
            train_data=references.train,
            validation_data=references.validation,
            base_model=references.base,
            init_model=references.init,
            resume_from=given.resume_from,
        ),
        ingest=CapsuleIngest(url=ingest_url(given.ingest_address, given.job_id)),
        digests=CapsuleDigests(package=package, runner=digest_bytes(runner_bytes())),
    )


def write_capsule(capsule: Capsule, directory: Path, *, private: bool) -> dict[str, str]:
    """Write the three files to `directory`; returns their digests by name. What is there already is left as it is when equal.

    `private`: for the console's own user only. Else any user may read them, because the user of an image is not ours to choose.
    """
    from tuneplane.runner.bootstrap import render_bootstrap

    content = canonical_json(capsule.to_json())
    digest = digest_bytes(content)
    files = {
        CAPSULE_FILE: content,
        BOOTSTRAP_FILE: render_bootstrap(digest, capsule.digests.runner).encode(),
        RUNNER_FILE: runner_bytes(),
    }
    digests = {name: digest_bytes(data) for name, data in files.items() if name != RUNNER_FILE}
    digests[RUNNER_FILE] = capsule.digests.runner
    if _holds(directory, files):
        return digests
    directory.parent.mkdir(parents=True, exist_ok=True)
    draft = directory.with_name(f".{directory.name}.{secrets.token_hex(6)}")
    try:
        draft.mkdir(mode=0o700)
        draft.chmod(0o700 if private else 0o755)  # whatever the console's umask is
        for name, data in files.items():
            _write(draft / name, data, 0o600 if private else 0o644)
        _replace_directory(draft, directory)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return digests


def _without_env(spec: JobSpec) -> JobSpec:
    return spec.model_copy(update={"spec": spec.spec.model_copy(update={"env": {}})})


def _action(given: CapsuleInput) -> CapsuleExport | None:
    """What the job does instead of training; its source was found, or the job was not let in."""
    asked, source = given.spec.spec.action, given.references.export
    if asked is None:
        return None
    assert source is not None
    found = {"source": str(source.path), "run": source.run, "step": source.step, "weights": source.layout.weights}
    form = {"layout": source.layout.layout, "adapter": source.layout.adapter}
    wanted = {"name": asked.name, "merge_lora": asked.merge_lora, "dtype": asked.dtype}
    return CapsuleExport.model_validate({**found, **form, **wanted})


def _topology(spec: JobSpec, manifest: dict[str, Any]) -> CapsuleTopology:
    resources = spec.spec.resources
    hosted: dict[str, list[str]] = {pool.name: [] for pool in resources.pools}
    for role, pool_name in sorted(resources.roles.items()):
        hosted[pool_name].append(role)
    if len(resources.pools) == 1 and not resources.roles:  # one pool hosts all roles
        hosted[resources.pools[0].name] = list(manifest["roles"])
    pools = [
        CapsulePool(name=pool.name, nodes=pool.nodes, gpus_per_node=pool.gpus_per_node, roles=hosted[pool.name])
        for pool in resources.pools
    ]
    return CapsuleTopology(pools=pools, machine_count=sum(pool.nodes for pool in resources.pools))


def _holds(directory: Path, files: dict[str, bytes]) -> bool:
    try:
        return all((directory / name).read_bytes() == data for name, data in files.items())
    except OSError:
        return False


def _write(path: Path, data: bytes, mode: int) -> None:
    """The launch follows at once, so it must be on disk."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    with os.fdopen(descriptor, "wb") as file:
        os.fchmod(descriptor, mode)  # whatever the console's umask is
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _replace_directory(draft: Path, directory: Path) -> None:
    """A directory cannot replace another that is not empty: the old one steps aside first."""
    old = directory.with_name(f".{directory.name}.old.{secrets.token_hex(6)}")
    if directory.exists():
        directory.rename(old)
    draft.rename(directory)
    shutil.rmtree(old, ignore_errors=True)
