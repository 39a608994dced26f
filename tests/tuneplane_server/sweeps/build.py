"""Sweeps for tests, and a sight of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.tuneplane_server.harness import INGEST, Harness, jobspec
from tuneplane_server.features.accounts.principal import Principal
from tuneplane_server.features.jobs.steering import Asked
from tuneplane_server.features.sweeps.tables import SweepRow, TrialRow

GRID = {"method": "grid", "params": {"env.LR": {"values": [1, 2, 3]}}, "max_parallel": 2}


def request(sweep: dict[str, Any] | None = None, job: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"sweep": sweep or GRID, "job": job or jobspec()}


@dataclass
class Sweeps:
    """A user's sweeps on a harness."""

    harness: Harness
    user: Principal

    async def create(self, raw: dict[str, Any] | None = None, key: str | None = None) -> SweepRow:
        return await self.harness.services.sweeps.create(Asked(self.user, key, INGEST), raw or request())

    async def resume(self, sweep_id: str) -> SweepRow:
        return await self.harness.services.sweeps.resume(Asked(self.user, None, INGEST), sweep_id)

    async def cancel(self, sweep_id: str) -> SweepRow:
        return await self.harness.services.sweeps.cancel(self.user, sweep_id)

    async def get(self, sweep_id: str) -> SweepRow:
        return await self.harness.services.sweeps.get(self.user, sweep_id)

    async def trials(self, sweep_id: str) -> list[TrialRow]:
        return list(await self.harness.services.sweeps.trials(sweep_id))

    async def states(self, sweep_id: str) -> list[str]:
        return [trial.state for trial in await self.trials(sweep_id)]

    async def look(self) -> None:
        """The sweeper alone looks once."""
        loop = self.harness.loop("sweeper")
        await loop.tick()
        await loop.idle()

    async def end(self, job_id: str, result: str = "succeeded") -> None:
        """The trial's job, which runs, comes to its end."""
        await self.harness.write_outcome(job_id, result)
        job = await self.harness.job(job_id)
        container = self.harness.scripted.containers[job_id, job.attempt]
        container.exit = _exit(result)
        await self.harness.round(3)

    async def jobs(self) -> list[str]:
        """All jobs there are, oldest first."""
        from tuneplane_server.features.jobs.query import JobQuery

        rows, _more = await self.harness.services.jobs.list(self.user, JobQuery(), limit=200)
        return [row.id for row in reversed(rows)]


def _exit(result: str) -> Any:
    from tuneplane_server.domain.classify import Exit

    return Exit(False, 0 if result == "succeeded" else 1)
