"""Consoles and clients for the end-to-end tests."""

from __future__ import annotations

import secrets
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


@pytest.fixture(scope="module")
def module_console(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Console]:
    """One console for all tests of a module, none of which may need it to be empty."""
    console = Console(tmp_path_factory.mktemp("module") / "console")
    yield console
    console.stop()


@pytest.fixture
def newcomer(module_console: Console, tmp_path: Path) -> Client:
    """Somebody new on the module's console, with a lab, and `tp` signed in; the console may be killed and started again."""
    if not module_console.running:
        module_console.start()
    name = f"user-{secrets.token_hex(4)}"
    return Client(tmp_path / "client", module_console, module_console.add_user(name), user=name).prepare()
