"""A console with the executor agent, whose nodes are announcements."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.tuneplane_server.executors.scripted import ScriptedExecutor
from tests.tuneplane_server.harness import Harness
from tests.tuneplane_server.nodes.build import TOKEN

AGENT = {"TUNEPLANE_EXECUTOR": "agent", "TUNEPLANE_AGENT_TOKEN": TOKEN}


@pytest.fixture
async def harness(migrated_url: str, tmp_path: Path) -> AsyncIterator[Harness]:
    """Runs the test twice, on SQLite and on Postgres."""
    harness = Harness(migrated_url, tmp_path, ScriptedExecutor(), AGENT)
    yield harness
    await harness.close()
