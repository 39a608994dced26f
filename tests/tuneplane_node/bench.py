"""What the contract tests share: engines on one runtime, requests for small shell jobs, waiting on conditions."""

from __future__ import annotations

import asyncio
import errno
import os
import time
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2

from tuneplane_node.engine import (
    LABEL_ATTEMPT,
    LABEL_JOB,
    Engine,
    LaunchRequest,
    Mount,
    Observed,
    RuntimeHandle,
)

IMAGE = "localhost/tuneplane-test/node:1"
PATIENCE = 60.0  # seconds until a condition that has to come is given up


async def until[T](look: Callable[[], T], wanted: Callable[[T], bool]) -> T:
    """Look again and again until the answer is the wanted one."""

    async def looked() -> T:
        return look()

    return await until_told(looked, wanted)


async def until_told[T](ask: Callable[[], Awaitable[T]], wanted: Callable[[T], bool]) -> T:
    """As `until`, for what has to be awaited."""
    deadline = time.monotonic() + PATIENCE
    while True:
        answer = await ask()
        if wanted(answer):
            return answer
        assert time.monotonic() < deadline, f"still {answer!r} after {PATIENCE:.0f} s"
        await asyncio.sleep(0.02)


class Bench:
    """One runtime. `directory` is the same path inside every job, so files there are how jobs and tests meet."""

    def __init__(self, runtime: str, address: str, image: str | None, tmp_path: Path) -> None:
        self.runtime = runtime
        self.address = address
        self.image = image
        self.directory = tmp_path / "shared"
        self.directory.mkdir()
        self.state_root = tmp_path / "state"
        self.instance = f"test-{uuid.uuid4().hex[:12]}"
        self._prefix = f"tp-{uuid.uuid4().hex[:12]}"
        self._engines: list[Engine] = []
        self.engine = self.new_engine()

    def engine_options(self) -> dict[str, Any]:
        return {"runtime": self.runtime, "docker_host": self.address, "podman_host": self.address}

    def new_engine(self, instance: str | None = None, **options: Any) -> Engine:
        """Another engine over the same state, as a console that was started again has."""
        engine = Engine(instance or self.instance, self.state_root, **{**self.engine_options(), **options})
        self._engines.append(engine)
        return engine

    def name(self, suffix: str = "job") -> str:
        return f"{self._prefix}-{suffix}"

    def handle(self, suffix: str = "job") -> RuntimeHandle:
        return RuntimeHandle(self.runtime, self.name(suffix))

    def request(self, script: str, suffix: str = "job", **fields: Any) -> LaunchRequest:
        """A job that runs `script` in sh."""
        fields.setdefault("command", ["sh", "-c", script])
        fields.setdefault("labels", {LABEL_JOB: "0123456789abcdef", LABEL_ATTEMPT: "1"})
        fields.setdefault("image", self.image)
        fields["mounts"] = [Mount(str(self.directory), str(self.directory)), *fields.get("mounts", ())]
        return LaunchRequest(name=self.name(suffix), **fields)

    async def launch(self, script: str, suffix: str = "job", **fields: Any) -> RuntimeHandle:
        return await self.engine.launch(self.request(script, suffix, **fields))

    async def ended(self, handle: RuntimeHandle, engine: Engine | None = None) -> Observed:
        return await until_told(lambda: (engine or self.engine).observe(handle), lambda seen: seen.state == "exited")

    async def exists(self, name: str) -> Path:
        path = self.directory / name
        await until(path.exists, bool)
        return path

    def waiting_job(self, code: int = 0) -> str:
        """A script that says `ready` and ends with `code` when the file `go` appears."""
        return f"touch {self.directory}/ready; while [ ! -e {self.directory}/go ]; do sleep 0.05; done; exit {code}"

    def let_go(self) -> None:
        (self.directory / "go").touch()

    def fifo(self, name: str) -> Path:
        path = self.directory / name
        os.mkfifo(path)
        return path

    def api(self) -> httpx2.Client:
        """Straight to the container engine, beside the product."""
        transport = httpx2.HTTPTransport(uds=self.address.removeprefix("unix://"))
        return httpx2.Client(transport=transport, base_url="http://engine/v1.40", timeout=60)

    async def clean(self) -> None:
        engine = self.new_engine()
        for container in await engine.owned():
            await engine.cleanup(container.handle)
        for each in self._engines:
            await each.close()


def is_held(fifo: Path) -> bool:
    """Whether any process has the fifo open for reading: the proof that somebody lives, whatever its namespace."""
    try:
        os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
    except OSError as problem:
        if problem.errno == errno.ENXIO:
            return False
        raise
    return True


def command_lines() -> list[tuple[int, str]]:
    """Pid and command line of every process of this machine."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                found.append((int(entry.name), (entry / "cmdline").read_bytes().decode(errors="replace")))
            except (FileNotFoundError, ProcessLookupError):
                continue  # ended meanwhile
    return found
