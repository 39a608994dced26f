"""What a trial's run reports."""

from __future__ import annotations

from collections.abc import Mapping

from tests.tuneplane_server.harness import Harness
from tests.tuneplane_server.telemetry.build import START
from tuneplane_server.domain import series_codec
from tuneplane_server.features.telemetry.records import Batch, MetricRecord


async def report(
    harness: Harness, job_id: str, points: Mapping[int, float], *, metric: str = "train/loss", seq: int = 1
) -> None:
    """`points`: step -> value. `seq` counts a run's reports."""
    steps = list(points)
    columns = series_codec.columns(steps, [START + step for step in steps], list(points.values()))
    batch = Batch(metrics=[MetricRecord(0, seq, {metric: columns})])
    await harness.services.telemetry.store(job_id, 1, batch)
