"""A scripted server, and a client's home of the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tuneplane.client.scripted_server import ScriptedServer, scripted_server


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with scripted_server() as running:
        yield running


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`TUNEPLANE_HOME`, and none of the settings of whoever runs the tests."""
    path = tmp_path / "client-home"
    monkeypatch.setenv("TUNEPLANE_HOME", str(path))
    for name in ("TUNEPLANE_SERVER", "TUNEPLANE_TOKEN", "TUNEPLANE_LAB", "TUNEPLANE_HTTP_TIMEOUT"):
        monkeypatch.delenv(name, raising=False)
    return path
