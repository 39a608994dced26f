"""The objective of trials, read from the telemetry of their runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from tuneplane_server.features.telemetry.curves import CurveQuery
from tuneplane_server.features.telemetry.service import TelemetryService

WINDOW = 200  # steps that are looked through at once: so few points come whole
POINTS = 500


class Value(NamedTuple):
    """The main rank's; NaN and infinities as they are."""

    step: int
    value: float

    @property
    def finite(self) -> float | None:
        """None for what is no number: nothing can be compared with it."""
        return self.value if math.isfinite(self.value) else None


class Values:
    def __init__(self, telemetry: TelemetryService) -> None:
        self._telemetry = telemetry

    async def latest(self, job_ids: Sequence[str], metric: str | None) -> dict[str, Value]:
        """Run -> what it reported last, in the newest attempt that reported it; runs that reported none are missing."""
        if metric is None or not job_ids:
            return {}
        newest = await self._telemetry.life.newest(job_ids, [metric])
        found: dict[str, Value] = {}
        for (job_id, _attempt), metrics in sorted(newest.items(), key=lambda item: item[0][1]):
            row = metrics[metric]
            found[job_id] = Value(row.step, math.nan if row.value is None else row.value)
        return found

    async def first_from(self, job_id: str, metric: str, step: int, last: int) -> Value | None:
        """What the run reported first at `step` or later, in its first attempt that came so far. `last`: its newest step."""
        width = WINDOW
        while True:
            query = CurveQuery(names=[metric], max_points=POINTS, steps=(step, step + width))
            curves = (await self._telemetry.curves.of_runs({job_id: 0.0}, query))[job_id]
            for part in curves.get(metric, []):
                for at, value in zip(part["step"], part["value"], strict=True):
                    if at >= step:
                        return Value(at, float(value))
            if step + width >= last:
                return None
            width *= 10
