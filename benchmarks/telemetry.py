"""Reading what runs reported, over real HTTP: a curve of five million points, twenty runs side by side, the end of a log of 5 GB."""

from __future__ import annotations

import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

import httpx2

from benchmarks import ingest_servers as servers
from benchmarks.ingest_clients import Trackio, rows
from benchmarks.measure import Result
from benchmarks.telemetry_seed import Runs, add_log, add_points, make_runs

POINTS, FEWER = 5_000_000, 500_000
SIDE_BY_SIDE, METRICS, EACH = 20, [f"train/metric_{index}" for index in range(5)], 50_000
LOG_BYTES = 5 * 10**9
REQUESTS = 15
TRACKIO_POINTS, MLFLOW_POINTS = 100_000, 1_000_000
KB, MB = 1000, 10**6


def run() -> list[Result]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        results = _on("SQLite", f"sqlite+aiosqlite:///{folder}/bench.db", folder, trackio=_trackio(), mlflow=_mlflow())
    with servers.durable_postgres() as (server, _pid), tempfile.TemporaryDirectory() as name:
        server.create("bench_telemetry")
        return results + _on("Postgres", server.url("bench_telemetry"), Path(name))


def _on(database: str, url: str, folder: Path, **peers: float) -> list[Result]:
    runs = make_runs(url, folder, SIDE_BY_SIDE + 3)
    long, short, logged, *several = runs.ids
    add_points(runs, [long], ["train/loss"], POINTS)
    add_points(runs, [short], ["train/loss"], FEWER)
    add_points(runs, several, METRICS, EACH)
    add_log(runs, logged, LOG_BYTES)
    with runs.served() as (target, base), _client(base, runs) as client:
        curve = _timed(client, f"/api/v1/jobs/{long}/curves?name=train/loss")
        fewer = _timed(client, f"/api/v1/jobs/{short}/curves?name=train/loss")
        query = urlencode([("run", one) for one in several] + [("name", name) for name in METRICS])
        many = _timed(client, f"/api/v1/curves?{query}&max_points=200")
        # The first look: nothing of this log is in the database's cache yet.
        read = _bytes_read(target.pids[0], lambda: client.get(f"/api/v1/jobs/{logged}/logs?tail=100"))
        tail = _timed(client, f"/api/v1/jobs/{logged}/logs?tail=100")
    of = f"a curve of {POINTS:,} points, {database}"
    results = [
        Result(of, curve[0], "ms", f"the same of {FEWER:,}", fewer[0], "≤ 150 ms, flat"),
        Result(f"{of}, size", curve[1] / KB, "KB", target="≤ 64 KB"),
        Result(
            f"{SIDE_BY_SIDE} runs × {len(METRICS)} metrics of {EACH:,} points, {database}",
            many[0],
            "ms",
            target="≤ 400 ms",
        ),
        Result(f"last 100 lines of a log of 5 GB, {database}", tail[0], "ms", target="≤ 200 ms"),
    ]
    if database == "SQLite":  # Postgres reads in processes of its own
        results.append(Result("last 100 lines of a log of 5 GB, SQLite, read", read / MB, "MB", target="≤ 2 MB"))
    named = {"trackio": f"trackio, {TRACKIO_POINTS:,} points", "mlflow": f"MLflow, {MLFLOW_POINTS:,} points"}
    return results + [Result(of, curve[0], "ms", named[peer], value) for peer, value in peers.items()]


def _client(base: str, runs: Runs) -> httpx2.Client:
    return httpx2.Client(base_url=base, headers={"Authorization": f"Bearer {runs.token}"}, timeout=60)


def _timed(client: httpx2.Client, path: str) -> tuple[float, int]:
    """(median milliseconds, bytes of the answer)."""
    durations = []
    for _request in range(REQUESTS):
        start = time.perf_counter()
        reply = client.get(path)
        durations.append((time.perf_counter() - start) * 1000)
        assert reply.status_code == 200, reply.text[:500]
    return statistics.median(durations), len(reply.content)


def _bytes_read(pid: int, work: Callable[[], object]) -> int:
    """Bytes that the process read meanwhile, from files and sockets, cached or not."""

    def count() -> int:
        return int(Path(f"/proc/{pid}/io").read_text().split("rchar:")[1].split()[0])

    before = count()
    work()
    return count() - before


def _trackio() -> float:
    """Milliseconds for the log of a run of 100,000 points."""
    with tempfile.TemporaryDirectory() as name, servers.trackio(Path(name), 1) as target:
        url, secret = target.addresses[0]
        sender = Trackio(url, secret, 0, 1, 1000)
        for turn in range(TRACKIO_POINTS // 1000):
            sender.send(turn)
        durations = []
        for _request in range(REQUESTS):
            start = time.perf_counter()
            body = {"args": [], "kwargs": {"project": "bench", "run": "run-0", "run_id": "run-0"}}
            reply = httpx2.post(f"{url}/api/get_logs", json=body, timeout=60)
            durations.append((time.perf_counter() - start) * 1000)
            assert reply.json()["data"], reply.text[:200]
    return statistics.median(durations)


def _mlflow() -> float:
    """Milliseconds for the history of one metric of a million points, as its pages ask for it; the rows are written directly."""
    with tempfile.TemporaryDirectory() as name, servers.mlflow(Path(name), 1) as target:
        base, run_id = target.addresses[0]
        connection = sqlite3.connect(Path(name) / "mlflow.db")
        points = (
            ("train/metric_0", row["train/metric_0"], 1_700_000_000_000 + step, run_id, step, False)
            for step, row in enumerate(rows(1, MLFLOW_POINTS, 0))
        )
        with connection:
            statement = "insert into metrics (key, value, timestamp, run_uuid, step, is_nan) values (?, ?, ?, ?, ?, ?)"
            connection.executemany(statement, points)
        connection.close()
        query = urlencode({"run_ids": run_id, "metric_key": "train/metric_0", "max_results": 500})
        durations = []
        for _request in range(3):
            start = time.perf_counter()
            reply = httpx2.get(f"{base}/ajax-api/2.0/mlflow/metrics/get-history-bulk-interval?{query}", timeout=120)
            durations.append((time.perf_counter() - start) * 1000)
            assert reply.json()["metrics"], reply.text[:200]
    return statistics.median(durations)
