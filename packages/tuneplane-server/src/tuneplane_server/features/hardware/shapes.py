"""Shapes of the hardware answers, for the description of the API."""

from __future__ import annotations

from datetime import datetime
from typing import Literal

from pydantic import BaseModel

from tuneplane_server.features.telemetry.shapes import CurvePart


class About(BaseModel):
    """What a series of figures is of. `gpu`: index on its node; None for what is no card."""

    node: str
    part: Literal["machine", "job", "gpu"]
    gpu: int | None
    figure: str
    unit: Literal["percent", "bytes", "bytes/s", "celsius", "watt", "cores", "count"]


class Latest(BaseModel):
    """The newest figures of a part; `seen_at` says how old they are."""

    node: str
    part: Literal["machine", "job", "gpu"]
    gpu: int | None
    figures: dict[str, float]
    seen_at: datetime


class JobHardware(BaseModel):
    """`interval`: seconds between two moments, as set now. `simulated`: some of the run's cards are invented and measure nothing.
    `latest`: of the newest attempt."""

    series: dict[str, list[CurvePart]]
    about: dict[str, About]
    latest: list[Latest]
    interval: float
    simulated: bool
