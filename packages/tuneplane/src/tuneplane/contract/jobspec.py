"""JobSpec `tuneplane/v1`: assembled by the CLI, admitted by the server, never written by hand (surface §2)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator, model_validator

from tuneplane.contract import names
from tuneplane.contract.base import Json, MethodId, Model, Segment, Sha256
from tuneplane.contract.export import ExportAction
from tuneplane.contract.words import JOB_API_VERSION, JOB_KIND, is_identity_env
from tuneplane.i18n import _


class Metadata(Model):
    name: Segment  # the experiment
    project: Segment
    display_name: str | None = Field(default=None, max_length=200)
    labels: dict[Segment, str] = Field(default_factory=dict, max_length=64)


class RecipeRef(Model):
    name: MethodId
    version: str = Field(max_length=32)
    digest: Sha256


class Framework(Model):
    kind: Segment
    version: str = Field(max_length=32)
    runtime_id: Segment | None = None
    image: str | None = Field(default=None, max_length=512)
    observability: Literal["platform", "external"] = "platform"
    observability_url: str | None = Field(default=None, max_length=2048)

    @field_validator("image")
    @classmethod
    def _image(cls, value: str | None) -> str | None:
        if value is not None and (
            not value or value.startswith("-") or any(c.isspace() or not c.isprintable() for c in value)
        ):
            raise ValueError(_("must be an image name with a tag or a digest"))
        if (
            value is not None
            and "@sha256:" not in value
            and ":" not in value.rsplit("/", 1)[-1]
            and not value.startswith("/")
        ):
            raise ValueError(_("needs a tag or a digest, for example name:1.0"))
        return value

    @field_validator("observability_url")
    @classmethod
    def _url(cls, value: str | None) -> str | None:
        if value is not None and not value.startswith(("http://", "https://")):
            raise ValueError(_("must be an http or https URL"))
        return value


class ModelRef(Model):
    """`base`, `init_from`: an absolute path, `hf:`/`ms:`/`tp:` reference or `run/<id>/<kind>[@step=N,attempt=M]`."""

    base: str | None = Field(default=None, max_length=1024)
    init_from: str | None = Field(default=None, max_length=1024)
    peft: dict[str, Json] | None = None

    @field_validator("base", "init_from")
    @classmethod
    def _reference(cls, value: str | None) -> str | None:
        if value is None or (value.startswith("/") and "\0" not in value and "/../" not in f"{value}/"):
            return value
        if names.parse_hub_ref(value) or names.parse_run_ref(value):
            return value
        raise ValueError(_("must be an absolute path, hf:/ms:/tp: reference or run/<id>/<kind>"))


class DataRef(Model):
    """Either a registered dataset `<owner>/<name>@<version>` or an absolute path the node can see."""

    dataset: str | None = Field(default=None, max_length=256)
    path: str | None = Field(default=None, max_length=1024)
    split: str | None = Field(default=None, max_length=64)

    @field_validator("dataset")
    @classmethod
    def _dataset(cls, value: str | None) -> str | None:
        if value is not None:
            ref = names.parse_owned_ref(value)
            if ref is None or ref.version is None:
                raise ValueError(_("must be <owner>/<name>@<version>"))
        return value

    @field_validator("path")
    @classmethod
    def _path(cls, value: str | None) -> str | None:
        if value is not None and (not value.startswith("/") or "\0" in value or "/../" in f"{value}/"):
            raise ValueError(_("must be an absolute path without .."))
        return value

    @model_validator(mode="after")
    def _one(self) -> DataRef:
        if (self.dataset is None) == (self.path is None):
            raise ValueError(_("give dataset or path, not both"))
        return self


class Data(Model):
    train: DataRef | None = None
    validation: DataRef | None = None
    volumes: list[str] = Field(default_factory=list, max_length=64)
    output_dataset: str | None = None
    environment: str | None = None
    taskset: str | None = None
    quality: dict[str, Json] | None = None

    @field_validator("volumes")
    @classmethod
    def _volumes(cls, value: list[str]) -> list[str]:
        for item in value:
            ref = names.parse_owned_ref(item)
            if ref is None or ref.version is not None:
                raise ValueError(_("volume “{name}” must be <owner>/<name>").format(name=item))
        return value


class Pool(Model):
    """One group of identical machines. `series` is the profile (card name); gpus 0 is a CPU pool and needs cpus and memory."""

    name: Segment = "main"
    series: Segment
    nodes: int = Field(ge=1, le=65536)
    gpus_per_node: int = Field(ge=0, le=1024)
    cpus: int | None = Field(default=None, ge=1, le=4096)
    memory_gb: float | None = Field(default=None, gt=0, le=65536)
    scratch_gb: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _cpu_pool(self) -> Pool:
        if self.gpus_per_node == 0 and (self.cpus is None or self.memory_gb is None):
            raise ValueError(_("a pool without GPUs needs cpus and memory_gb"))
        return self


class Resources(Model):
    pools: list[Pool] = Field(min_length=1, max_length=16)
    roles: dict[Segment, Segment] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _roles(self) -> Resources:
        pool_names = [pool.name for pool in self.pools]
        if len(set(pool_names)) != len(pool_names):
            raise ValueError(_("pool names must be unique"))
        unknown = sorted(set(self.roles.values()) - set(pool_names))
        if unknown:
            raise ValueError(_("roles name unknown pools: {names}").format(names=", ".join(unknown)))
        if len(self.pools) > 1:
            idle = sorted(set(pool_names) - set(self.roles.values()))
            if idle:
                raise ValueError(_("pools without a role: {names}").format(names=", ".join(idle)))
        return self


class Lifecycle(Model):
    on_success: list[dict[str, Json]] = Field(default_factory=list, max_length=16)


class Gate(Model):
    metric: str
    min: float | None = None
    max: float | None = None
    max_regression: float | None = None


class Evaluation(Model):
    suites: list[str] = Field(default_factory=list)
    gates: list[Gate] = Field(default_factory=list)
    on_checkpoint: dict[str, Json] | None = None


class Retries(Model):
    """Further attempts allowed per failure class after the first."""

    infra: int = Field(default=0, ge=0, le=20)
    platform: int = Field(default=0, ge=0, le=20)
    user: int = Field(default=0, ge=0, le=20)
    policy: int = Field(default=0, ge=0, le=20)


class Limits(Model):
    """`max_duration` and `grace` in seconds."""

    max_duration: int | None = Field(default=None, ge=1, le=366 * 86400)
    grace: int = Field(default=30, ge=0, le=3600)
    retries: Retries = Field(default_factory=Retries)


class Spec(Model):
    recipe: RecipeRef
    framework: Framework
    model: ModelRef = Field(default_factory=ModelRef)
    data: Data = Field(default_factory=Data)
    resources: Resources
    action: ExportAction | None = None  # what the job does instead of training
    config: dict[str, Json] = Field(default_factory=dict)  # resolved, framework-native, cross-framework keys removed
    hyperparams: dict[str, Json] = Field(default_factory=dict)  # `--set` values by recipe parameter name
    lifecycle: Lifecycle = Field(default_factory=Lifecycle)
    evaluation: Evaluation = Field(default_factory=Evaluation)
    limits: Limits = Field(default_factory=Limits)
    priority: int = Field(default=0, ge=-100, le=100)
    env: dict[str, str] = Field(default_factory=dict, max_length=256)
    secrets: list[str] = Field(default_factory=list, max_length=64)

    @field_validator("env")
    @classmethod
    def _env(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if not names.is_env_name(name):
                raise ValueError(_("“{name}” is not an environment variable name").format(name=name))
            if is_identity_env(name):
                raise ValueError(_("{key} belongs to the platform").format(key=name))
            if "\0" in text:
                raise ValueError(_("{key} holds a NUL").format(key=name))
        return value


class Provenance(Model):
    client_version: str = Field(max_length=64)
    git_commit: str | None = Field(default=None, pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")
    git_dirty: bool | None = None
    config_digest: Sha256  # of the resolved config
    package_digest: Sha256


class JobSpec(Model):
    apiVersion: Literal["tuneplane/v1"] = JOB_API_VERSION  # noqa: N815 - wire name
    kind: Literal["TrainingJob"] = JOB_KIND
    metadata: Metadata
    spec: Spec
    provenance: Provenance
