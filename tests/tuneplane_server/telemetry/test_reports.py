"""Samples and events: paging, filters, quotas, odd text."""

from __future__ import annotations

from tests.tuneplane_server.telemetry.build import JOB, event, log, metric, sample
from tuneplane.contract.words import OUTSIDE_RANK
from tuneplane_server.features.telemetry.limits import TelemetryLimits
from tuneplane_server.features.telemetry.records import Batch
from tuneplane_server.features.telemetry.repo.samples import SampleFilter
from tuneplane_server.features.telemetry.service import TelemetryService
from tuneplane_server.wakeups import Wakeups


async def test_text_of_any_kind_comes_back(telemetry):
    odd = "NUL \0, emoji 🙂, quote \" ' \\, 你好, \u2028, \x1b[31m"
    await telemetry.store(JOB, 1, Batch(samples=[sample(1, odd)], events=[event(1, "warning", {"text": odd})]))
    assert (await telemetry.samples.page(JOB, SampleFilter())).items[0].data == {"completion": odd}
    assert (await telemetry.events(JOB, ["warning"]))[0].data == {"text": odd}


async def test_samples_beyond_the_quota_are_counted_and_the_run_goes_on(database, held_clock):
    limits = TelemetryLimits(samples=3, sample_bytes=1000)
    telemetry = TelemetryService(database, held_clock.clock(), Wakeups(), limits)
    answer = await telemetry.store(JOB, 1, Batch(samples=[sample(1, "a", "b", "x" * 2000, "c", "d", "e")]))
    assert answer.accepted == 1
    assert [item.data["completion"] for item in (await telemetry.samples.page(JOB, SampleFilter())).items] == [
        "a",
        "b",
        "c",
    ]
    assert (await telemetry.usage(JOB)).sample_dropped == 3
    await telemetry.close()


async def test_important_events_are_kept_when_others_have_used_up_the_quota(database, held_clock):
    telemetry = TelemetryService(database, held_clock.clock(), Wakeups(), TelemetryLimits(events=5))
    for seq in range(1, 20):
        await telemetry.store(JOB, 1, Batch(events=[event(seq, "warning", {"n": seq})]))
    answer = await telemetry.store(JOB, 1, Batch(events=[event(20, "outcome", {"result": "failed"})]))
    assert [one.event for one in answer.events] == ["outcome"]
    assert len(await telemetry.events(JOB, ["warning"])) == 5
    found = await telemetry.event(JOB, "outcome", attempt=1)
    assert found is not None
    assert found.data == {"result": "failed"}
    assert await telemetry.event(JOB, "outcome", attempt=2) is None
    await telemetry.close()


async def test_hyperparameters_add_up_and_the_newest_environment_counts(telemetry):
    await telemetry.store(
        JOB, 1, Batch(events=[event(1, "hyperparams", {"lr": 1, "seed": 2}), event(2, "environment", {"a": 1})])
    )
    await telemetry.store(JOB, 1, Batch(events=[event(3, "hyperparams", {"lr": 3}), event(4, "environment", {"b": 2})]))
    assert await telemetry.hyperparams(JOB) == {"lr": 3, "seed": 2}
    assert await telemetry.environment(JOB) == {"b": 2}
    assert await telemetry.hyperparams("0000000000000009") == {}
    assert await telemetry.environment("0000000000000009") == {}


async def test_what_a_script_beside_the_job_sends_is_no_sign_of_life(telemetry):
    """It goes on when the training hangs, and the watchdog would not see that."""
    rank = OUTSIDE_RANK + 1
    await telemetry.store(JOB, 1, Batch(metrics=[metric(1, {"eval/score": [1.0]}, rank=rank)]))
    await telemetry.store(JOB, 1, Batch(samples=[sample(1, "text", rank=rank)]))
    await telemetry.store(JOB, 1, Batch(events=[event(1, "warning", rank=rank)], logs=[log(1, "a", rank=rank)]))
    assert (await telemetry.life.last([JOB]))[JOB][1:] == (None, None, None, None)
    await telemetry.store(JOB, 1, Batch(metrics=[metric(1, {"train/loss": [1.0]})], samples=[sample(1, "text")]))
    last = (await telemetry.life.last([JOB]))[JOB]
    assert (last.metric is not None, last.sample is not None, last.log, last.event) == (True, True, None, None)
