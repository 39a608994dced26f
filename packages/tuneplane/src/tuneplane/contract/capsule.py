"""Job capsule: what the server injects beside an unmodified image (design §3.4). Holds no secret; content-addressed.

The runner reads it with the standard library only; this model is how the server writes it and how the tests prove both agree.
All paths are absolute and the same inside and outside a container (the storage root is mounted at its own path).
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from tuneplane.contract.base import Model, RunId, Segment, Sha256
from tuneplane.contract.export import CapsuleExport
from tuneplane.contract.jobspec import JobSpec
from tuneplane.contract.recipe import AdapterOptions, Artifacts, Entrypoint, Metrics, Validation
from tuneplane.contract.words import CAPSULE_API_VERSION


class CapsuleJob(Model):
    id: RunId
    owner: Segment
    attempt: int = Field(ge=1)


class CapsuleRecipe(Model):
    """The parts of the manifest that the runner needs."""

    entrypoint: Entrypoint
    adapter_options: AdapterOptions
    metrics: Metrics
    validation: Validation
    artifacts: Artifacts
    param_paths: dict[str, str] = Field(
        default_factory=dict
    )  # parameter name -> dotted config key, for spec.hyperparams


class CapsulePool(Model):
    name: Segment
    nodes: int = Field(ge=1)
    gpus_per_node: int = Field(ge=0)
    roles: list[Segment] = Field(default_factory=list)


class CapsuleTopology(Model):
    """Machine rank, main address and port are environment, not capsule: one capsule serves every machine of the job."""

    pools: list[CapsulePool]
    machine_count: int = Field(ge=1)


class CapsulePaths(Model):
    storage_root: str
    out_dir: str  # attempts/<n>/out, the only directory that outlives the job
    spool_dir: str  # attempts/<n>/spool
    package: str  # packages/<sha256>, tar.gz of the lab
    data_cache: str
    hub_cache: str
    volumes_dir: str
    train_data: str | None = None
    validation_data: str | None = None
    base_model: str | None = None  # path, or hub reference without its prefix
    init_model: str | None = None
    resume_from: str | None = None


class CapsuleIngest(Model):
    """`url` is the base (`…/ingest/v1/jobs/<job>`). The token travels only as TUNEPLANE_INGEST_TOKEN."""

    url: str
    heartbeat_seconds: float = 5.0
    drain_seconds: float = 20.0


class CapsuleDigests(Model):
    package: Sha256
    runner: Sha256


class Capsule(Model):
    apiVersion: Literal["tuneplane/capsule/v1"] = CAPSULE_API_VERSION  # noqa: N815 - wire name
    job: CapsuleJob
    jobspec: JobSpec
    recipe: CapsuleRecipe
    action: CapsuleExport | None = None  # what to do instead of training
    topology: CapsuleTopology
    paths: CapsulePaths
    ingest: CapsuleIngest
    digests: CapsuleDigests
