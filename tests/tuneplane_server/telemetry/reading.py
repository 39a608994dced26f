"""A person who reads a run over the API."""

from __future__ import annotations

import httpx2 as httpx

from tests.tuneplane_server.harness import Harness
from tuneplane.client.shapes import mismatch
from tuneplane_server.features.accounts.principal import READ, Principal
from tuneplane_server.features.telemetry import shapes
from tuneplane_server.features.telemetry.records import Batch


class Reader:
    """A person's client of one run."""

    def __init__(
        self, console: Harness, client: httpx.AsyncClient, job: str, token: str | None, who: Principal
    ) -> None:
        self.console, self.client, self.job, self.token, self.who = console, client, job, token, who

    async def get(self, path: str, **query) -> httpx.Response:
        """A call of the run, or with a `/` in front any call below `/api/v1`."""
        headers = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        address = f"/api/v1{path}" if path.startswith("/") else f"/api/v1/jobs/{self.job}/{path}"
        return await self.client.get(address, params=query, headers=headers)

    async def json(self, path: str, shape: type, **query):
        answer = await self.get(path, **query)
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert mismatch(found, shape) is None
        getattr(shapes, shape.__name__).model_validate(found)
        return found

    async def store(self, batch: Batch, attempt: int = 1) -> None:
        await self.console.services.telemetry.store(self.job, attempt, batch)


async def token_of(console: Harness, user: Principal) -> str:
    return (await console.services.accounts.create_token(user, "test", [READ], None, actor="test")).secret
