"""What `/metrics` says of telemetry, and that none of it grows with runs, metrics or webhooks."""

from __future__ import annotations

import asyncio

import pytest
from sqlalchemy import insert

from tests.tuneplane_server.harness import Api
from tests.tuneplane_server.web.test_health import samples
from tuneplane_server.features.telemetry.tables import MetricSeriesRow, RunTelemetryRow
from tuneplane_server.meters import LATENCY_BOUNDS, OUTCOMES, Histogram, LoopLag, Meters
from tuneplane_server.web.problems import ProblemError

BATCH = b'{"attempt":1,"rank":0,"stream":"metric","seq":1,"series":{"train/loss":{"step":[1,2],"time":[1.0,2.0],"value":[0.5,0.4]}}}\n'


async def test_batches_points_and_bytes_are_counted_by_outcome(site: Api) -> None:
    harness = site.harness
    ada = await harness.user("ada")
    await harness.bring_package(ada)
    job_id = await harness.running_job(ada)
    token = await harness.services.ingest.issue(job_id, 1)
    async with site.anonymous() as client:
        place, good = f"/ingest/v1/jobs/{job_id}/batches", {"Authorization": f"Bearer {token}"}
        first = await client.post(place, content=BATCH, headers=good)
        assert first.status_code == 200, first.text
        await client.post(place, content=BATCH, headers=good)
        await client.post(place, content=b"nonsense", headers=good)
        await client.post(place, content=BATCH, headers={"Authorization": "Bearer tpi_nobody"})
    seen = await samples(site)
    batches = {outcome: seen["tuneplane_ingest_batches_total", outcome] for outcome in OUTCOMES}
    assert batches == dict.fromkeys(OUTCOMES, 0) | {"stored": 1, "duplicate": 1, "refused": 1, "denied": 1}
    assert seen["tuneplane_ingest_points_total",] == 2
    assert seen["tuneplane_ingest_bytes_total",] == 2 * len(BATCH) + len(b"nonsense")
    assert seen["tuneplane_ingest_records_total", "duplicate"] == 1
    assert seen["tuneplane_ingest_write_seconds_count",] == 3
    assert seen["tuneplane_ingest_write_seconds_bucket", "+Inf"] == 3
    assert seen["tuneplane_queue_length", "ingest"] == seen["tuneplane_queue_length", "writes"] == 0
    assert seen["tuneplane_telemetry_dropped", "log_bytes"] == 0
    assert seen["tuneplane_webhook_deliveries", "failed"] == 0
    assert seen["tuneplane_loop_lag_seconds",] == 0


async def test_a_thousand_runs_with_metrics_of_their_own_add_no_series(site: Api) -> None:
    ada = await site.harness.user("ada")
    await site.harness.bring_package(ada)
    job_id = await site.harness.running_job(ada)
    before = set(await samples(site))
    ids = [f"{number:016d}" for number in range(1000)]
    job = await site.harness.job(job_id)
    columns = {column.key: getattr(job, column.key) for column in type(job).__table__.columns}
    zero = {column.key: 0 for column in RunTelemetryRow.__table__.columns if not column.nullable}
    series = {
        column.key: 0 for column in MetricSeriesRow.__table__.columns if not column.nullable and column.key != "id"
    }
    async with site.harness.services.database.begin() as session:
        await session.execute(insert(type(job)), [columns | {"id": run, "phase": "succeeded"} for run in ids])
        await session.execute(insert(RunTelemetryRow), [zero | {"job_id": run, "refused_points": 1} for run in ids])
        await session.execute(
            insert(MetricSeriesRow), [series | {"job_id": run, "name": f"train/own-{run}"} for run in ids]
        )
    seen = await samples(site)
    assert set(seen) == before
    assert (seen["tuneplane_jobs", "succeeded"], seen["tuneplane_telemetry_dropped", "points"]) == (1000, 1000)
    assert not any(run in label for key in seen for label in key for run in (ids[0], job_id))


@pytest.mark.parametrize(("error", "outcome"), [
    (ProblemError(429, "too-many-requests", "x"), "crowded"),
    (ProblemError(507, "storage-full", "x"), "unavailable"),
    (ProblemError(413, "too-large", "x"), "refused"),
    (ProblemError(500, "internal", "x"), "failed"),
    (RuntimeError("x"), "failed"),
])  # fmt: skip
def test_what_is_raised_decides_the_outcome(error: Exception, outcome: str) -> None:
    meters = Meters()
    with pytest.raises(type(error)), meters.batch():
        raise error
    assert meters.batches == {outcome: 1}


def test_a_histogram_counts_what_is_slower_than_all_its_bounds() -> None:
    found = Histogram()
    for seconds in (0.0, LATENCY_BOUNDS[0], 0.02, 100.0):
        found.note(seconds)
    assert (found.counts[0], found.counts[4], found.counts[-1], sum(found.counts)) == (2, 1, 1, 4)


async def test_what_holds_the_loop_up_is_seen() -> None:
    lag = LoopLag()
    assert lag.worst == 0.0
    lag.start()
    await asyncio.sleep(0)
    lag._late.append(0.25)
    assert lag.worst == 0.25
    await lag.stop()
    await lag.stop()
