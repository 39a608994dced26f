"""The placer: what its plans become in the ledger, and what is checked once more where it is written."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from tests.tuneplane_server.harness import Harness, gpu_pool, jobspec
from tuneplane_server.domain.line import AccountKey
from tuneplane_server.domain.quotas import Account, Limits
from tuneplane_server.executors.port import Capabilities, GpuInfo, NodeInfo
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.hardware.tables import GpuUseRow
from tuneplane_server.features.queue.service import PlanOf


def cards(count: int, **spec: Any) -> dict[str, Any]:
    return jobspec(resources=gpu_pool(count), **spec)


async def end(harness: Harness, job_id: str) -> None:
    """It succeeds, and is cleared away."""
    await harness.write_outcome(job_id)
    harness.scripted.containers.pop((job_id, (await harness.job(job_id)).attempt))
    await harness.round(2)


async def phases(harness: Harness, *job_ids: str) -> list[str]:
    return [(await harness.job(job_id)).phase for job_id in job_ids]


async def uses(harness: Harness) -> dict[tuple[str, int], GpuUseRow]:
    async with harness.services.database.session() as session:
        return {(row.job_id, row.attempt): row for row in await session.scalars(select(GpuUseRow))}


async def test_every_placed_attempt_is_accounted_for_until_its_cards_are_free(harness: Harness, ada: Principal) -> None:
    job_id = await harness.running_job(ada, cards(3, limits={"max_duration": 600}))
    on_cpu = await harness.running_job(ada)
    found = await uses(harness)
    use = found[job_id, 1]
    assert (use.gpus, use.owner_id, use.ended_at) == (3, ada.user_id, None)
    assert use.reserved_until == use.started_at + timedelta(seconds=600)
    assert (found[on_cpu, 1].gpus, found[on_cpu, 1].reserved_until) == (0, None)
    harness.scripted.cleans = False
    await end(harness, job_id)
    assert (await uses(harness))[job_id, 1].ended_at is None
    harness.scripted.cleans = True
    harness.time.pass_(60)
    await harness.round()
    ended = (await uses(harness))[job_id, 1].ended_at
    assert ended is not None
    assert [profile.free_gpus for profile in await harness.services.hardware.profiles()] == [0, 8]


async def test_the_line_moves_up_as_cards_come_free(harness: Harness, ada: Principal) -> None:
    first = await harness.running_job(ada, cards(8))
    second, third = await harness.submit(ada, cards(8)), await harness.submit(ada, cards(8))
    await harness.round()
    assert await phases(harness, second, third) == ["queued", "queued"]
    await end(harness, first)
    assert await phases(harness, second, third) == ["running", "queued"]


async def test_owners_take_turns(harness: Harness, ada: Principal) -> None:
    bob = await harness.user("bob")
    await harness.bring_package(bob)
    mine = [await harness.submit(ada, cards(4)) for _number in range(4)]
    theirs = await harness.submit(bob, cards(4))
    await harness.round()
    assert await phases(harness, mine[0], theirs, *mine[1:]) == ["running", "running", "queued", "queued", "queued"]


async def test_use_of_the_last_days_decides_whose_turn_it_is(harness: Harness, ada: Principal) -> None:
    bob = await harness.user("bob")
    await harness.bring_package(bob)
    used = await harness.running_job(ada, cards(8))
    harness.time.pass_(5 * 3600)
    mine, theirs = await harness.submit(ada, cards(8)), await harness.submit(bob, cards(8))
    await end(harness, used)
    assert await phases(harness, mine, theirs) == ["queued", "running"]
    async with harness.services.database.session() as session:
        faded = await harness.services.hardware.faded_use(session)
    assert faded[ada.user_id] == pytest.approx(8 * 5 * 3600, rel=0.03)


@pytest.mark.parametrize("held", ["paused", "approval", "not_before"])
async def test_what_is_held_back_is_not_placed(harness: Harness, ada: Principal, held: str) -> None:
    job_id = await harness.submit(ada)
    value = {"paused": True, "approval": "pending", "not_before": harness.time.now + timedelta(minutes=1)}[held]
    async with harness.services.database.begin() as session:
        row = await session.get_one(type(await harness.job(job_id)), job_id)
        setattr(row, held, value)
    await harness.round()
    assert await phases(harness, job_id) == ["queued"]


async def test_a_plan_that_is_overtaken_by_a_quota_places_nothing(
    harness: Harness, ada: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The quota is looked at again inside the transaction: here it came into being after the plan."""
    job_id = await harness.submit(ada, cards(4))
    made = await harness.services.queue.plan()
    assert made.plan.waits[job_id].kind == "next"

    async def stale() -> PlanOf:
        return made

    async def limited(*_args: object) -> dict[AccountKey, Account]:
        return {("user", ada.user_id): Account("user", ada.user_id, "ada", Limits(gpus=3))}

    monkeypatch.setattr(harness.services.queue, "plan", stale)
    monkeypatch.setattr(harness.services.governance, "accounts", limited)
    await harness.round()
    assert (await phases(harness, job_id), await harness.held_gpus()) == (["queued"], [])
    assert await uses(harness) == {}
    monkeypatch.undo()
    await harness.round()
    assert await phases(harness, job_id) == ["running"]


async def test_of_two_plans_made_at_once_each_card_is_given_once(harness: Harness, ada: Principal) -> None:
    """Two placers with the same picture of the cards, as after a lease that ran out: the key of the holds decides."""
    for _number in range(6):
        await harness.submit(ada, cards(2))
    other = harness.replica()
    plans = [await one.services.queue.plan() for one in (harness, other)]
    assert plans[0].plan.placements == plans[1].plan.placements
    leases = await harness.roles._leases.claim("placer", ["queue", "again"])
    placers: list[Any] = [one.loop("placer").role for one in (harness, other)]
    await asyncio.gather(
        *(
            placer._carry_out(made, placement, lease, 0)
            for placer, made, lease in zip(placers, plans, leases, strict=True)
            for placement in made.plan.placements
        )
    )
    assert await harness.held_gpus() == list(range(8))
    assert len(await uses(harness)) == 4
    await other.close()


async def test_cpus_that_were_taken_since_the_plan_are_not_given_twice(
    harness: Harness, ada: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness.scripted.cpus = 1.5
    first, second = await harness.submit(ada), await harness.submit(ada)
    made = await harness.services.queue.plan()
    assert [item.job_id for item in made.plan.placements] == [first]
    await harness.place()
    wrong = made.plan.placements[0]

    async def stale() -> PlanOf:
        placement = type(wrong)(second, 1, wrong.assignments)
        return replace(made, plan=type(made.plan)((placement,), {}, {}), live=[])

    monkeypatch.setattr(harness.services.queue, "plan", stale)
    await harness.place()
    assert await phases(harness, first, second) == ["starting", "queued"]
    assert harness.loop("placer").failures == 0


async def test_a_paused_placer_that_wakes_up_without_its_lease_places_nothing(harness: Harness, ada: Principal) -> None:
    job_id = await harness.submit(ada, cards(1))
    made = await harness.services.queue.plan()
    (lease,) = await harness.roles._leases.claim("placer", ["queue"])
    harness.time.pass_(61)
    other = harness.replica()
    await other.roles._leases.claim("placer", ["queue"])
    placer: Any = harness.loop("placer").role
    await placer._carry_out(made, made.plan.placements[0], lease, 0)
    assert (await phases(harness, job_id), await harness.held_gpus()) == (["queued"], [])
    await other.close()


async def test_one_job_that_cannot_be_placed_delays_nobody(
    harness: Harness, ada: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scenario 8: the others go on at their pace, that one rests longer each time and shows it."""
    bad, good = await harness.submit(ada), await harness.submit(ada)
    tries = []
    hold = type(harness.services.hardware).hold

    async def fails(hardware: Any, session: Any, holder: Any, *rest: Any) -> bool:
        if holder.job_id == bad:
            tries.append(harness.time.now)
            raise RuntimeError("boom")
        return await hold(hardware, session, holder, *rest)

    monkeypatch.setattr(type(harness.services.hardware), "hold", fails)
    for _second in range(12):
        await harness.round()
        harness.time.pass_(1)
    assert await phases(harness, bad, good) == ["queued", "running"]
    assert [item["type"] for item in (await harness.job(bad)).conditions] == ["handler-failing"]
    assert 3 <= len(tries) <= 5
    assert harness.loop("placer").failures == 0
    monkeypatch.undo()
    harness.time.pass_(120)
    await harness.round()
    assert ((await harness.job(bad)).phase, (await harness.job(bad)).conditions) == ("running", [])


async def test_a_gang_over_machines_is_held_whole(
    harness: Harness, ada: Principal, monkeypatch: pytest.MonkeyPatch
) -> None:
    h200 = tuple(GpuInfo(index, "h200", "invented", None, simulated=True) for index in range(8))

    async def two() -> list[NodeInfo]:
        return [NodeInfo(name, 10_000, 1_000_000, h200) for name in ("n1", "n2")]

    monkeypatch.setattr(harness.scripted, "nodes", two)
    running = await harness.running_job(ada, cards(1))
    pool = {"name": "main", "series": "h200", "nodes": 2, "gpus_per_node": 8}
    can = Capabilities("scripted", "environment", on_this_machine=True, isolates=False, multi_node=True)
    monkeypatch.setattr(harness.scripted, "capabilities", lambda: can)
    gang = await harness.submit(ada, jobspec(resources={"pools": [pool]}))
    await harness.round()
    assert (await phases(harness, gang), len(await harness.held_gpus())) == (["queued"], 1)
    await end(harness, running)
    assert (await phases(harness, gang), len(await harness.held_gpus())) == (["running"], 16)
    (attempt,) = (await harness.services.jobs.attempts([gang]))[gang]
    assert [(item["node"], len(item["gpus"])) for item in attempt.placement] == [("n1", 8), ("n2", 8)]


async def test_a_drain_starts_nothing_and_lets_what_runs_end(harness: Harness, ada: Principal) -> None:
    root, governance = await harness.user("root", admin=True), harness.services.governance
    running = await harness.running_job(ada)
    waiting = await harness.submit(ada)
    await governance.set_policy(root, "drain", {"on": True, "text": ""}, 0)
    await harness.round()
    assert await phases(harness, running, waiting) == ["running", "queued"]
    await end(harness, running)
    assert await phases(harness, running, waiting) == ["succeeded", "queued"]
    await governance.set_policy(root, "drain", {"on": False, "text": ""}, 1)
    await harness.round()
    assert await phases(harness, waiting) == ["running"]
