"""The form of `evaluations/report.json`, `tuneplane/evaluation-report/v1`: written by evalkit/benchmark, or by any script that keeps to it.

It comes out of a job, so everything in it is bounded. Keys that are not known here are left aside: a later template may add some.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from tuneplane.i18n import _

API_VERSION = "tuneplane/evaluation-report/v1"
MAX_TASKS = 5000
MAX_COUNT = 2**53

Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]


class _Form(BaseModel):
    model_config = ConfigDict(extra="ignore", strict=True, frozen=True)


class FigureForm(_Form):
    """`value`, `low`, `high` may be NaN or infinite; a standard error that is no number counts as unknown."""

    name: Name
    value: float
    filter: Annotated[str, StringConstraints(max_length=200)] = ""
    stderr: float | None = None
    higher_is_better: bool = True


class TaskForm(_Form):
    task: Name
    n: Count
    total: Count
    figures: Annotated[list[FigureForm], Field(max_length=200)]
    pack: Name | None = None
    version: Annotated[str, StringConstraints(max_length=64)] | None = None
    num_fewshot: Count | None = None
    group: bool = False
    notes: Annotated[list[Annotated[str, StringConstraints(max_length=2000)]], Field(max_length=50)] = []

    @model_validator(mode="after")
    def _sound(self) -> TaskForm:
        if self.n > self.total:
            raise ValueError(_("asks more rows than there are"))
        names = [(item.name, item.filter) for item in self.figures]
        if len(set(names)) < len(names):
            raise ValueError(_("gives a figure twice"))
        return self


class ModelForm(_Form):
    """`given`: False for the tiny model that the template makes when none is named."""

    name: Annotated[str, StringConstraints(max_length=2000)]
    revision: Annotated[str, StringConstraints(max_length=400)] | None = None
    given: bool = True
    chat_template: bool = False
    parameters: Count | None = None


class IntervalForm(_Form):
    confidence: Annotated[float, Field(gt=0, le=0.999999, allow_inf_nan=False)]


class RunForm(_Form):
    run_id: str | None = None


class ReportForm(_Form):
    api_version: Literal["tuneplane/evaluation-report/v1"] = Field(alias="apiVersion")
    runner: Annotated[str, StringConstraints(min_length=1, max_length=63)]
    model: ModelForm
    interval: IntervalForm
    tasks: Annotated[list[TaskForm], Field(max_length=MAX_TASKS)]
    settings: dict[str, Any] = {}
    versions: Annotated[
        dict[Annotated[str, StringConstraints(max_length=100)], Annotated[str, StringConstraints(max_length=100)]],
        Field(max_length=100),
    ] = {}
    run: RunForm = RunForm()
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None

    @model_validator(mode="after")
    def _each_task_once(self) -> ReportForm:
        names = [item.task for item in self.tasks]
        if len(set(names)) < len(names):
            raise ValueError(_("gives a task twice"))
        return self
