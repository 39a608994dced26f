"""Projects that do not keep everything: what goes, what stays, what is said, on SQLite and Postgres."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import event as sqlalchemy_event
from sqlalchemy import func, select

from tests.tuneplane_server.telemetry.build import log, metric, sample
from tuneplane_server.domain.classify import Exit
from tuneplane_server.executors.port import NodeFigures, RunFigures
from tuneplane_server.features.telemetry.records import Batch
from tuneplane_server.features.telemetry.repo import removal as steps
from tuneplane_server.features.telemetry.tables import (
    LogChunkRow,
    MetricBlockRow,
    MetricChunkRow,
    MetricSeriesRow,
    SampleRow,
)

PATH = "/api/v1/projects/ada/lab/retention"
DAY = 86400
TABLES: dict[str, Any] = {"logs": LogChunkRow, "metrics": MetricChunkRow, "samples": SampleRow}


@pytest.fixture
def client(api, ada):
    return Client(api, ada)


class Client:
    """Signed in anew for each call: a token would not outlive the days that pass in these tests."""

    def __init__(self, api, principal):
        self._api, self._principal = api, principal

    async def get(self, path):
        async with await self._api.client(self._principal) as one:
            return await one.get(path)

    async def put(self, path, json):
        async with await self._api.client(self._principal) as one:
            return await one.put(path, json=json)


async def report(harness, job_id, batches=3):
    for seq in range(1, batches + 1):
        batch = Batch(
            [log(seq, f"line {seq}\n")], [metric(seq, {"train/loss": [1.0], "train/kl": [2.0]})], [sample(seq, "text")]
        )
        await harness.services.telemetry.store(job_id, 1, batch)


async def ended_run(harness, ada, batches=3):
    """A run that reported something and has succeeded."""
    job_id = await harness.running_job(ada)
    await report(harness, job_id, batches)
    await harness.write_outcome(job_id)
    harness.scripted.containers[job_id, 1].exit = Exit(False, 0)
    await harness.round(3)
    assert (await harness.job(job_id)).phase == "succeeded"
    return job_id


async def keep(client, **value):
    version = (await client.get(PATH)).json()["version"]
    answer = await client.put(PATH, json={"value": value, "version": version})
    assert answer.status_code == 200, answer.text
    return answer.json()


async def retain(harness):
    await harness.loop("retainer").tick()
    await harness.loop("retainer").idle()


async def rows(harness, job_id):
    """Kind -> rows that are stored of it."""
    async with harness.services.database.session() as session:
        counts = {}
        series = select(MetricSeriesRow.id).where(MetricSeriesRow.job_id == job_id)
        for kind, table in TABLES.items():
            which = table.series_id.in_(series) if kind == "metrics" else table.job_id == job_id
            counts[kind] = await session.scalar(select(func.count()).select_from(table).where(which))
    return counts


async def test_a_project_keeps_everything_until_it_says_otherwise(harness, ada, client):
    job_id = await ended_run(harness, ada)
    before = (await client.get(PATH)).json()
    assert before["value"] == {"logs_days": None, "metrics_days": None, "samples_days": None, "total_gb": None}
    assert before["version"] == 0
    assert before["used_gb"] > 0
    harness.time.pass_(3650 * DAY)
    await retain(harness)
    assert await rows(harness, job_id) == {"logs": 3, "metrics": 6, "samples": 3}


async def test_each_kind_goes_when_its_time_is_over_and_the_run_says_so(harness, ada, client):
    old, live = await ended_run(harness, ada), await harness.running_job(ada)
    await report(harness, live)
    await keep(client, logs_days=7, samples_days=30)
    harness.time.pass_(6 * DAY)
    await retain(harness)
    assert await rows(harness, old) == {"logs": 3, "metrics": 6, "samples": 3}
    harness.time.pass_(2 * DAY)
    await retain(harness)
    assert await rows(harness, old) == {"logs": 0, "metrics": 6, "samples": 3}
    assert await rows(harness, live) == {"logs": 3, "metrics": 6, "samples": 3}

    event = (await harness.events(old))[-1]
    assert (event.kind, event.data) == ("telemetry-removed", {"kind": "logs", "why": "age", "bytes": 21})
    assert (await harness.job(old)).phase == "succeeded"
    page = (await client.get(f"/api/v1/jobs/{old}/logs")).json()
    assert (page["items"], page["end"], page["more"]) == ([], True, False)
    assert page["removed_at"] is not None
    assert (await client.get(f"/api/v1/jobs/{old}/metrics")).json()["removed_at"] is None
    samples = (await client.get(f"/api/v1/jobs/{old}/samples")).json()
    assert (len(samples["items"]), samples["removed_at"]) == (3, None)
    other = (await client.get(f"/api/v1/jobs/{live}/logs")).json()
    assert (len(other["items"]), other["removed_at"]) == (3, None)

    await retain(harness)
    assert (await harness.kinds(old)).count("telemetry-removed") == 1
    harness.time.pass_(30 * DAY)
    await retain(harness)
    assert await rows(harness, old) == {"logs": 0, "metrics": 6, "samples": 0}
    assert (await client.get(f"/api/v1/jobs/{old}/samples")).json()["removed_at"] is not None


async def test_metrics_go_with_their_blocks_and_series_a_few_rows_at_a_time(harness, ada, client, monkeypatch):
    monkeypatch.setattr(steps, "ROWS", 4)
    monkeypatch.setattr(steps, "SERIES_AT_ONCE", 1)
    job_id = await ended_run(harness, ada, batches=11)
    long = Batch([], [metric(seq, {"train/long": [0.5] * 4096}) for seq in range(12, 18)])
    await harness.services.telemetry.store(job_id, 1, long)
    while await harness.services.telemetry.merge_due():
        pass
    await keep(client, metrics_days=1)
    harness.time.pass_(2 * DAY)
    deleted: list[int] = []

    def note(_connection, cursor, statement, *_rest):
        if statement.lower().startswith("delete from metric_"):
            deleted.append(cursor.rowcount)

    engine = harness.services.telemetry._transactions.engine
    sqlalchemy_event.listen(engine, "after_cursor_execute", note)
    await retain(harness)
    sqlalchemy_event.remove(engine, "after_cursor_execute", note)
    assert max(deleted) <= 4
    assert await rows(harness, job_id) == {"logs": 11, "metrics": 0, "samples": 11}
    async with harness.services.database.session() as session:
        for table in (MetricSeriesRow, MetricBlockRow, MetricChunkRow):
            assert await session.scalar(select(func.count()).select_from(table)) == 0
    answer = (await client.get(f"/api/v1/jobs/{job_id}/metrics")).json()
    assert answer["metrics"] == {}
    assert answer["removed_at"] is not None


async def test_a_project_that_keeps_too_much_gives_up_the_oldest_first(harness, ada, client):
    first, second = await ended_run(harness, ada), await ended_run(harness, ada)
    used = (await client.get(PATH)).json()["used_gb"]
    await keep(client, total_gb=used * 0.6)
    await retain(harness)
    assert await rows(harness, first) == {"logs": 0, "metrics": 6, "samples": 0}
    assert (await rows(harness, second))["metrics"] == 6
    assert (await client.get(PATH)).json()["used_gb"] <= used * 0.6
    whys = {event.data["why"] for event in await harness.events(first) if event.kind == "telemetry-removed"}
    assert whys == {"size"}


async def test_a_removal_that_a_crash_interrupted_goes_on(harness, ada, client, monkeypatch):
    job_id = await ended_run(harness, ada, batches=9)
    await keep(client, logs_days=1)
    harness.time.pass_(2 * DAY)
    monkeypatch.setattr(steps, "ROWS", 2)
    removal = harness.services.telemetry.removal
    some, calls = removal.some, []

    async def dies(job, kind):
        calls.append(kind)
        if len(calls) == 3:
            raise OSError("the process is gone")
        return await some(job, kind)

    monkeypatch.setattr(removal, "some", dies)
    await retain(harness)
    assert (await rows(harness, job_id))["logs"] == 5
    # Readers are told from the first row on, and see no half of it.
    page = (await client.get(f"/api/v1/jobs/{job_id}/logs")).json()
    assert (page["items"], page["removed_at"] is not None) == ([], True)
    assert "telemetry-removed" not in await harness.kinds(job_id)
    monkeypatch.setattr(removal, "some", some)
    harness.time.pass_(3600)
    await retain(harness)
    assert (await rows(harness, job_id))["logs"] == 0
    assert (await harness.kinds(job_id)).count("telemetry-removed") == 1


async def test_a_setting_that_is_taken_back_removes_nothing_more(harness, ada, client, monkeypatch):
    await ended_run(harness, ada)
    await ended_run(harness, ada)
    await keep(client, logs_days=1, samples_days=1)
    harness.time.pass_(2 * DAY)
    retention, begun = harness.services.retention, []
    remove = retention.remove

    async def taken_back_meanwhile(removal):
        begun.append(removal)
        await keep(client)
        await remove(removal)

    monkeypatch.setattr(retention, "remove", taken_back_meanwhile)
    await retain(harness)
    assert len(begun) == 1, "what had begun is finished, and nothing else is begun"
    left = await rows(harness, begun[0].job_id)
    assert left[begun[0].kind] == 0
    assert all(count for kind, count in left.items() if kind != begun[0].kind)


async def test_figures_of_a_run_that_reported_no_metric_go_with_its_metrics_time(harness, ada, client):
    job_id = await ended_run(harness, ada, batches=0)
    figures = harness.services.figures
    await figures.record(NodeFigures("node", 100.0, {"cpu": 1.0}, (), (RunFigures(job_id, 1, {"cpu": 1.0}),)))
    assert await figures.held([job_id]) == {job_id}
    await keep(client, metrics_days=1)
    harness.time.pass_(2 * DAY)
    await retain(harness)
    assert await figures.held([job_id]) == set()
    await retain(harness)
    assert (await harness.kinds(job_id)).count("telemetry-removed") == 1


async def test_the_setting_is_its_owners_and_tells_of_concurrent_edits(harness, ada, api, client):
    await ended_run(harness, ada)
    body = {"value": {"logs_days": 30}, "version": 0}
    assert (await client.put(PATH, json=body)).json()["version"] == 1
    refused = await client.put(PATH, json=body)
    assert (refused.status_code, refused.json()["code"]) == (409, "conflict")
    for value in ({"logs_days": 0}, {"logs_days": 1.5}, {"total_gb": 0}, {"total_gb": "1"}, {"days": 3}):
        wrong = await client.put(PATH, json={"value": value, "version": 1})
        assert wrong.status_code == 422, value
    async with await api.client(await harness.user("eve")) as other:
        assert (await other.get(PATH)).status_code == 404
        assert (await other.put(PATH, json=body)).status_code == 404
    async with await api.client(ada, ("read",)) as reader:
        assert (await reader.get(PATH)).status_code == 200
        assert (await reader.put(PATH, json=body)).status_code == 403
