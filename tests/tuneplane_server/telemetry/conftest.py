from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

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
