"""A console whose webhooks may call this machine, and a receiver there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.tuneplane_server.alerts.receiver import Receiver, receiving
from tests.tuneplane_server.executors.scripted import ScriptedExecutor
from tests.tuneplane_server.harness import Harness

ALLOWED = {"TUNEPLANE_WEBHOOK_HOSTS": "127.0.0.1"}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
async def harness(migrated_url: str, tmp_path: Path) -> AsyncIterator[Harness]:
    """Runs the test twice, on SQLite and on Postgres."""
    harness = Harness(migrated_url, tmp_path, ScriptedExecutor(), ALLOWED)
    yield harness
    await harness.close()
