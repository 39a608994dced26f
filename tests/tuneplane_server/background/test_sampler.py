"""The sampler measures many machines in few transactions, and one that does not answer costs the others nothing."""

from __future__ import annotations

from collections import Counter

import pytest
from sqlalchemy import event

from tests.tuneplane_server.harness import Harness
from tuneplane_server.executors.port import CardFigures, ExecutorUnreachableError, NodeFigures, NodeInfo, RunFigures

NAMES = [f"gpu-{number:02d}" for number in range(30)]


class Site:
    """Thirty machines; those in `away` do not answer."""

    def __init__(self, harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
        self.harness, self.away, self.asked = harness, set[str](), Counter[str]()
        monkeypatch.setattr(harness.scripted, "nodes", self.nodes)
        monkeypatch.setattr(harness.scripted, "sample", self.sample)

    async def nodes(self) -> list[NodeInfo]:
        return [NodeInfo(name, 8, 64, ()) for name in NAMES]

    async def sample(self, name: str) -> NodeFigures:
        self.asked[name] += 1
        if name in self.away:
            raise ExecutorUnreachableError(name)
        time = self.harness.time.now.timestamp()
        runs = (RunFigures(f"run-{name}", 1, {"cpu": 1.0}),)
        return NodeFigures(name, time, {"cpu": 5.0}, (CardFigures(0, False, {"use": 50.0}),), runs)

    async def look(self) -> None:
        self.harness.time.pass_(10)
        loop = self.harness.loop("sampler")
        await loop.tick()
        await loop.idle()


@pytest.fixture
def site(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> Site:
    return Site(harness, monkeypatch)


async def test_thirty_machines_are_two_transactions(site: Site) -> None:
    await site.look()
    commits: list[int] = []
    event.listen(site.harness.services.database.engine.sync_engine, "commit", lambda _connection: commits.append(1))
    await site.look()
    assert len(commits) <= 4, "two batches, and what becomes of leases"
    latest = await site.harness.services.figures.latest()
    assert sorted(latest) == NAMES
    assert all(sorted(parts) == ["gpu0", "machine"] for parts in latest.values())
    (use,) = (await site.harness.services.figures.of_run("run-gpu-07", max_points=10))["gpu-07/job/cpu"]
    assert use["value"] == [1.0, 1.0]


async def test_a_machine_that_does_not_answer_rests_alone(site: Site) -> None:
    site.away = {"gpu-03"}
    for _look in range(10):
        await site.look()
    assert site.asked["gpu-02"] == 10
    assert 2 <= site.asked["gpu-03"] < 8, "longer and longer"
    latest = await site.harness.services.figures.latest()
    assert sorted(latest) == [name for name in NAMES if name != "gpu-03"]
    site.away = set()
    for _look in range(13):
        await site.look()
    assert "gpu-03" in await site.harness.services.figures.latest()


async def test_newest_figures_of_some_machines_are_read_without_the_others(site: Site) -> None:
    await site.look()
    assert sorted(await site.harness.services.figures.latest(["gpu-05", "gpu-21", "no-such"])) == ["gpu-05", "gpu-21"]


async def test_of_more_machines_than_one_look_has_time_for_the_batches_begin_one_after_the_other(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nodes() -> list[NodeInfo]:
        return [NodeInfo(f"gpu-{number:03d}", 8, 64, ()) for number in range(300)]

    monkeypatch.setattr(harness.scripted, "nodes", nodes)
    role = harness.loop("sampler").role
    after = [work.after for work in await role.due() if work.item is not None]
    assert len(after) == 10
    assert after == sorted(set(after))
    assert after[0] == 0.0
    assert after[-1] < role.interval
