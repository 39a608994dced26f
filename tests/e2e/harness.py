"""A real console and a real `tp`, each in its own process, with folders and ports of the test's own."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.services.ports import free_port
from tuneplane.client.servers import HOME_VARIABLE, name_for, save_login
from tuneplane.lab.create import create_lab
from tuneplane_server.db.migrations import upgrade
from tuneplane_server.services import Services
from tuneplane_server.settings import load_settings

BIN = Path(sys.executable).parent
USER = "ann"


def wait_until(what: str, condition: Callable[[], Any], seconds: float = 60) -> Any:
    """The condition's first truthy value; `AssertionError` naming `what` after `seconds`."""
    deadline = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.05)


@dataclass
class Console:
    """`tuneplane-server serve` on a port of its own; can be killed and started again on the same state."""

    folder: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    password: str = field(default_factory=lambda: secrets.token_urlsafe(12))

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def storage(self) -> Path:
        return self.folder / "storage"

    @property
    def env(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TUNEPLANE_")}
        return kept | {
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "TUNEPLANE_STORAGE_ROOT": str(self.storage),
            "TUNEPLANE_PORT": str(self.port),
            "TUNEPLANE_RUNTIME": "process",
            "TUNEPLANE_OBSERVE_SECONDS": "0.5",
            "TUNEPLANE_LANG": "en",
            **self.settings,
        }

    def start(self) -> Console:
        self.folder.mkdir(parents=True, exist_ok=True)
        log = (self.folder / "console.log").open("ab")
        self.process = subprocess.Popen(
            [BIN / "tuneplane-server", "serve"], env=self.env, stdout=log, stderr=log, start_new_session=True
        )
        log.close()
        wait_until("the console answers", self._up, 90)
        return self

    def _up(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log()[-4000:]
        try:
            with urllib.request.urlopen(f"{self.url}/readyz", timeout=5):
                return True
        except (urllib.error.URLError, OSError):
            return False

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def log(self) -> str:
        return (self.folder / "console.log").read_text(errors="replace")

    def kill(self) -> None:
        """SIGKILL to the console process alone, as a crash would end it."""
        assert self.process is not None
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait(60)

    def stop(self) -> None:
        if self.process is not None and self.running:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(60)
                raise AssertionError(f"the console did not end at SIGTERM\n{self.log()[-3000:]}") from None

    def admin(self, *arguments: str, text: str = "") -> str:
        """One `tuneplane-server` command on the same state; its standard output."""
        done = subprocess.run(
            [BIN / "tuneplane-server", *arguments],
            env=self.env,
            input=text,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def add_user(self, name: str = USER, *, admin: bool = True, scopes: tuple[str, ...] = ("read", "write")) -> str:
        """Make an account and return an API token for it, as `tuneplane-server user add` and `token create` do."""

        async def work(services: Services) -> None:
            await services.accounts.add_user(name, self.password, admin=admin, actor="system:cli")

        self._with_services(work)
        return self.new_token(name, *scopes)

    def new_token(self, name: str, *scopes: str) -> str:
        """Another API token of an account, as `tuneplane-server token create` makes it."""
        tokens: list[str] = []

        async def work(services: Services) -> None:
            owner = await services.accounts.user(name)
            wanted = list(scopes) or ["read", "write"]
            issued = await services.accounts.create_token(owner, "tests", wanted, 90, actor="system:cli")
            tokens.append(issued.secret)

        self._with_services(work)
        return tokens[0]

    def _with_services(self, work: Callable[[Services], Awaitable[None]]) -> None:
        """On the same database, beside the console; in this process, because an interpreter takes two seconds to get there."""
        env = {name: value for name, value in self.env.items() if name.startswith("TUNEPLANE_")}

        async def run() -> None:
            services = Services(load_settings(env))
            try:
                await upgrade(services.database)
                await work(services)
            finally:
                await services.database.close()

        with ThreadPoolExecutor(1) as thread:  # playwright may have a loop in ours
            thread.submit(asyncio.run, run()).result()


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@dataclass
class Client:
    """`tp` with a home and a lab of its own, signed in to one console as `user`; `extra` is environment for `tp` alone."""

    folder: Path
    console: Console
    token: str
    extra: Mapping[str, str] = field(default_factory=dict)
    user: str = USER

    @property
    def lab(self) -> Path:
        return self.folder / "lab"

    @property
    def env(self) -> dict[str, str]:
        return self.console.env | {"TUNEPLANE_HOME": str(self.folder / "home"), "HOME": str(self.folder), **self.extra}

    def with_env(self, **extra: str) -> Client:
        """The same person on the same machine, with these variables set for `tp`."""
        return replace(self, extra={**self.extra, **extra})

    def tp(
        self, *arguments: str, code: int | None = 0, cwd: Path | None = None, text: str = "", timeout: float = 120
    ) -> Answer:
        """Run `tp`; by default it must exit 0."""
        done = subprocess.run(
            [BIN / "tp", *arguments],
            env=self.env,
            cwd=cwd or self.lab,
            input=text,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        answer = Answer(done.returncode, done.stdout, done.stderr)
        assert code is None or answer.code == code, (
            f"tp {' '.join(arguments)}: exit {answer.code}\n{answer.out}\n{answer.err}"
        )
        assert "Traceback" not in answer.err, answer.err
        return answer

    def prepare(self, *, typed: bool = False) -> Client:
        """A lab and a login. `typed`: with `tp` itself; else what it does is done in this process, where no interpreter starts."""
        self.folder.mkdir(parents=True, exist_ok=True)
        if typed:
            self.tp("init", str(self.lab), cwd=self.folder)
            self.tp("login", self.console.url, "--token-stdin", text=self.token + "\n")
            return self
        create_lab(self.lab)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(HOME_VARIABLE, self.env[HOME_VARIABLE])
            save_login(name_for(self.console.url), self.console.url, self.token, self.api("/me")["username"])
        return self

    def new(self, name: str, method: str) -> Path:
        self.tp("new", name, "--method", method)
        return self.lab / "experiments" / name

    def submit(self, name: str, *options: str) -> str:
        """Submit on the CPU profile; the run id."""
        run: str = self.tp("submit", name, "--profile", "cpu", *options, "--json").json["id"]
        return run

    def show(self, run: str) -> dict[str, Any]:
        """What `tp job show --json` prints, without a process for each look."""
        job: dict[str, Any] = self.api(f"/jobs/{run}")
        return job

    def printed(self, run: str) -> list[str]:
        """The lines that the newest attempt's main rank has printed so far."""
        try:
            return self.read(f"/jobs/{run}/logs/raw").decode().splitlines()
        except urllib.error.HTTPError as error:
            if error.code != 404:  # it has not printed anything
                raise
            return []

    def wait(self, run: str, phase: str = "succeeded", seconds: float = 480) -> dict[str, Any]:
        """The job once it is terminal; it must be `phase`."""
        self.tp("job", "wait", run, "--timeout", str(int(seconds)), code=None, timeout=seconds + 30)
        job = self.show(run)
        if job["phase"] != phase:
            logs = self.tp("job", "logs", run, "--no-follow", code=None).out
            raise AssertionError(
                f"phase {job['phase']}, not {phase}: {job['reason']}\n{logs[-6000:]}\n{self.console.log()[-3000:]}"
            )
        return job

    def curve(self, run: str, name: str) -> list[tuple[int, float]]:
        """(step, value) of one metric of the main rank, attempts spliced."""
        series = self.tp("job", "metrics", run, name, "--json").json["series"][name]
        return [point for part in series for point in zip(part["step"], part["value"], strict=True)]

    def api(self, path: str) -> Any:
        return json.loads(self.read(path))

    def read(self, path: str) -> bytes:
        request = urllib.request.Request(
            f"{self.console.url}/api/v1{path}", headers={"Authorization": f"Bearer {self.token}"}
        )
        with urllib.request.urlopen(request, timeout=60) as reply:
            content: bytes = reply.read()
            return content
