from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx2 as httpx
import pytest

from tests.tuneplane_server.executors.scripted import ScriptedExecutor
from tests.tuneplane_server.harness import Harness
from tests.tuneplane_server.telemetry.reading import Reader, token_of
from tuneplane_server.clock import Clock
from tuneplane_server.db.engine import Database
from tuneplane_server.features.telemetry.limits import TelemetryLimits
from tuneplane_server.features.telemetry.service import TelemetryService
from tuneplane_server.wakeups import Wakeups


@dataclass
class HeldClock:
    time: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    def pass_time(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)

    def clock(self) -> Clock:
        return Clock(now=lambda: self.time)


@pytest.fixture
def held_clock() -> HeldClock:
    return HeldClock()


@pytest.fixture
def limits() -> TelemetryLimits:
    return TelemetryLimits()


@pytest.fixture
async def telemetry(
    database: Database, held_clock: HeldClock, limits: TelemetryLimits
) -> AsyncIterator[TelemetryService]:
    """On SQLite and on Postgres."""
    service = TelemetryService(database, held_clock.clock(), Wakeups(), limits)
    yield service
    await service.close()


@pytest.fixture
async def console(migrated_url: str, tmp_path: Path) -> AsyncIterator[Harness]:
    harness = Harness(migrated_url, tmp_path, ScriptedExecutor())
    yield harness
    await harness.close()


@pytest.fixture
async def reader(console: Harness) -> AsyncIterator[Reader]:
    """`ada`, with a running job of hers."""
    ada = await console.user("ada")
    await console.bring_package(ada)
    job = await console.running_job(ada)
    transport = httpx.ASGITransport(console.app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://console.test") as client:
        yield Reader(console, client, job, await token_of(console, ada), ada)
