"""Consoles and clients for the end-to-end tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.harness import Client, Console


@pytest.fixture
def start_console(tmp_path: Path) -> Iterator[Callable[..., Console]]:
    """`start_console(**settings)`: a running console; all are stopped afterwards."""
    consoles: list[Console] = []

    def start(**settings: str) -> Console:
        console = Console(tmp_path / f"console-{len(consoles)}", settings)
        consoles.append(console)
        return console.start()

    yield start
    for console in consoles:
        console.stop()


@pytest.fixture
def start_client(tmp_path: Path, start_console: Callable[..., Console]) -> Callable[..., Client]:
    """`start_client(**settings)`: a console, an account, a lab, and `tp` signed in."""

    def start(**settings: str) -> Client:
        console = start_console(**settings)
        return Client(tmp_path / "client", console, console.add_user()).prepare()

    return start


@pytest.fixture
def trl_settings(training_runtime: Path) -> dict[str, str]:
    """Settings under which a console finds the TRL environment the tests share."""
    return {"TUNEPLANE_RUNTIMES_DIR": str(training_runtime.parent)}
