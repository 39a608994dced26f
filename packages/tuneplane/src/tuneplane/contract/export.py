"""An export: what a JobSpec asks for (`spec.action`), what a recipe can do (`lifecycle.export`), what the capsule says of the checkpoint."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, field_validator

from tuneplane.contract import names
from tuneplane.contract.base import Model, RunId, Segment
from tuneplane.i18n import _

type Dtype = Literal["float32", "bfloat16", "float16"]
# As `runner/export_layouts.py` finds them.
type Layout = Literal["hf", "hf-adapter", "verl-fsdp", "deepspeed", "nemo-rl-dcp"]


class ExportAction(Model):
    """The job turns a checkpoint into a Hugging Face directory, `<out>/exports/<name>`, instead of training.

    `source`: `run/<id>/checkpoint@step=N,attempt=M`, or another kind for a directory of that name in the run's out dir.
    `dtype` None: as the weights are.
    """

    kind: Literal["export"] = "export"
    source: str = Field(max_length=200)
    name: Segment
    merge_lora: bool = False
    dtype: Dtype | None = None

    @field_validator("source")
    @classmethod
    def _source(cls, value: str) -> str:
        if names.parse_run_ref(value) is None:
            raise ValueError(_("must be run/<id>/<kind>"))
        return value


class ExportStep(Model):
    """`{export: …}` of `spec.lifecycle.on_success`: an export of the newest checkpoint once the run has succeeded."""

    merge_lora: bool = False
    dtype: Dtype | None = None
    name: Segment | None = None
    profile: str | None = Field(default=None, min_length=1, max_length=100)
    cpus: int | None = Field(default=None, ge=1, le=4096)
    memory_gb: float | None = Field(default=None, gt=0, le=65536)


class ExportLifecycle(Model):
    """`layouts`: the checkpoints that the recipe's runtime can turn into Hugging Face's layout."""

    layouts: list[Layout] = Field(min_length=1)
    merge_lora: bool = True


class ExportResources(Model):
    """What an export needs of one machine when nobody asks for more; memory also grows with the checkpoint."""

    cpus: int = Field(default=4, ge=1, le=4096)
    memory_gb: float = Field(default=8.0, gt=0, le=65536)


class CapsuleExport(Model):
    """`source`: the checkpoint, absolute. `weights`: its directory that holds the weights, below it, empty for itself."""

    kind: Literal["export"] = "export"
    source: str
    weights: str = ""
    layout: Layout
    adapter: bool
    run: RunId
    step: int | None = None
    name: Segment
    merge_lora: bool = False
    dtype: Dtype | None = None
