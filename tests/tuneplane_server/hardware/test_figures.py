"""Hardware figures on both databases: measured by the sampler, kept in blocks, read as curves; nothing invented, nothing of another run."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select

from tests.tuneplane_server.harness import Api, Harness, gpu_pool, jobspec
from tuneplane_server.domain import figures as blocks
from tuneplane_server.executors.port import CardFigures, NodeFigures, NodeInfo, RunFigures
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.hardware.tables import FigureBlockRow, FigureSeriesRow, GpuHoldRow

MIB = 2.0**20
BLOCK_POINTS = 128  # so that a test writes few moments


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "BLOCK_POINTS", BLOCK_POINTS)


def node(time: float, *runs: str, use: float = 50.0, cards: int = 2) -> NodeFigures:
    return NodeFigures(
        "node",
        time,
        {"cpu": time % 100, "memory_used": 8 * MIB},
        tuple(CardFigures(index, False, {"use": use, "memory_used": 4 * MIB}) for index in range(cards)),
        tuple(RunFigures(job_id, 1, {"cpu": 1.5, "memory_used": MIB}) for job_id in runs),
    )


async def look(harness: Harness) -> None:
    """One round of the sampler."""
    loop = harness.loop("sampler")
    await loop.tick()
    await loop.idle()


async def gpu_run(harness: Harness, ada: Principal, gpus: int = 1) -> str:
    harness.scripted.invented = False
    return await harness.running_job(ada, jobspec(resources=gpu_pool(gpus)))


async def test_a_run_has_the_figures_of_its_own_cards_of_itself_and_of_its_machine(
    harness: Harness, ada: Principal
) -> None:
    job_id = await gpu_run(harness, ada)
    other = await gpu_run(harness, ada)
    for time in (100.0, 110.0, 120.0):
        harness.scripted.measured = lambda time=time: node(time, job_id, other)
        await look(harness)
    found = await harness.services.figures.of_run(job_id, max_points=100)
    (use,) = found["node/gpu0/use"]
    assert (use["time"], use["value"], use["step"]) == ([100.0, 110.0, 120.0], [50.0] * 3, [0, 10, 20])
    assert (use["attempt"], use["count"], use["replaced_from"]) == (1, 3, None)
    assert found["node/job/cpu"][0]["value"] == [1.5] * 3
    assert found["node/machine/cpu"][0]["value"] == [0.0, 10.0, 20.0]
    assert not any(name.startswith("node/gpu1/") for name in found), "that card is another run's"
    assert "node/gpu1/use" in await harness.services.figures.of_run(other, max_points=100)


async def test_a_block_is_made_and_curves_go_on_over_it(harness: Harness) -> None:
    figures = harness.services.figures
    total = BLOCK_POINTS + 70
    for number in range(total):
        await figures.record(
            NodeFigures("node", float(number), {"cpu": float(number)}, (), (RunFigures("r", 1, {"cpu": number * 2.0}),))
        )
    async with harness.services.database.session() as session:
        assert (
            await session.scalar(select(func.count()).select_from(FigureBlockRow)) == 3
        )  # the node, the run, its machine
        assert await session.scalar(select(func.count()).select_from(FigureSeriesRow)) == 3
    (whole,) = (await figures.of_run("r", max_points=10_000))["node/job/cpu"]
    assert whole["value"] == [number * 2.0 for number in range(total)]
    (thin,) = (await figures.of_run("r", max_points=10))["node/job/cpu"]
    assert len(thin["value"]) <= 10
    assert (thin["value"][0], thin["value"][-1], thin["count"]) == (0.0, (total - 1) * 2.0, total)
    named = await figures.of_run("r", max_points=10, names=["node/machine/cpu"])
    assert list(named) == ["node/machine/cpu"]


async def test_a_clock_that_was_set_back_and_a_second_console_bring_no_moment_twice(harness: Harness) -> None:
    figures = harness.services.figures
    await figures.record(node(100.0, "r"))
    await harness.replica().services.figures.record(node(100.0, "r"))
    await figures.record(node(90.0, "r"))
    await figures.record(node(110.0, "r"))
    assert (await figures.of_run("r", max_points=10))["node/job/cpu"][0]["time"] == [100.0, 110.0]


async def test_invented_cards_have_no_figures_and_say_what_they_are(api: Api, ada: Principal) -> None:
    harness = api.harness
    job_id = await harness.running_job(ada, jobspec(resources=gpu_pool(2)))
    harness.scripted.measured = lambda: NodeFigures(
        "node",
        100.0,
        {"cpu": 5.0},
        (CardFigures(0, True), CardFigures(1, True)),
        (RunFigures(job_id, 1, {"cpu": 1.0}),),
    )
    await look(harness)
    client = await api.client(ada)
    answer = (await client.get(f"/api/v1/jobs/{job_id}/hardware")).json()
    assert (sorted(answer["series"]), answer["simulated"]) == (["node/job/cpu", "node/machine/cpu"], True)
    (shown,) = (await client.get("/api/v1/hardware")).json()["nodes"]
    assert {gpu["figures"] for gpu in shown["gpus"]} == {None}
    assert shown["figures"] == {"cpu": 5.0}


async def test_the_page_reads_series_with_their_units_and_what_is_newest(api: Api, ada: Principal) -> None:
    harness = api.harness
    job_id = await gpu_run(harness, ada)
    for time in (100.0, 110.0):
        harness.scripted.measured = lambda time=time: node(time, job_id)
        await look(harness)
    client = await api.client(ada)
    answer = (await client.get(f"/api/v1/jobs/{job_id}/hardware?max_points=50")).json()
    assert answer["about"]["node/gpu0/memory_used"] == {
        "node": "node", "part": "gpu", "gpu": 0, "figure": "memory_used", "unit": "bytes",
    }  # fmt: skip
    assert (answer["about"]["node/job/cpu"]["unit"], answer["about"]["node/machine/cpu"]["unit"]) == (
        "cores",
        "percent",
    )
    assert [(item["part"], item["gpu"]) for item in answer["latest"]] == [("gpu", 0), ("job", None), ("machine", None)]
    assert answer["latest"][0]["figures"]["use"] == 50.0
    assert (answer["interval"], answer["simulated"]) == (10.0, False)
    chosen = (await client.get(f"/api/v1/jobs/{job_id}/hardware?name=node/gpu0/use&attempt=1")).json()
    assert list(chosen["series"]) == ["node/gpu0/use"]
    stranger = await api.client(await harness.user("eve"))
    assert (await stranger.get(f"/api/v1/jobs/{job_id}/hardware")).status_code == 404
    (shown,) = (await client.get("/api/v1/hardware")).json()["nodes"]
    assert (shown["gpus"][0]["figures"]["use"], shown["gpus"][0]["job_id"]) == (50.0, job_id)


async def test_idle_cards_are_told_since_when_all_of_them_are(harness: Harness, ada: Principal) -> None:
    job_id = await gpu_run(harness, ada, gpus=2)
    times = iter(range(100, 1000, 10))

    async def measure(first: float, second: float) -> Any:
        harness.time.pass_(10)
        cards = (CardFigures(0, False, {"use": first}), CardFigures(1, False, {"use": second}))
        await harness.services.figures.record(NodeFigures("node", float(next(times)), {}, cards))
        return (await harness.services.figures.idle_cards([job_id]))[job_id, 1]

    assert (await measure(90.0, 90.0)).idle_since is None
    assert (await measure(0.0, 90.0)).idle_since is None, "one of them works"
    second = await measure(0.0, 3.0)
    assert (second.measured, second.idle_since is not None) == (2, True)
    assert (await measure(1.0, 0.0)).idle_since == second.idle_since
    assert (await measure(80.0, 0.0)).idle_since is None
    harness.time.pass_(120)
    assert await harness.services.figures.idle_cards([job_id]) == {}, "what came long ago says nothing of now"


async def test_a_run_on_several_nodes_is_idle_when_its_cards_on_all_of_them_are(harness: Harness) -> None:
    job_id, now = "a" * 16, harness.time.now
    async with harness.services.database.begin() as session:
        session.add_all(
            GpuHoldRow(node=name, gpu_index=card, job_id=job_id, attempt=1, since=now)
            for name in ("gpu-1", "gpu-2")
            for card in (0, 1)
        )
    times = iter(range(100, 1000, 10))

    async def measure(**use: float) -> Any:
        """Node -> how much its cards are used; a node that is not named is not measured."""
        harness.time.pass_(10)
        for name, percent in use.items():
            cards = tuple(CardFigures(index, False, {"use": percent}) for index in range(3))
            seen = NodeFigures(name.replace("_", "-"), float(next(times)), {"cpu": 1.0}, cards)
            await harness.services.figures.record(seen)
        return (await harness.services.figures.idle_cards([job_id]))[job_id, 1]

    assert (await measure(gpu_1=0.0, gpu_2=90.0)).idle_since is None, "it works on the other node"
    idle = await measure(gpu_1=0.0, gpu_2=0.0)
    assert (idle.measured, idle.idle_since is not None) == (4, True)
    harness.time.pass_(120)
    assert (await measure(gpu_1=0.0)).measured == 2, "of a node that is silent nothing is known"
    found = await harness.services.figures.of_run(job_id, max_points=100)
    assert {name.partition("/gpu")[0] for name in found if "/gpu" in name} == {"gpu-1", "gpu-2"}
    assert not any("/gpu2/" in name for name in found), "that card is nobody's"


async def test_of_many_machines_those_that_waited_longest_are_measured_next(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tuneplane_server.background.sampler.BATCHES_AT_A_LOOK", 2)
    monkeypatch.setattr("tuneplane_server.background.batches.SPREAD", 0.0)
    monkeypatch.setattr("tuneplane_server.background.sampler.BATCH", 1)
    names = [f"gpu-{number}" for number in range(5)]
    machines = [NodeInfo(name, 8, 64, ()) for name in names]
    asked: list[str] = []

    async def nodes() -> list[NodeInfo]:
        return machines

    async def sample(name: str) -> NodeFigures | None:
        asked.append(name)
        return None

    monkeypatch.setattr(harness.scripted, "nodes", nodes)
    monkeypatch.setattr(harness.scripted, "sample", sample)
    for _look in range(5):
        harness.time.pass_(10)
        await look(harness)
    assert sorted(asked) == sorted(names * 2)


async def test_old_figures_of_machines_go_and_those_of_runs_stay_until_they_are_forgotten(harness: Harness) -> None:
    figures = harness.services.figures
    start = harness.time.now.timestamp()
    for number in range(BLOCK_POINTS + 1):
        await figures.record(node(start + number, "r", cards=0))
    harness.time.pass_(5)
    await figures.record(NodeFigures("gone", start, {"cpu": 1.0}))
    harness.time.pass_(10 * 86_400)
    await figures.record(node(harness.time.now.timestamp(), cards=0))
    while await figures.prune(timedelta(days=5)):
        continue
    async with harness.services.database.session() as session:
        left = list(await session.execute(select(FigureSeriesRow.job_id, FigureSeriesRow.node, FigureSeriesRow.part)))
        blocks = await session.scalar(select(func.count()).select_from(FigureBlockRow))
    assert sorted(map(tuple, left)) == [("", "node", "machine"), ("r", "node", "job"), ("r", "node", "machine")]
    assert blocks == 2
    await figures.forget("r")
    assert await figures.of_run("r", max_points=10) == {}


async def test_a_machine_that_cannot_be_asked_rests_and_nothing_is_written(harness: Harness) -> None:
    await harness.services.hardware.nodes()  # known from before
    harness.scripted.reachable = False
    await look(harness)
    assert await harness.services.figures.latest() == {}
    assert harness.loop("sampler").failures == 0
    harness.scripted.reachable = True
    harness.scripted.measured = lambda: node(100.0)
    harness.time.pass_(10)
    await look(harness)
    assert (await harness.services.figures.latest())["node"]["gpu1"].figures["use"] == 50.0


@pytest.mark.parametrize("query", ["max_points=1", "attempt=0", "max_points=99999999"])
async def test_odd_questions_are_refused(site: Api, query: str) -> None:
    client = await site.client(await site.harness.user())
    assert (await client.get(f"/api/v1/jobs/{'0' * 16}/hardware?{query}")).status_code == 422


async def test_figures_of_a_run_go_with_its_metrics(harness: Harness, ada: Principal) -> None:
    from tests.tuneplane_server.retention.test_retention import DAY, ended_run, retain
    from tuneplane_server.features.retention.views import RetentionValue

    job_id = await ended_run(harness, ada)
    await harness.services.figures.record(node(harness.time.now.timestamp(), job_id))
    await harness.services.retention.set(ada, "ada", "lab", RetentionValue(metrics_days=1), 0)
    await retain(harness)
    assert await harness.services.figures.of_run(job_id, max_points=10) != {}
    harness.time.pass_(2 * DAY)
    await retain(harness)
    assert await harness.services.figures.of_run(job_id, max_points=10) == {}
