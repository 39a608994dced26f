"""A thousand nodes in one process, as the console meets them: HTTP servers that answer its calls and clients that announce themselves
and report for their runs. No engine is behind them. `python -m benchmarks.nodes_machines PLAN.json`.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx2
import uvicorn
import uvloop

from tuneplane_node.daemon.storage_proof import prove_storage
from tuneplane_node.engine import (
    LABEL_ATTEMPT,
    LABEL_JOB,
    CardSample,
    Gpu,
    Inventory,
    JobSample,
    MachineSample,
    Observed,
)
from tuneplane_node.versions import VERSION
from tuneplane_node.wire import (
    ANNOUNCE_PATH,
    NODE_PATH,
    VERSION_HEADER,
    Announcement,
    ContainerSeen,
    NodeHello,
    StorageChallenge,
    to_json,
)

ANNOUNCE_SECONDS, HEARTBEAT_SECONDS = 10.0, 5.0  # as real ones do
CARDS = 8
CARD_FIGURES = {"use": 97.0, "memory_used": 9.0e10, "temperature": 61.0, "power": 640.0, "ecc_errors": 0.0}
MACHINE_FIGURES = {"cpu": 41.0, "memory_used": 3.1e11, "disk_used": 1.2e12, "net_in": 1.1e6, "net_out": 2.2e6}

type Message = MutableMapping[str, Any]


@dataclass(frozen=True)
class Plan:
    """What the benchmark has written down for this process. `runs`: node -> [run, its ingest token]; `started`: when the daemons were,
    Unix seconds."""

    port: int
    console: str
    token: str
    storage_root: str
    nodes: list[str]
    runs: dict[str, list[str]]
    started: float


class Machine:
    def __init__(self, plan: Plan, name: str) -> None:
        self._plan, self._name = plan, name
        self._root, self._started = Path(plan.storage_root), plan.started
        self._cards = tuple(
            Gpu(n, "h200", "NVIDIA H200", 150 * 10**9, f"{name}-{n}", "580", False) for n in range(CARDS)
        )

    def hello(self) -> NodeHello:
        return NodeHello(
            node_id=f"id-{self._name}",
            name=self._name,
            version=VERSION,
            storage_root=self._plan.storage_root,
            runtime="docker",
            boot_id="boot",
            started_at=self._started,
            time=time.time(),
        )

    def announcement(self) -> Announcement:
        memory, disk = int(time.time()) % 10**9, int(time.time() * 7) % 10**9
        inventory = Inventory(self._name, "x86_64", "6.1", "x", 128, 2 * 10**12, memory, 10**13, disk, self._cards, ())
        return Announcement(self.hello(), f"http://127.0.0.1:{self._plan.port}/{self._name}", inventory)

    def answer(self, call: str, body: bytes) -> Any:
        """What the daemon would say to `GET` or `POST /node/v1/<call>`; None for a call that this benchmark does not make."""
        if call == "/hello":
            return self.hello()
        if call == "/containers":
            return self._containers()
        if call == "/sample":
            return self._sample()
        if call == "/storage":
            challenge = StorageChallenge.from_json(json.loads(body))
            return prove_storage(challenge, self._root, f"id-{self._name}", looks=1, pause=0)
        return None

    def _labels(self) -> dict[str, str] | None:
        run = self._plan.runs.get(self._name)
        return None if run is None else {LABEL_JOB: run[0], LABEL_ATTEMPT: "1"}

    def _containers(self) -> list[ContainerSeen]:
        labels = self._labels()
        if labels is None:
            return []
        running = Observed("running", started_at=datetime.fromtimestamp(self._started, UTC))
        return [ContainerSeen(f"docker/tp-{labels[LABEL_JOB]}-1-0", labels, running)]

    def _sample(self) -> MachineSample:
        labels = self._labels()
        jobs = () if labels is None else (JobSample(labels, {"cpu": 12.0, "memory_used": 8.0e10}),)
        cards = tuple(CardSample(index, False, CARD_FIGURES) for index in range(CARDS))
        return MachineSample(time.time(), self._name, MACHINE_FIGURES, cards, jobs)


class Machines:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._machines = {name: Machine(plan, name) for name in plan.nodes}
        self.announced = self.failed = 0

    async def app(
        self, scope: Message, receive: Callable[[], Awaitable[Message]], send: Callable[[Message], Awaitable[None]]
    ) -> None:
        if scope["type"] != "http":
            return
        name, _slash, call = scope["path"].lstrip("/").partition("/")
        machine, path = self._machines.get(name), f"/{call}".removeprefix(NODE_PATH)
        body = b""
        while (message := await receive())["type"] == "http.request":
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        answer = None if machine is None else machine.answer(path, body)
        content = json.dumps(to_json(answer)).encode()
        headers = [(b"content-type", b"application/json"), (VERSION_HEADER.lower().encode(), VERSION.encode())]
        length = (b"content-length", str(len(content)).encode())
        status = 200 if answer is not None else 404
        await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
        await send({"type": "http.response.body", "body": content})

    async def live(self) -> None:
        """Every node announces itself and every run reports, spread evenly over their intervals."""
        bearer = {"Authorization": f"Bearer {self._plan.token}"}
        limits = httpx2.Limits(max_connections=64, max_keepalive_connections=64)
        async with httpx2.AsyncClient(base_url=self._plan.console, limits=limits, timeout=30) as client:
            names, runs = list(self._machines), [*self._plan.runs.values()]
            async with asyncio.TaskGroup() as tasks:
                for index, name in enumerate(names):
                    tasks.create_task(self._announce(client, name, bearer, index / len(names)))
                for index, (run, token) in enumerate(runs):
                    tasks.create_task(_beat(client, run, token, index / max(1, len(runs))))

    async def _announce(self, client: httpx2.AsyncClient, name: str, headers: dict[str, str], share: float) -> None:
        await asyncio.sleep(share * ANNOUNCE_SECONDS)
        while True:
            begun = time.monotonic()
            try:
                answer = await client.post(
                    ANNOUNCE_PATH, json=self._machines[name].announcement().to_json(), headers=headers
                )
                self.announced += answer.status_code == httpx2.codes.OK
                self.failed += answer.status_code != httpx2.codes.OK
            except httpx2.HTTPError:
                self.failed += 1
            await asyncio.sleep(max(0.0, ANNOUNCE_SECONDS - (time.monotonic() - begun)))


async def _beat(client: httpx2.AsyncClient, run: str, token: str, share: float) -> None:
    await asyncio.sleep(share * HEARTBEAT_SECONDS)
    while True:
        beat = {"attempt": 1, "rank": 0, "state": "running", "time": time.time()}
        try:
            await client.post(
                f"/ingest/v1/jobs/{run}/heartbeat", json=beat, headers={"Authorization": f"Bearer {token}"}
            )
        except httpx2.HTTPError as error:
            print(f"heartbeat: {type(error).__name__}", file=sys.stderr)
        await asyncio.sleep(HEARTBEAT_SECONDS)


async def _main(plan: Plan) -> None:
    machines = Machines(plan)
    config = uvicorn.Config(
        machines.app,
        "127.0.0.1",
        plan.port,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        access_log=False,
        timeout_keep_alive=30,  # as a daemon does
        interface="asgi3",  # a bound method is taken for something else
    )
    serving = asyncio.create_task(uvicorn.Server(config).serve())
    living = asyncio.create_task(machines.live())
    await asyncio.wait((serving, living), return_when=asyncio.FIRST_COMPLETED)
    living.cancel()
    print(json.dumps({"announced": machines.announced, "failed": machines.failed}), flush=True)


if __name__ == "__main__":
    os.nice(5)  # they stand for machines that have processors of their own: the console's are not theirs
    asyncio.run(_main(Plan(**json.loads(Path(sys.argv[1]).read_text()))), loop_factory=uvloop.new_event_loop)
