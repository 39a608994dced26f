"""A console without its loops' timers: time stands still until told, and each round of the roles is a call."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from sqlalchemy import inspect, select

from tests.tuneplane_server import apps
from tests.tuneplane_server.executors.scripted import Container, ScriptedExecutor
from tuneplane.contract.capsule import CapsuleIngest
from tuneplane.contract.digests import digest_json
from tuneplane.recipes import index
from tuneplane_server.background.loop import SupervisedLoop
from tuneplane_server.background.roles import BackgroundRoles
from tuneplane_server.background.wiring import build_roles
from tuneplane_server.clock import Clock
from tuneplane_server.executors.port import Executor
from tuneplane_server.features.accounts.principal import SCOPES, Principal
from tuneplane_server.features.hardware.tables import GpuHoldRow
from tuneplane_server.features.jobs import capsule
from tuneplane_server.features.jobs.tables import AttemptRow, JobEventRow, JobRow
from tuneplane_server.services import Services
from tuneplane_server.settings import load_settings
from tuneplane_server.storage.space import Space

ROOMY = Space(500 * 10**9, 1000 * 10**9)
INGEST = "http://127.0.0.1:1"
PASSWORD = "four random words here"
# For tests of pages, files and rules on fixtures that would give them both databases: what they prove does not depend on which.
ON_SQLITE = pytest.mark.parametrize("migrated_url", ["sqlite"], indirect=True)


def package() -> bytes:
    """A small lab as `tp` would pack it."""
    return package_of("true\n")


def package_of(script: str) -> bytes:
    """The same lab with another train.sh."""
    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        for name, text in {"tuneplane.yaml": "name: lab\n", "experiments/first/train.sh": script}.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    return gzip.compress(tar.getvalue(), mtime=0)


def jobspec(method: str = "custom/custom", **spec: Any) -> dict[str, Any]:
    """A JobSpec that is admitted on the CPU profile; `spec` replaces parts of it."""
    entry = index.entry(method)
    manifest = entry["manifest"]
    version = manifest["runtime"]["default_version"]
    config: dict[str, Any] = spec.pop("config", {})
    return {
        "apiVersion": "tuneplane/v1",
        "kind": "TrainingJob",
        "metadata": {"name": "first", "project": "lab"},
        "spec": {
            "recipe": {"name": method, "version": manifest["version"], "digest": entry["digest"]},
            "framework": {
                "kind": manifest["framework"],
                "version": version,
                "runtime_id": manifest["runtime"]["versions"][version]["runtime_id"],
                "observability": manifest["adapter_options"]["observability"],
                "observability_url": "https://curves.example.org/run",
            },
            "resources": {
                "pools": [{"name": "main", "series": "cpu", "nodes": 1, "gpus_per_node": 0, "cpus": 1, "memory_gb": 1}]
            },
            "config": config,
            **spec,
        },
        "provenance": {
            "client_version": "0.1.0",
            "config_digest": digest_json(config),
            "package_digest": hashlib.sha256(package()).hexdigest(),
        },
    }


def gpu_pool(gpus: int) -> dict[str, Any]:
    return {"pools": [{"name": "main", "series": "h200", "nodes": 1, "gpus_per_node": gpus}]}


def give_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Runners of this test try for a second, not for twenty, to send what is left to a console that is away the whole time."""
    monkeypatch.setattr(capsule, "CapsuleIngest", partial(CapsuleIngest, drain_seconds=1.0))


@dataclass
class StillTime:
    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    def clock(self) -> Clock:
        return Clock(now=self._tick)

    def pass_(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def _tick(self) -> datetime:
        self.now += timedelta(milliseconds=1)  # ids and listings sort by time
        return self.now


@dataclass
class Harness:
    """`roles` are those of one console process; `restart` puts a new one in its place, as after SIGKILL."""

    url: str
    folder: Path
    executor: Executor
    extra: dict[str, str] = field(default_factory=dict)
    time: StillTime = field(default_factory=StillTime)
    space: Space = ROOMY
    _app: FastAPI | None = None

    def __post_init__(self) -> None:
        self.services = self._services(self.folder / "data")
        self.roles: BackgroundRoles = build_roles(self.services)

    def _services(self, data: Path) -> Services:
        settings = load_settings(
            {
                "TUNEPLANE_STORAGE_ROOT": str(self.folder / "root"),
                "TUNEPLANE_DATA_DIR": str(data),
                "TUNEPLANE_DATABASE_URL": self.url,
                "TUNEPLANE_RUNTIME": "process",
                **self.extra,
            }
        )
        return Services(settings, self.time.clock(), self.executor, measure_space=self._measure_space)

    async def _measure_space(self, _root: Path) -> Space:
        return self.space

    @property
    def app(self) -> FastAPI:
        """The HTTP side of the services as they are; without background work."""
        if self._app is None:
            self._app = apps.borrow(self.services)
        self._app.state.services = self.services
        return self._app

    @property
    def scripted(self) -> ScriptedExecutor:
        assert isinstance(self.executor, ScriptedExecutor)
        return self.executor

    async def user(self, name: str = "ada", *, admin: bool = False) -> Principal:
        row = await self.services.accounts.add_user(name, None, admin=admin, actor="test")
        return Principal(row.id, row.username, row.admin, frozenset(SCOPES))

    async def bring_package(self, principal: Principal, content: bytes | None = None) -> str:
        """Upload a package; its digest."""
        content = content or package()
        digest = hashlib.sha256(content).hexdigest()

        async def chunks() -> AsyncIterator[bytes]:
            yield content

        await self.services.packages.put(principal, digest, chunks())
        return digest

    async def submit(self, principal: Principal, spec: dict[str, Any] | None = None, key: str | None = None) -> str:
        row = await self.services.jobs.submit(principal, spec or jobspec(), key=key, ingest_address=INGEST)
        return row.id

    def loop(self, name: str) -> SupervisedLoop:
        """The loop of one role."""
        return next(loop for loop in self.roles.loops if loop.role.name == name)

    async def place(self) -> None:
        """The placer alone looks once."""
        await self.loop("placer").tick()
        await self.loop("placer").idle()

    async def round(self, times: int = 1) -> None:
        """Each role looks once and works until nothing is being worked on."""
        for _time in range(times):
            for loop in self.roles.loops:
                await loop.tick()
                await loop.idle()

    async def restart(self) -> None:
        """The process is gone without a word; a new one of the same installation starts."""
        self.services = self._services(self.folder / "data")
        self.roles = build_roles(self.services)
        await self.roles._leases.forget_own()
        await self.roles.adopt()

    def replica(self) -> Harness:
        """Another installation on the same database, storage and executor."""
        other = Harness(self.url, self.folder, self.executor, self.extra, self.time)
        other.services = other._services(self.folder / "data-2")
        other.roles = build_roles(other.services)
        return other

    async def job(self, job_id: str) -> JobRow:
        async with self.services.database.session() as session:
            row = await session.get(JobRow, job_id)
        assert row is not None
        return row

    async def events(self, job_id: str) -> list[JobEventRow]:
        async with self.services.database.session() as session:
            query = select(JobEventRow).where(JobEventRow.job_id == job_id).order_by(JobEventRow.seq)
            return list(await session.scalars(query))

    async def kinds(self, job_id: str, *, ignored: bool = False) -> list[str]:
        return [event.kind for event in await self.events(job_id) if event.ignored is ignored]

    async def held_gpus(self) -> list[int]:
        async with self.services.database.session() as session:
            return sorted(await session.scalars(select(GpuHoldRow.gpu_index)))

    def out(self, job: JobRow, attempt: int | None = None) -> Path:
        return self.services.storage.attempt(job.owner, job.project, job.id, attempt or job.attempt).out

    async def write_outcome(self, job_id: str, result: str = "succeeded", **known: Any) -> None:
        """What the runner leaves."""
        job = await self.job(job_id)
        outcome = {
            "apiVersion": "tuneplane/outcome/v1",
            "job": job.id,
            "attempt": job.attempt,
            "machine_rank": 0,
            "result": result,
            "exit_code": 0 if result == "succeeded" else 1,
            "finished_at": 1.0,
            "spool_drained": True,
            **known,
        }
        self.out(job).mkdir(parents=True, exist_ok=True)
        (self.out(job) / "outcome.json").write_text(json.dumps(outcome))

    async def running_job(self, principal: Principal, spec: dict[str, Any] | None = None) -> str:
        """A submitted job that the roles have placed, launched and seen running."""
        job_id = await self.submit(principal, spec)
        await self.round()
        assert (await self.job(job_id)).phase == "running"
        return job_id

    async def put_live_jobs(self, principal: Principal, count: int) -> list[str]:
        """As if so many jobs had been submitted and seen running; quicker than doing it."""
        template = await self.job(await self.running_job(principal))
        columns = {column.key: getattr(template, column.key) for column in inspect(JobRow).columns}
        ids = [template.id]
        async with self.services.database.begin() as session:
            for _number in range(count - 1):
                job_id = self.services.clock.new_id()
                ids.append(job_id)
                handle = {"job_id": job_id, "attempt": 1, "data": {}}
                session.add(JobRow(**columns | {"id": job_id, "handle": handle}))
            await session.flush()
            for job_id in ids[1:]:
                session.add(AttemptRow(job_id=job_id, n=1, phase="running", placement=[], created_at=self.time.now))
                self.scripted.containers[job_id, 1] = Container(self.scripted.containers[template.id, 1].plan)
        return ids

    async def close(self) -> None:
        if self._app is not None:
            apps.give_back(self._app)
            self._app = None
        await self.services.telemetry.close()
        await self.services.database.close()


@dataclass
class Api:
    """The console's HTTP side over a harness, and clients that are signed in."""

    harness: Harness
    app: FastAPI

    @classmethod
    def over(cls, harness: Harness) -> Api:
        return cls(harness, harness.app)

    def anonymous(self, **headers: str) -> httpx2.AsyncClient:
        transport = httpx2.ASGITransport(app=self.app)
        return httpx2.AsyncClient(transport=transport, base_url="http://console.test", headers=headers)

    async def client(self, principal: Principal, scopes: tuple[str, ...] = SCOPES) -> httpx2.AsyncClient:
        """A client with a fresh token of `principal`."""
        accounts = self.harness.services.accounts
        issued = await accounts.create_token(principal, "test", list(scopes), 1, actor="test")
        return self.anonymous(Authorization=f"Bearer {issued.secret}")
