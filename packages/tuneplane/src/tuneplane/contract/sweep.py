"""A sweep as it is asked for: one JobSpec, what varies in it, how, and what counts as better."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StrictFloat, StrictInt, model_validator

from tuneplane.contract.base import Json, Model
from tuneplane.i18n import _
from tuneplane.sweeps.words import DEFAULT_FACTOR, DEFAULT_TRIALS, MAX_PARALLEL, MAX_PARAMS

Number = StrictInt | StrictFloat
MAX_VALUES = 10_000
MAX_ASKED = 1_000_000  # what is above the limit of a sweep is refused with its own words


class AxisGiven(Model):
    """`values`, or a range from `min` to `max`, both included. `log`: even in the logarithm; `integer`: whole numbers only."""

    values: list[Json] | None = Field(default=None, min_length=1, max_length=MAX_VALUES)
    min: Number | None = None
    max: Number | None = None
    log: bool = False
    integer: bool = False

    @model_validator(mode="after")
    def _one(self) -> AxisGiven:
        ends = (self.min, self.max)
        if self.values is not None and (ends != (None, None) or self.log or self.integer):
            raise ValueError(_("give values, or min and max, not both"))
        if self.values is None and None in ends:
            raise ValueError(_("needs values, or min and max"))
        return self


class Objective(Model):
    """The metric by its canonical name, and whether less or more of it is better. A trial's value is the last one reported."""

    metric: str = Field(min_length=1, max_length=200, pattern=r"^[^\x00]*$")
    goal: Literal["min", "max"]


class EarlyStopping(Model):
    """A trial goes on past `min_steps`, `min_steps * factor`, `min_steps * factor**2`, … only while it is among the best
    1/`factor` of those that have come so far (asynchronous successive halving, arXiv:1810.05934)."""

    min_steps: int = Field(strict=True, ge=1, le=2**53)
    factor: int = Field(default=DEFAULT_FACTOR, strict=True, ge=2, le=16)


class SweepSpec(Model):
    """`trials`: None for a grid, which has as many as it has variants. `max_parallel`: None lets the console choose."""

    name: str | None = Field(default=None, max_length=100, pattern=r"^[^\x00]*$")
    method: Literal["grid", "random", "bayes", "asha"]
    params: dict[Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^\x00]*$")], AxisGiven] = Field(
        min_length=1, max_length=MAX_PARAMS
    )
    trials: Annotated[int, Field(strict=True, ge=1, le=MAX_ASKED)] | None = None
    seed: int = Field(default=0, strict=True, ge=0, le=2**31 - 1)
    max_parallel: Annotated[int, Field(strict=True, ge=1, le=MAX_PARALLEL)] | None = None
    objective: Objective | None = None
    early_stopping: EarlyStopping | None = None

    def completed(self) -> dict[str, Any]:
        """As plain JSON, with the number of trials that is meant when none is given."""
        given = self.to_json()
        return given if self.method == "grid" else {"trials": DEFAULT_TRIALS, **given}
