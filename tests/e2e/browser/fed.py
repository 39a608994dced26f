"""A real console in a thread of the test's process: the test feeds runs over the wire, as a runner does, and measures hardware."""

from __future__ import annotations

import asyncio
import json
import math
import socket
import threading
import time
import urllib.request
from collections.abc import Coroutine
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvicorn

from tests.proxies import Proxy
from tests.tuneplane_server.conftest import _migrate
from tests.tuneplane_server.executors.scripted import ScriptedExecutor
from tests.tuneplane_server.harness import Api, Harness, gpu_pool, jobspec
from tuneplane_server.executors.port import CardFigures, NodeFigures, RunFigures
from tuneplane_server.features.accounts.principal import SCOPES, Principal

USER, PASSWORD = "ann", "four quiet words here"
STEPS = 1200  # more than a chart asks for, so that zooming has something to add
WAIT = 60


class FedConsole:
    """`url` of the console; `runs`: two of its runs that have reported; `proxied`: a way to it through two proxies."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._ready = folder, threading.Event()
        self._loop = asyncio.new_event_loop()
        self._seqs: dict[tuple[str, str, int], int] = {}
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.error: Exception | None = None
        self._thread.start()
        assert self._ready.wait(WAIT)
        if self.error is not None:
            raise self.error

    def do[T](self, what: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the console's event loop."""
        return asyncio.run_coroutine_threadsafe(what, self._loop).result(WAIT)

    def feed(self, run: str, stream: str, *, rank: int = 0, **line: Any) -> None:
        """Post one line of the wire."""
        seq = self._seqs[run, stream, rank] = self._seqs.get((run, stream, rank), 0) + 1
        body = json.dumps({"attempt": 1, "rank": rank, "stream": stream, "seq": seq, **line}).encode() + b"\n"
        request = urllib.request.Request(
            f"{self.url}/ingest/v1/jobs/{run}/batches",
            body,
            {"Authorization": f"Bearer {self.tokens[run]}", "Content-Type": "application/x-ndjson"},
        )
        with urllib.request.urlopen(request, timeout=WAIT) as answer:
            assert answer.status == 200

    def points(self, run: str, first: int, count: int) -> None:
        """Reward, KL and tokens of some steps."""
        steps = list(range(first, first + count))
        shapes = {
            "train/reward": [1 - math.exp(-step / 300) for step in steps],
            "train/kl": [step / 20_000 for step in steps],
            "train/num_tokens": [step * 512.0 for step in steps],
            "train/loss": ["NaN" if step == 600 else 1 / step for step in steps],
        }
        times = [self.began + step for step in steps]
        self.feed(
            run, "metric", series={name: {"step": steps, "time": times, "value": v} for name, v in shapes.items()}
        )

    def sample(self, run: str, step: int, text: str, reward: float) -> None:
        data = {"prompt": "1+1=", "completion": text, "reward": reward, "rewards": {"accuracy": reward, "format": -0.1}}
        self.feed(
            run, "sample", samples=[{"kind": "completion", "step": step, "time": self.began + step, "data": data}]
        )

    def measure(self, moment: int, use: float) -> None:
        """What the machine and the two cards of the first run do at a moment."""
        cards = tuple(
            CardFigures(index, False, {"use": use, "memory_used": 40e9, "temperature": 61.0, "power": 500.0})
            for index in range(2)
        )
        node = {"cpu": 25.0, "memory_used": 64e9, "disk_used": 1e12, "net_in": 1e6, "net_out": 2e6}
        runs = (RunFigures(self.runs[0], 1, {"cpu": 3.5, "memory_used": 9e9}),)
        figures = NodeFigures("node", self.began + moment, node, cards, runs)
        self.do(self.harness.services.figures.record(figures))

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(WAIT)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._main())
        except Exception as error:  # noqa: BLE001 - told to whoever waits for the console
            self.error = error
        finally:
            self._ready.set()

    async def _main(self) -> None:
        url = f"sqlite+aiosqlite:///{self._folder}/console.db"
        await _migrate(url)
        self.harness = harness = Harness(url, self._folder, ScriptedExecutor(), {"TUNEPLANE_HARDWARE_SECONDS": "2"})
        harness.scripted.invented = False
        harness.time.now = datetime.now(UTC)
        self.began = time.time() - 3600
        row = await harness.services.accounts.add_user(USER, PASSWORD, admin=True, actor="test")
        ann = Principal(row.id, row.username, row.admin, frozenset(SCOPES))
        await harness.bring_package(ann)
        specs = [jobspec(resources=gpu_pool(2), config={"beta": beta}) for beta in (0.04, 0.1)]
        for spec, name in zip(specs, ("grpo", "grpo-warm"), strict=True):
            spec["metadata"] |= {"display_name": name}
        self.runs = [await harness.running_job(ann, spec) for spec in specs]
        self.tokens = {run: await harness.services.ingest.issue(run, 1) for run in self.runs}
        app = Api.over(harness).app
        listener = socket.create_server(("127.0.0.1", 0))  # who comes before the server listens waits in its line
        # Whoever follows a run when the test is over need not be waited for.
        config = uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=1)
        self._server = uvicorn.Server(config)
        serving = asyncio.create_task(self._server.serve([listener]))
        port = listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.inner = await Proxy(port, buffers=False).start()
        self.outer = await Proxy(self.inner.port).start()
        self.proxied = f"http://127.0.0.1:{self.outer.port}"
        self._ready.set()
        await serving
        await self.outer.stop()
        await self.inner.stop()
        await harness.close()
