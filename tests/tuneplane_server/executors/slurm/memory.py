"""A Slurm in memory, for what a real one does not do on demand: answers that get lost at a given moment, ids that are given again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from tuneplane_server.clock import Clock
from tuneplane_server.domain.slurm_choices import Partitions, QosLevels
from tuneplane_server.executors.port import LaunchPlan, MachinePlan, PoolPlan
from tuneplane_server.executors.slurm.executor import SlurmExecutor
from tuneplane_server.executors.slurm.handles import comment_of, name_of
from tuneplane_server.executors.slurm.rest.models import Partition, SlurmError, SlurmJob, SlurmNode, Submission
from tuneplane_server.executors.slurm.rules import SlurmRules
from tuneplane_server.slurm_settings import SlurmSettings

USER = "trainer"
JOB = "0123456789abcdef"
START = datetime(2026, 11, 30, 12, tzinfo=UTC)


@dataclass
class Time:
    """The console's two clocks, and Slurm's: one time."""

    passed: float = 0.0

    def monotonic(self) -> float:
        return self.passed

    def now(self) -> datetime:
        return START + timedelta(seconds=self.passed)


@dataclass
class MemorySlurm:
    """What there is is `known`; what it was told is `submitted`, `signals`, `cancelled`; faults are set by the test."""

    time: Time
    known: dict[int, SlurmJob] = field(default_factory=dict)
    accounting: list[SlurmJob] | None = None
    submitted: list[Submission] = field(default_factory=list)
    signals: list[tuple[int, str]] = field(default_factory=list)
    cancelled: list[int] = field(default_factory=list)
    next_id: int = 17
    away: SlurmError | None = None  # nothing can be asked
    # Called around the making of a job: may raise, before or after it is there.
    before_submit: Callable[[], Any] = lambda: None
    after_submit: Callable[[], Any] = lambda: None
    asked: list[str] = field(default_factory=list)
    ends_on_cancel: bool = True
    told: dict[int, asyncio.Event] = field(default_factory=dict)

    def _ask(self, what: str) -> None:
        self.asked.append(what)
        self.time.passed += 0.001
        if self.away is not None:
            raise self.away

    async def submit(self, job: Submission) -> int:
        self._ask("submit")
        self.before_submit()
        self.submitted.append(job)
        made = self.add(job)
        self.after_submit()
        return made

    def add(self, job: Submission, **values: Any) -> int:
        """A job as it comes into the queue."""
        made = self.next_id
        self.next_id += 1
        het = len(job.components) > 1
        for offset, part in enumerate(job.components):
            self.known[made + offset] = replace(
                SlurmJob(
                    id=made + offset,
                    name=job.name,
                    comment=job.comment,
                    user=USER,
                    states=frozenset({"PENDING"}),
                    reason="Resources",
                    submitted_at=self.time.now(),
                    partition=part.partition or "main",
                    priority=100,
                    gpus_asked=part.gpus * part.nodes,
                    nodes_asked=part.nodes,
                    het_id=made if het else None,
                    het_offset=offset if het else None,
                    directory=job.directory,
                ),
                **values,
            )
        return made

    def set(self, job_id: int, words: str, **values: Any) -> None:
        for known in [job for job in self.known.values() if job.leader_id == job_id]:
            self.known[known.id] = replace(known, states=frozenset(words.split("+")), **values)

    def run(self, job_id: int, *, gpus: int | None = None) -> None:
        """Slurm starts it, with as many cards as it asked for."""
        for place, known in enumerate([job for job in self.known.values() if job.leader_id == job_id]):
            nodes = tuple(f"n{place}{number}" for number in range(known.nodes_asked or 1))
            got = known.gpus_asked if gpus is None else gpus
            self.known[known.id] = replace(
                known,
                states=frozenset({"RUNNING"}),
                started_at=self.time.now(),
                nodes=nodes,
                gpus_allocated=got,
                reason="None",
            )

    async def jobs(self, *, name: str | None = None, everyone: bool = False) -> list[SlurmJob]:
        self._ask("jobs")
        return [job for job in self.known.values() if (everyone or job.user == USER) and name in (None, job.name)]

    async def job(self, job_id: int) -> list[SlurmJob]:
        self._ask("job")
        return sorted((job for job in self.known.values() if job_id in (job.id, job.het_id)), key=lambda job: job.id)

    async def accounted(
        self, *, job_id: int | None = None, name: str | None = None, since: datetime | None = None
    ) -> list[SlurmJob] | None:
        self._ask("accounted")
        if self.accounting is None:
            return None
        return [job for job in self.accounting if job_id in (None, job.leader_id) and name in (None, job.name)]

    async def signal(self, job_id: int, signal: str) -> None:
        self._ask("signal")
        self.signals.append((job_id, signal))

    async def cancel(self, job_id: int) -> None:
        self._ask("cancel")
        self.cancelled.append(job_id)
        self.told.setdefault(job_id, asyncio.Event()).set()
        if self.ends_on_cancel:
            self.set(job_id, "CANCELLED", signal=15)

    async def is_cancelled(self, job_id: int) -> None:
        """Returns once it is."""
        async with asyncio.timeout(60):
            await self.told.setdefault(job_id, asyncio.Event()).wait()

    async def nodes(self) -> list[SlurmNode]:
        self._ask("nodes")
        return [
            SlurmNode(
                f"n{n}",
                "127.0.0.1",
                frozenset({"IDLE"}),
                cpus=64,
                memory_mb=512_000,
                gpus={"h200": 8},
                gpus_used=0,
                partitions=("main",),
            )
            for n in range(4)
        ]

    async def partitions(self) -> list[Partition]:
        self._ask("partitions")
        return [Partition("main", frozenset({"UP"}), max_minutes=600, default_minutes=10, default=True)]

    async def close(self) -> None:
        return None


def settings(**values: Any) -> SlurmSettings:
    given: dict[str, Any] = {
        "url": "http://slurm.invalid:6820",
        "user": USER,
        "token": SecretStr("token"),
        "token_file": None,
        "ca_file": None,
        "container": "apptainer",
        "partitions": Partitions(),
        "account": None,
        "qos": QosLevels(),
        "reservation": None,
        "time_limit_minutes": None,
        "lost_after": timedelta(seconds=120),
    }
    return SlurmSettings(**{**given, **values})


def an_executor(slurm: MemorySlurm, root: Path, **values: Any) -> SlurmExecutor:
    """One console's. Time passes only with questions, and when the test says so."""
    rules = SlurmRules(settings(**values), root)
    executor = SlurmExecutor(slurm, rules, Clock(slurm.time.now), monotonic=slurm.time.monotonic)  # ty: ignore[invalid-argument-type]
    executor.clearing.poll_seconds = 0.0
    return executor


def a_console_like(executor: SlurmExecutor, slurm: MemorySlurm) -> SlurmExecutor:
    """Another one, which remembers nothing."""
    return an_executor(slurm, executor.rules.storage_root)


def a_plan(root: Path, *, pools: tuple[PoolPlan, ...] = (), attempt: int = 1, **values: Any) -> LaunchPlan:
    folder = root / "projects/ann/demo/jobs" / JOB / "attempts" / str(attempt)
    capsule, out = folder / "capsule", folder / "out"
    for directory in (capsule, out):
        directory.mkdir(parents=True, exist_ok=True)
    (capsule / "bootstrap.sh").write_text("exit 0\n")
    image = root / "image.sif"
    image.touch()
    pools = pools or (PoolPlan("main", "h200", 1, 8),)
    machines = tuple(
        MachinePlan(rank, f"slurm/{JOB}-{attempt}/{rank}", tuple(range(pool.gpus)), None, None)
        for rank, pool in enumerate(pool for pool in pools for _each in range(pool.machines))
    )
    given: dict[str, Any] = {
        "job_id": JOB,
        "attempt": attempt,
        "image": str(image),
        "capsule": capsule,
        "env": {"TUNEPLANE_RUN_ID": JOB, "TUNEPLANE_INGEST_TOKEN": "secret"},
        "read_only": (capsule,),
        "writable": (out,),
        "machines": machines,
        "pools": pools,
    }
    return LaunchPlan(**{**given, **values})


def directory_of(plan: LaunchPlan) -> Path:
    return plan.capsule.parent / "slurm"


def a_foreign_job(slurm: MemorySlurm, job_id: int) -> None:
    """Somebody else's, under an id that was given again."""
    slurm.known[job_id] = SlurmJob(
        job_id, "theirs", "", USER, frozenset({"RUNNING"}), started_at=slurm.time.now(), nodes=("n0",)
    )


NAME, COMMENT = name_of(JOB, 1), comment_of(JOB, 1)
