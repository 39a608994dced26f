"""`tp` in this process (fast) and in its own (signals, pipes, what it imports), with a home, a lab and a console of the test's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.tuneplane.cli.scripted_console import ScriptedConsole
from tests.tuneplane.client.scripted_server import scripted_server
from tuneplane.cli import main as cli

TP = [sys.executable, "-m", "tuneplane.cli.main"]
OURS = ("TUNEPLANE_", "LANG", "LC_", "HTTP_PROXY", "HTTPS_PROXY", "NO_COLOR")


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def problem(self) -> Any:
        """The error as JSON."""
        return json.loads(self.err)


Tp = Callable[..., Answer]


@pytest.fixture(autouse=True)
def clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Nothing of whoever runs the tests: home, language, servers, proxies."""
    for name in list(os.environ):
        if name.upper().startswith(OURS):
            monkeypatch.delenv(name)
    home = tmp_path / "user"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("TUNEPLANE_HOME", str(home / "tuneplane"))
    monkeypatch.setenv("LANG", "C.UTF-8")
    monkeypatch.chdir(home)
    return dict(os.environ)


@pytest.fixture
def tp(capfd: pytest.CaptureFixture[str]) -> Tp:
    """Run `tp` in this process; by default it must exit 0. Never a traceback."""

    def run(*arguments: str, code: int = 0) -> Answer:
        capfd.readouterr()
        found = cli.run([str(item) for item in arguments])
        sys.stdout.flush()
        out, err = capfd.readouterr()
        assert found == code, f"tp {' '.join(map(str, arguments))}: exit {found}\n{out}\n{err}"
        assert "Traceback" not in out + err
        return Answer(found, out, err)

    return run


@pytest.fixture
def tp_process() -> Tp:
    """Run `tp` in its own process, with `env` beside the test's environment and `text` as its input."""

    def run(*arguments: str, code: int | None = 0, env: dict[str, str] | None = None, text: str = "") -> Answer:
        done = subprocess.run(
            [*TP, *arguments],
            env={**os.environ, **(env or {})},
            input=text.encode(),
            capture_output=True,
            timeout=60,
            check=False,
        )
        out, err = done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")
        assert code is None or done.returncode == code, f"exit {done.returncode}\n{out}\n{err}"
        assert "Traceback" not in out + err
        return Answer(done.returncode, out, err)

    return run


@pytest.fixture
def lab(tp: Tp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lab with the experiment `first` of trl/sft; the working directory is its root."""
    root = tmp_path / "lab"
    tp("init", str(root), "--name", "demo")
    monkeypatch.chdir(root)
    tp("new", "first", "--method", "trl/sft")
    return root


@pytest.fixture
def console() -> Iterator[ScriptedConsole]:
    """Something that answers as a console does, with a user `ann` and her token."""
    with scripted_server() as server:
        yield ScriptedConsole(server)


@pytest.fixture
def signed_in(tp: Tp, console: ScriptedConsole, monkeypatch: pytest.MonkeyPatch) -> ScriptedConsole:
    """The console, logged in to."""
    monkeypatch.setenv("TUNEPLANE_TOKEN", console.token)
    tp("login", console.url)
    monkeypatch.delenv("TUNEPLANE_TOKEN")
    console.server.seen.clear()
    return console


def tree(root: Path) -> dict[str, bytes]:
    """Every file below `root` with its content."""
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}
