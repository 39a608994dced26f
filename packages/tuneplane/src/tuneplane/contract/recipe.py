"""Recipe manifest `recipe.yaml` (surface §4) as the compiled index and the server see it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from tuneplane.contract.base import Json, MethodId, Model, Segment, Sha256
from tuneplane.contract.export import ExportLifecycle, ExportResources
from tuneplane.contract.words import RECIPE_API_VERSION


class Entrypoint(Model):
    """What the adapter starts. `experiment` = a file of the experiment (`train.py`); `experiment_override` may replace a module."""

    kind: Literal["module", "file", "experiment"]
    value: str
    experiment_override: str | None = None


class LogHint(Model):
    """Where the framework leaves metrics for the runner to follow: `jsonl` and `tensorboard` at `path` below the out dir (a
    pattern for `jsonl`), `console` in lines of the shape `format`; and `ranks`, where torchrun writes each rank's output."""

    kind: Literal["jsonl", "tensorboard", "console", "ranks"]
    path: str = Field(default="", max_length=200)
    format: Literal["", "dict", "verl", "key-value"] = ""

    @model_validator(mode="after")
    def _fits(self) -> LogHint:
        if self.path.startswith("/") or ".." in self.path.split("/") or "\0" in self.path:
            raise ValueError("path leads out of the out dir")
        if (self.kind == "console") != bool(self.format):
            raise ValueError("format belongs to console, and console needs one")
        if self.kind == "jsonl" and not self.path:
            raise ValueError("jsonl needs a path")
        return self


class AdapterOptions(Model):
    observability: Literal["platform", "external"] = "platform"
    launcher: Literal["accelerate", "torchrun", "ray", "plain"] = "plain"
    config_mode: Literal["flat", "overrides", "hydra", "flags", "none"] = "none"
    orchestrator: Literal["ray", "process-group", "none"] = "process-group"
    needs: list[Literal["model", "train_data"]] = Field(
        default_factory=list
    )  # what a job must name besides its configuration: the template alone cannot run
    log_hints: list[LogHint] = Field(default_factory=list, max_length=16)
    fixed: dict[str, Json] = Field(default_factory=dict)  # keys the platform always sets to these values
    owned: dict[str, str] = Field(
        default_factory=dict
    )  # config key -> what to use instead (flag), refused in config.yaml


class Metrics(Model):
    """`aliases`: framework's name -> canonical name; unclaimed names go to `raw/`."""

    primary: str | None = None
    objective: Literal["min", "max"] | None = None
    aliases: dict[str, str] = Field(default_factory=dict)
    semantics: dict[str, str] = Field(default_factory=dict)


class Validation(Model):
    sample_kind: Literal["completion", "preference", "conversation", "none"] = "none"
    reward_semantics: str | None = None


class Artifacts(Model):
    """Globs below the out dir."""

    checkpoints: list[str] = Field(default_factory=list)
    logs: list[str] = Field(default_factory=list)
    exports: list[str] = Field(default_factory=list)
    evaluations: list[str] = Field(default_factory=list)
    formats: list[str] = Field(default_factory=list)


class RuntimeVersion(Model):
    """`requires`: exact pins of the Python environment that plays this runtime in process mode."""

    requires: list[str] = Field(default_factory=list)
    python: str | None = None
    runtime_id: Segment
    source: Literal["OCI", "deployment_artifact"] = "OCI"
    status: Literal["supported", "deprecated", "sunset"] = "supported"
    sunset: str | None = None


class Runtime(Model):
    default_version: str
    versions: dict[str, RuntimeVersion]


class Param(Model):
    """One hyper-parameter. `path` is the dotted key in the framework's config; bounds are inclusive unless `exclusive_min`."""

    type: Literal["int", "float", "bool", "str", "enum"]
    path: str
    min: float | None = None
    max: float | None = None
    exclusive_min: float | None = None
    choices: list[str] | None = None
    required: bool = False
    default: Json = None
    nullable: bool = False
    doc: str
    group: str
    versions: list[str] | None = None


class RecipeText(Model):
    """Translation of the manifest's prose: title, summary, and per-parameter docs."""

    title: str
    summary: str
    params: dict[str, str] = Field(default_factory=dict)


class Manifest(Model):
    apiVersion: Literal["tuneplane/recipe/v1"] = RECIPE_API_VERSION  # noqa: N815 - wire name
    name: MethodId
    version: str
    # A method of the same framework whose configuration keys these are, when the schema does not know this one (an organisation's).
    keys_of: Segment | None = None
    title: str
    summary: str
    framework: Segment
    category: str
    modalities: list[str] = Field(default_factory=lambda: ["text"])
    template: str = "template"
    entrypoint: Entrypoint
    adapter_options: AdapterOptions = Field(default_factory=AdapterOptions)
    lifecycle: dict[str, Json] = Field(default_factory=dict)
    lifecycle_resources: dict[str, Json] = Field(default_factory=dict)
    roles: list[Segment] = Field(default_factory=lambda: ["train"])
    metrics: Metrics = Field(default_factory=Metrics)
    validation: Validation = Field(default_factory=Validation)
    artifacts: Artifacts = Field(default_factory=Artifacts)
    runtime: Runtime
    params: dict[str, Param] = Field(default_factory=dict)
    i18n: dict[Literal["zh-Hans"], RecipeText] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _export(self) -> Manifest:
        if "export" in self.lifecycle:
            ExportLifecycle.model_validate(self.lifecycle["export"])
        if "export" in self.lifecycle_resources:
            ExportResources.model_validate(self.lifecycle_resources["export"])
        return self


class CatalogEntry(Model):
    """One recipe of the compiled index."""

    manifest: Manifest
    manifest_digest: Sha256
    template_digest: Sha256
    digest: Sha256
