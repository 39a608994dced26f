"""What the console says of itself to machines: /healthz, /readyz and /metrics."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.tuneplane_server.executors.scripted import ScriptedExecutor
from tests.tuneplane_server.harness import Api, Harness, gpu_pool, jobspec
from tuneplane_server.domain.findings import FINDINGS, REPLICAS_WITHOUT_REDIS
from tuneplane_server.features.accounts.principal import Principal


async def samples(api: Api) -> dict[tuple[str, ...], float]:
    """(name, label values…) -> value of everything that /metrics says."""
    async with api.anonymous() as client:
        answer = await client.get("/metrics")
    assert answer.status_code == 200
    families = text_string_to_metric_families(answer.text)
    return {(sample.name, *sample.labels.values()): sample.value for family in families for sample in family.samples}


async def test_metrics_count_jobs_cards_leases_and_room(api: Api, ada: Principal) -> None:
    harness = api.harness
    harness.services.running_roles = harness.roles
    await harness.running_job(ada, jobspec(resources=gpu_pool(3)))
    await harness.submit(ada)
    await harness.round()
    await harness.submit(ada, jobspec(resources=gpu_pool(8)))
    for loop in harness.roles.loops:
        await loop._supervised_tick()
        await loop.idle()
    seen = await samples(api)
    assert seen["tuneplane_database_up",] == 1
    assert (seen["tuneplane_jobs", "running"], seen["tuneplane_jobs", "queued"]) == (2, 1)
    assert (seen["tuneplane_gpus", "h200"], seen["tuneplane_gpus_held", "h200"]) == (8, 3)
    assert seen["tuneplane_leases", "observer"] == 2
    assert seen["tuneplane_role_last_tick_seconds", "watchdog"] > 0
    assert seen["tuneplane_role_failures_total", "observer"] == 0
    assert seen["tuneplane_storage_free_bytes",] == harness.space.free
    assert seen["tuneplane_consoles",] == 1
    assert ("tuneplane_redis_up",) not in seen


async def test_the_number_of_metrics_does_not_grow_with_runs_or_people(api: Api, ada: Principal) -> None:
    harness = api.harness
    harness.services.running_roles = harness.roles

    async def names() -> Counter[str]:
        for loop in harness.roles.loops:
            await loop._supervised_tick()
            await loop.idle()
        return Counter(name for name, *_labels in await samples(api))

    before = await names()
    await harness.put_live_jobs(ada, 40)
    grace = await harness.user("grace")
    await harness.bring_package(grace)
    await harness.put_live_jobs(grace, 5)
    assert await names() == before


async def test_a_role_that_fails_moves_its_gauges_on(api: Api, ada: Principal) -> None:
    """Scenario 8: the loop's last-tick gauge keeps moving while one row's handler raises every time."""
    harness = api.harness
    harness.services.running_roles = harness.roles
    job_id = await harness.running_job(ada)
    harness.scripted.observe_errors[job_id] = RuntimeError("boom")
    ticks = []
    for _time in range(3):
        await harness.loop("observer")._supervised_tick()
        await harness.loop("observer").idle()
        ticks.append((await samples(api))["tuneplane_role_last_tick_seconds", "observer"])
        harness.time.pass_(10)
    assert sorted(set(ticks)) == ticks
    assert (await samples(api))["tuneplane_role_failures_total", "observer"] >= 1


async def test_a_finding_is_degraded_and_no_reason_to_restart(api: Api) -> None:
    """Scenario 9: liveness stays 200, with a named state that a machine can read."""
    services = api.harness.services
    services.running_roles = api.harness.roles
    await api.harness.roles.switch_off()
    services.findings.put(REPLICAS_WITHOUT_REDIS, {"count": 2})
    async with api.anonymous() as client:
        health, ready = await client.get("/healthz"), await client.get("/readyz")
    assert (health.status_code, health.json()["status"]) == (200, "degraded")
    assert {role["status"] for role in health.json()["roles"].values()} == {"off"}
    assert health.json()["findings"][0]["code"] == REPLICAS_WITHOUT_REDIS
    assert (ready.status_code, ready.json()["status"], ready.json()["findings"][0]["code"]) == (
        200,
        "degraded",
        REPLICAS_WITHOUT_REDIS,
    )
    seen = await samples(api)
    assert seen["tuneplane_finding", REPLICAS_WITHOUT_REDIS] == 1
    assert sum(value for (name, *_labels), value in seen.items() if name == "tuneplane_finding") == 1
    assert {labels[0] for name, *labels in seen if name == "tuneplane_finding"} == set(FINDINGS)
    assert seen["tuneplane_role_on", "launcher"] == 0


async def test_without_its_database_a_console_is_alive_not_ready_and_still_measured(tmp_path: Path) -> None:
    harness = Harness("postgresql+psycopg://nobody@127.0.0.1:1/none", tmp_path, ScriptedExecutor())
    api = Api.over(harness)
    async with api.anonymous() as client:
        assert (await client.get("/healthz")).status_code == 200
        ready = await client.get("/readyz")
        assert (ready.status_code, ready.json()["status"]) == (503, "failing")
    seen = await samples(api)
    assert (seen["tuneplane_up",], seen["tuneplane_database_up",]) == (1, 0)
    await harness.close()


async def test_a_role_that_never_ticks_turns_red_too(api: Api) -> None:
    api.harness.services.running_roles = api.harness.roles
    api.harness.loop("watchdog").begin()
    async with api.anonymous() as client:
        assert (await client.get("/healthz")).status_code == 200
        api.harness.time.pass_(3600)
        answer = await client.get("/healthz")
    assert (answer.status_code, answer.json()["roles"]["watchdog"]["status"]) == (503, "stopped")
