"""How retention looks to the API."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

GB = 10**9
LONGEST_DAYS = 36_500

Days = Annotated[int | None, Field(strict=True, ge=1, le=LONGEST_DAYS)]


class RetentionValue(BaseModel):
    """Days that something is kept after the end of its run, and GB (10^9 bytes) of output and samples of all runs of the
    project, beyond which those of the oldest runs go. null: for ever, or any amount.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    logs_days: Days = None
    metrics_days: Days = None
    samples_days: Days = None
    total_gb: Annotated[float | None, Field(strict=True, gt=0, le=1_000_000, allow_inf_nan=False)] = None


class RetentionView(BaseModel):
    """`version` 0: nobody has ever set it. `used_gb`: output and samples that are stored now."""

    value: RetentionValue
    used_gb: float
    version: int
    updated_at: datetime | None
    updated_by: str | None
