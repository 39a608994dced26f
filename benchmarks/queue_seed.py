"""A database as a busy installation has it: 20,000 runs, 2,000 of them queued, 64 nodes with 8 cards each, all held."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Any

from sqlalchemy import insert, text

from tests.tuneplane_server.executors.scripted import ScriptedExecutor
from tests.tuneplane_server.harness import jobspec
from tuneplane_server.executors.port import Capabilities, GpuInfo, Handle, NodeInfo, Observation
from tuneplane_server.features.hardware.tables import GpuHoldRow, GpuUseRow
from tuneplane_server.features.jobs.tables import AttemptRow, JobRow
from tuneplane_server.features.projects.tables import ProjectRow
from tuneplane_server.features.telemetry.tables import MetricSeriesRow
from tuneplane_server.services import Services

NODES, CARDS = 64, 8
JOBS, QUEUED, OWNERS = 20_000, 2_000, 20
METRICS = ("train/loss", "train/learning_rate", "validation/loss")
AT_ONCE = 2_000


@dataclass
class Cluster(ScriptedExecutor):
    """64 machines with 8 invented h200 each; whatever was started runs."""

    many: list[NodeInfo] = field(default_factory=list)

    def __post_init__(self) -> None:
        cards = tuple(GpuInfo(index, "h200", "invented", None, simulated=True) for index in range(CARDS))
        self.many = [NodeInfo(f"n{number:02d}", 128, 1024, cards) for number in range(NODES)]

    def capabilities(self) -> Capabilities:
        return Capabilities("scripted", "environment", on_this_machine=True, isolates=False, multi_node=True)

    async def nodes(self) -> list[NodeInfo]:
        return self.many

    async def observe(self, handle: Handle) -> Observation:
        return Observation("present", running=True)


async def seed(services: Services) -> list[str]:
    """Fill a migrated, empty database; the names of the owners. The first one is an administrator."""
    random, now = Random(20_000), services.clock.now()
    owners = [
        await services.accounts.add_user(f"user{number:02d}", None, admin=number == 0, actor="bench")
        for number in range(OWNERS)
    ]
    projects: list[dict[str, Any]] = [
        {"id": services.clock.new_id(), "owner_id": owner.id, "owner": owner.username, "name": "lab", "created_at": now}
        for owner in owners
    ]
    spec = jobspec()
    jobs = []
    for number in range(JOBS):
        state = "queued" if number >= JOBS - QUEUED else "running" if number >= JOBS - QUEUED - NODES * CARDS else ""
        owner = random.randrange(OWNERS)
        jobs.append(_job(random, services, number, state, owners[owner], projects[owner]["id"], spec, now))
    async with services.database.begin() as session:
        await _put(session, ProjectRow, projects)
        await _put(session, JobRow, jobs)
        await _put(session, AttemptRow, [_attempt(job) for job in jobs])
        await _put(session, GpuUseRow, [_use(random, job, now) for job in jobs if job["phase"] != "queued"])
        live = [job for job in jobs if job["phase"] == "running"]
        await _put(session, GpuHoldRow, [_hold(index, job) for index, job in enumerate(live)])
        started = [job for job in jobs if job["phase"] != "queued"]
        await _put(session, MetricSeriesRow, [_series(job, name) for job in started for name in METRICS])
    if not services.database.is_sqlite:  # what autovacuum does by itself within a minute
        async with services.database.begin() as session:
            await session.execute(text("analyze"))
    return [owner.username for owner in owners]


async def _put(session: Any, table: Any, rows: list[dict[str, Any]]) -> None:
    for start in range(0, len(rows), AT_ONCE):
        await session.execute(insert(table), rows[start : start + AT_ONCE])


def _job(
    random: Random, services: Services, number: int, state: str, owner: Any, project: str, spec: dict[str, Any], now: datetime
) -> dict[str, Any]:  # fmt: skip
    gpus = random.choice((1, 1, 2, 4, 8)) if state == "queued" else 1
    nodes = random.choice((1, 1, 1, 2, 4)) if gpus == CARDS else 1
    demand = {"name": "main", "profile": "h200", "nodes": nodes, "gpus_per_node": gpus, "cpus": 0.0, "memory_gb": 0.0}
    job_id = services.clock.new_id()
    created = now - timedelta(minutes=JOBS - number)
    # None of those that run is past its limit: this is a day like any other, not a storm of stops.
    since = now - timedelta(hours=random.uniform(0, 4)) if state == "running" else created
    return {
        "id": job_id,
        "owner_id": owner.id,
        "project_id": project,
        "owner": owner.username,
        "project": "lab",
        "experiment": f"first-{number % 50}",
        "recipe": "custom/custom",
        "recipe_version": "1.0.0",
        "framework": "custom",
        "spec": spec,
        "package_digest": "0" * 64,
        "runtime": {"runtime_id": None, "image": None, "source": "none"},
        "simulated": True,
        "demand": [demand],
        "priority": random.choice((0, 0, 0, 5)),
        "max_seconds": random.choice((None, 36_000, 360_000) if state == "running" else (None, 3600, 36_000)),
        "desired": "run",
        "paused": False,
        "approval": "none",
        "phase": state or random.choice(("succeeded", "succeeded", "failed", "cancelled")),
        "phase_since": since,
        "conditions": [],
        "cleanup": "none" if state else "confirmed",
        "attempt": 1,
        "handle": {"job_id": job_id, "attempt": 1, "data": {}} if state == "running" else None,
        "version": 1,
        "created_at": created,
        "started_at": None if state == "queued" else since,
        "finished_at": None if state else created + timedelta(hours=1),
    }


def _attempt(job: dict[str, Any]) -> dict[str, Any]:
    known = ("phase", "created_at", "started_at", "finished_at")
    done = dict.fromkeys(("spool_shipped_at", "hashed_at"), job["finished_at"])
    return {"job_id": job["id"], "n": 1, "placement": [], **done, **{name: job[name] for name in known}}


def _use(random: Random, job: dict[str, Any], now: datetime) -> dict[str, Any]:
    live = job["phase"] == "running"
    start = job["started_at"] if live else now - timedelta(hours=random.uniform(0, 480))
    return {
        "job_id": job["id"],
        "attempt": 1,
        "owner_id": job["owner_id"],
        "project_id": job["project_id"],
        "gpus": 1,
        "started_at": start,
        "reserved_until": None,
        "ended_at": None if live else min(now, start + timedelta(hours=random.uniform(0.1, 20))),
    }


def _hold(index: int, job: dict[str, Any]) -> dict[str, Any]:
    node, card = divmod(index, CARDS)
    return {"node": f"n{node:02d}", "gpu_index": card, "job_id": job["id"], "attempt": 1, "since": job["started_at"]}


def _series(job: dict[str, Any], name: str) -> dict[str, Any]:
    numbers = dict.fromkeys(("position", "count", "blocks", "loose", "last_seq", "last_step"), 1)
    values = dict.fromkeys(("min_value", "max_value", "last_value", "last_time"), 1.0)
    return {"job_id": job["id"], "attempt": 1, "rank": 0, "name": name, **numbers, **values}
