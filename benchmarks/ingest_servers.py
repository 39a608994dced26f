"""The servers of the ingest benchmark, each in processes of its own: the console, trackio's and MLflow's."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from benchmarks.measure import answers, cpu_seconds, free_port, memory_mb, stop, tree, wait_for
from benchmarks.peers import ROOT, peer_env, peer_python
from tests.services import postgres
from tests.services.databases import PostgresServer
from tests.services.session import ServiceSession
from tuneplane_server.clock import SYSTEM_CLOCK
from tuneplane_server.db.engine import Database
from tuneplane_server.features.ingest.tokens import IngestTokens

SAMPLE_SECONDS = 0.25
START_SECONDS = 180


@dataclass
class Target:
    """Where clients send. `addresses`: (URL, secret) of each client; `pids`: roots of the process trees that are the server,
    `database_pids`: those of a database server beside it."""

    addresses: list[tuple[str, str]]
    pids: list[int]
    database_pids: list[int] = field(default_factory=list)
    base: str = ""

    def cpu(self) -> tuple[float, float]:
        """Seconds used so far by the server and by its database."""
        return cpu_seconds(_trees(self.pids)), cpu_seconds(_trees(self.database_pids))

    def memory_now(self) -> float:
        """The server's memory (PSS, MB)."""
        return memory_mb(_trees(self.pids))

    @contextmanager
    def memory(self) -> Iterator[list[float]]:
        """Fills the list with the server's memory (PSS, MB) four times a second."""
        samples: list[float] = []
        ended = threading.Event()

        def watch() -> None:
            while not ended.wait(SAMPLE_SECONDS):
                samples.append(self.memory_now())

        thread = threading.Thread(target=watch, daemon=True)
        thread.start()
        try:
            yield samples
        finally:
            ended.set()
            thread.join()


def job(client: int) -> str:
    return f"{client:016d}"


@contextmanager
def durable_postgres() -> Iterator[tuple[PostgresServer, int]]:
    """A PostgreSQL that waits for its disk, as a real one does, and its pid."""
    session = ServiceSession.create()
    try:
        port = session.get("postgres", partial(postgres.start, settings=postgres.DURABLE))["port"]
        record = json.loads((session.folder / "postgres.json").read_text())
        yield PostgresServer(port), record["processes"][0]["pid"]
    finally:
        session.close()


@contextmanager
def console(
    folder: Path, url: str | None, runs: int, database_pids: Sequence[int] = (), module: str | None = None
) -> Iterator[Target]:
    """`tuneplane-server serve` (or another `module`) on `url` (None: SQLite), and tokens for attempt 1 of `runs` runs."""
    url = url or f"sqlite+aiosqlite:///{folder}/console.db"
    port = free_port()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TUNEPLANE_")}
    env = kept | {
        "TUNEPLANE_STORAGE_ROOT": str(folder / "root"),
        "TUNEPLANE_DATABASE_URL": url,
        "TUNEPLANE_RUNTIME": "process",
        "TUNEPLANE_PORT": str(port),
        "PYTHONPATH": str(ROOT),
    }
    argv = [str(Path(sys.executable).parent / "tuneplane-server"), "serve"]
    with _running(
        [sys.executable, "-m", module] if module else argv, env, folder, f"http://127.0.0.1:{port}/readyz"
    ) as pid:
        secrets = asyncio.run(tokens(url, [job(client) for client in range(runs)]))
        base = f"http://127.0.0.1:{port}/ingest/v1/jobs"
        addresses = [(f"{base}/{job(client)}", secret) for client, secret in enumerate(secrets)]
        yield Target(addresses, [pid], list(database_pids), f"http://127.0.0.1:{port}")


async def tokens(url: str, jobs: Sequence[str]) -> list[str]:
    database = Database(url)
    try:
        issuing = IngestTokens(database, SYSTEM_CLOCK)
        return [await issuing.issue(one, 1) for one in jobs]
    finally:
        await database.close()


@contextmanager
def trackio(folder: Path, runs: int) -> Iterator[Target]:
    port, secret = free_port(), "bench-write-token"
    code = f"import trackio; trackio.show(open_browser=False, block_thread=True, server_port={port})"
    env = peer_env(folder) | {"GRADIO_SERVER_PORT": str(port), "TRACKIO_WRITE_TOKEN": secret}
    with _running([str(peer_python()), "-c", code], env, folder, f"http://127.0.0.1:{port}/version") as pid:
        yield Target([(f"http://127.0.0.1:{port}", secret)] * runs, [pid])


@contextmanager
def mlflow(folder: Path, runs: int) -> Iterator[Target]:
    port = free_port()
    base = f"http://127.0.0.1:{port}"
    argv = [str(peer_python().parent / "mlflow"), "server", "--host", "127.0.0.1", "--port", str(port)]
    argv += ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db"]
    with _running(argv, peer_env(folder), folder, f"{base}/health") as pid:
        found = [_mlflow_run(base) for _run in range(runs)]
        yield Target([(base, one) for one in found], [pid])


def _mlflow_run(base: str) -> str:
    body = json.dumps({"experiment_id": "0"}).encode()
    request = urllib.request.Request(f"{base}/api/2.0/mlflow/runs/create", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as reply:
        found: str = json.load(reply)["run"]["info"]["run_id"]
        return found


@contextmanager
def _running(argv: Sequence[str], env: dict[str, str], folder: Path, url: str) -> Iterator[int]:
    log = folder / "server.log"
    with log.open("ab") as output:
        process = subprocess.Popen(argv, env=env, cwd=folder, stdout=output, stderr=output)

    def up() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"{argv[0]} has ended: {log.read_text(errors='replace')[-1500:]}")
        return answers(url)

    try:
        wait_for(url, up, START_SECONDS)
        yield process.pid
    finally:
        stop(process)


def _trees(roots: Sequence[int]) -> list[int]:
    return [pid for root in roots for pid in tree(root)]
