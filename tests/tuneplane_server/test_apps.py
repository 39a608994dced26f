"""The tests' consoles share their apps: a setting that tells each console's apart would cost every test some hundredths of a second."""

from __future__ import annotations

from pathlib import Path

from tests.tuneplane_server.executors.scripted import ScriptedExecutor
from tests.tuneplane_server.harness import Harness


async def test_an_app_whose_console_is_closed_serves_the_next_one_at_another_place(tmp_path: Path) -> None:
    apps = []
    for name in ("first", "second"):
        console = Harness(f"sqlite+aiosqlite:///{tmp_path / name}/data.db", tmp_path / name, ScriptedExecutor())
        apps.append(console.app)
        assert console.app.state.services is console.services
        await console.close()
    assert apps[0] is apps[1]


async def test_consoles_that_are_open_at_once_have_an_app_each(tmp_path: Path) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path}/data.db"
    consoles = [Harness(url, tmp_path / name, ScriptedExecutor()) for name in ("first", "second")]
    assert consoles[0].app is not consoles[1].app
    for console in consoles:
        await console.close()
