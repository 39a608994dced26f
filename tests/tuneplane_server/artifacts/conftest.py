from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest

from tests.tuneplane_server.executors.scripted import ScriptedExecutor
from tests.tuneplane_server.harness import Harness
from tuneplane_server.features.accounts.principal import READ
from tuneplane_server.features.artifacts.service import ArtifactService


@dataclass
class Run:
    """A run of `ada`, its out dir, and her client."""

    console: Harness
    client: httpx.AsyncClient
    job: str
    out: Path

    @property
    def artifacts(self) -> ArtifactService:
        return self.console.services.artifacts

    def put(self, path: str, content: bytes = b"content") -> str:
        """Write a file into the out dir; returns its SHA-256."""
        full = self.out / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_bytes(content)
        return hashlib.sha256(content).hexdigest()

    def index(self, files: list[dict[str, Any]], checkpoints: list[dict[str, Any]] | None = None, **known: Any) -> None:
        """What the runner leaves as artifacts.json."""
        content = {"apiVersion": "tuneplane/artifacts/v1", "job": self.job, "attempt": 1, "files": files}
        content |= {"checkpoints": checkpoints or []} | known
        (self.out / "artifacts.json").write_text(json.dumps(content))

    async def listing(self) -> dict[str, Any]:
        answer = await self.client.get(f"/api/v1/jobs/{self.job}/artifacts")
        assert answer.status_code == 200
        return answer.json()

    async def file(self, path: str, method: str = "GET", attempt: int | None = None, **headers: str) -> httpx.Response:
        params: dict[str, Any] = {"path": path} | ({} if attempt is None else {"attempt": attempt})
        url = f"/api/v1/jobs/{self.job}/artifacts/file"
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.client.request(method, url, params=params, headers=names)


@pytest.fixture
async def run(migrated_url: str, tmp_path: Path) -> AsyncIterator[Run]:
    """On SQLite and on Postgres."""
    console = Harness(migrated_url, tmp_path, ScriptedExecutor())
    ada = await console.user("ada")
    await console.bring_package(ada)
    job = await console.running_job(ada)
    token = (await console.services.accounts.create_token(ada, "test", [READ], None, actor="test")).secret
    transport = httpx.ASGITransport(console.app, raise_app_exceptions=False)
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(transport=transport, base_url="http://console.test", headers=headers) as client:
        yield Run(console, client, job, console.out(await console.job(job)))
    await console.close()
