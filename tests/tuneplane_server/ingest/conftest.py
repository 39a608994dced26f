from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from tests.tuneplane_server.executors.scripted import ScriptedExecutor
from tests.tuneplane_server.harness import Harness
from tests.tuneplane_server.ingest.wire_build import packed

JOB = "0000000000000001"
OTHER = "0000000000000002"


@dataclass
class Runner:
    """Sends as a runner does. `token` None: no Authorization header."""

    client: httpx.AsyncClient
    token: str | None
    job: str = JOB

    async def send(self, *lines: dict[str, Any], **known: Any) -> httpx.Response:
        return await self.raw(packed(*lines), "gzip", **known)

    async def raw(
        self, body: Any, encoding: str | None = None, path: str = "batches", **headers: str
    ) -> httpx.Response:
        if encoding is not None:
            headers["Content-Encoding"] = encoding
        if self.token is not None:
            headers.setdefault("Authorization", f"Bearer {self.token}")
        return await self.client.post(f"/ingest/v1/jobs/{self.job}/{path}", content=body, headers=headers)

    async def beat(self, **known: Any) -> httpx.Response:
        import json

        beat = {"attempt": 1, "rank": 0, "state": "running", "time": 1.0} | known
        return await self.raw(json.dumps(beat).encode(), path="heartbeat")


@asynccontextmanager
async def console_on(url: str, folder: Path) -> AsyncIterator[Harness]:
    harness = Harness(url, folder, ScriptedExecutor())
    try:
        yield harness
    finally:
        await harness.close()


@asynccontextmanager
async def runner_of(console: Harness) -> AsyncIterator[Runner]:
    """A runner with a token for attempt 1 of `JOB`."""
    transport = httpx.ASGITransport(console.app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://console.test") as client:
        yield Runner(client, await console.services.ingest.issue(JOB, 1))


@pytest.fixture
async def console(migrated_url: str, tmp_path: Path) -> AsyncIterator[Harness]:
    """A console on SQLite and on Postgres."""
    async with console_on(migrated_url, tmp_path) as harness:
        yield harness


@pytest.fixture
async def runner(console: Harness) -> AsyncIterator[Runner]:
    async with runner_of(console) as one:
        yield one


@pytest.fixture
def client(runner: Runner) -> httpx.AsyncClient:
    return runner.client
