"""Small clusters and lines of jobs for the tests of the queue."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import strategies as st

from tuneplane_server.domain.line import Live, Plan, Waiting
from tuneplane_server.domain.placement import Hold, Machine, PoolRequest
from tuneplane_server.domain.queue import schedule

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
CPUS, MEMORY = 64.0, 512.0


def later(minutes: float) -> datetime:
    return NOW + timedelta(minutes=minutes)


def machine(name: str, cards: int = 8, profile: str = "h200", cpus: float = CPUS) -> Machine:
    return Machine(name, {"cpu": (), profile: tuple(range(cards))}, cpus, MEMORY)


def pool(gpus: int, nodes: int = 1, profile: str = "h200", cpus: float = 0, memory: float = 0) -> PoolRequest:
    return PoolRequest("main", profile, nodes, gpus, cpus, memory)


def job(job_id: str, *pools: PoolRequest | int, owner: str = "ada", age: float = 0, **known: Any) -> Waiting:
    """`age`: minutes since it was submitted; a number stands for a pool of that many cards on one node."""
    shapes = tuple(pool(item) if isinstance(item, int) else item for item in pools)
    project = known.pop("project", f"{owner}-lab")
    priority = known.pop("priority", 0)
    return Waiting(job_id, known.pop("attempt", 1), owner, project, shapes, priority, later(-age), **known)


def live(job_id: str, node: str, gpus: tuple[int, ...] = (), ends: float | None = None, **claims: float) -> Live:
    """`ends`: in so many minutes."""
    return Live(job_id, "eve", (Hold(node, gpus, **claims),), None if ends is None else later(ends))


def plan(
    waiting: list[Waiting], machines: list[Machine], *running: Live, use: dict[str, float] | None = None, **known: Any
) -> Plan:
    return schedule(NOW, waiting, running, machines, known.pop("accounts", {}), use or {}, **known)


def placed(made: Plan) -> dict[str, list[tuple[str, tuple[int, ...]]]]:
    return {item.job_id: [(part.node, part.gpus) for part in item.assignments] for item in made.placements}


def waits(made: Plan) -> dict[str, tuple[str, int | None]]:
    return {job_id: (str(wait.kind), wait.position) for job_id, wait in made.waits.items()}


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[Waiting], list[Live], list[Machine]]:
    """A cluster, what runs on it, and a line of jobs of one or two pools."""
    machines = [
        machine(f"n{index}", draw(st.integers(1, 4)), draw(st.sampled_from(["h200", "a100"])), cpus=8)
        for index in range(draw(st.integers(1, 4)))
    ]
    running = []
    for one in machines:
        cards = list(next(cards for profile, cards in one.cards.items() if profile != "cpu"))
        taken = draw(st.integers(0, len(cards)))
        ends = draw(st.one_of(st.none(), st.integers(1, 300)))
        if taken:
            running.append(live(f"live-{one.name}", one.name, tuple(cards[:taken]), ends, cpus=draw(st.integers(0, 4))))
    pools = st.builds(
        pool, st.integers(1, 4), st.integers(1, 2), st.sampled_from(["h200", "a100"]), st.sampled_from([0.0, 1.0, 5.0])
    )
    cpu_pools = st.builds(pool, st.just(0), st.integers(1, 2), st.just("cpu"), st.sampled_from([1.0, 4.0, 8.0]))
    jobs = [
        job(
            f"job-{index}",
            *draw(st.lists(st.one_of(pools, cpu_pools), min_size=1, max_size=2)),
            owner=draw(st.sampled_from(["ada", "bob", "eve"])),
            age=draw(st.integers(0, 50)),
            priority=draw(st.sampled_from([0, 0, 5])),
            max_seconds=draw(st.one_of(st.none(), st.integers(60, 20_000))),
            held_back=draw(st.sampled_from([None, None, None, "paused", "awaiting-approval"])),
        )
        for index in range(draw(st.integers(1, 8)))
    ]
    return jobs, running, machines
