"""Output as it comes: how soon a line can be read while others print a lot, what followers cost, fifty runs at once for a while."""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx2

from benchmarks.ingest_servers import Target
from benchmarks.measure import Result
from benchmarks.stream_clients import TICK
from benchmarks.telemetry_seed import Runs, make_runs

MINUTES = float(os.environ.get("TUNEPLANE_BENCH_MINUTES", "1"))  # of fifty runs at once; ten for the promise itself
PRINTING, BYTES_PER_SECOND, PRINT_SECONDS = 4, 2_500_000, 20.0
FLOOD_SECONDS, NEIGHBOURS, QUIET_RATE = 60.0, 3, 4_000
FOLLOWERS, FOLLOW_SECONDS = 100, 10.0
RUNNERS, PROCESSES = 50, 2


def run() -> list[Result]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        runs = make_runs(f"sqlite+aiosqlite:///{folder}/bench.db", folder, RUNNERS + 2 * PRINTING + 1)
        with runs.served() as (target, base):
            results = _followers(runs, target, base)
            results += _printing(runs, base, runs.ids[1 : 1 + PRINTING])
            results += _flood(runs, base, runs.ids[1 + PRINTING : 1 + 2 * PRINTING])
            return results + _many(runs, target, base, runs.ids[-RUNNERS:])


def _printing(runs: Runs, base: str, ids: Sequence[str]) -> list[Result]:
    with _watching(runs, base, ids) as lags:
        _wait([_client(runs, base, "log", PRINT_SECONDS, BYTES_PER_SECOND, [one]) for one in ids])
    seen = [lag for of_run in lags.values() for lag in of_run]
    rate = len(ids) * BYTES_PER_SECOND / 1e6
    return [Result(f"a line can be read, {len(ids)} runs print {rate:.0f} MB/s, p95", _p95(seen), "s", target="≤ 2 s")]


def _flood(runs: Runs, base: str, ids: Sequence[str]) -> list[Result]:
    """Scenario 12 in its real size: a gigabyte in a minute from the first of them, a little from the others."""
    loud, *quiet = ids
    with _watching(runs, base, quiet) as lags:
        clients = [_client(runs, base, "log", FLOOD_SECONDS, QUIET_RATE, [one]) for one in quiet]
        flood = _client(runs, base, "log", FLOOD_SECONDS, 0, [loud])
        (sent, *_others) = _wait([flood, *clients])
    seen = [lag for of_run in lags.values() for lag in of_run]
    assert sent["errors"] == 0
    return [
        Result("printed by the run that floods", sent["printed"] / 1e6, "MB", target=f"in {FLOOD_SECONDS:.0f} s"),
        Result("a neighbour's line can be read meanwhile, p95", _p95(seen), "s", target="≤ 2 s"),
    ]


def _followers(runs: Runs, target: Target, base: str) -> list[Result]:
    job = runs.ids[0]
    client = _client(runs, base, "log", 2 * FOLLOW_SECONDS, QUIET_RATE, [job])
    time.sleep(FOLLOW_SECONDS / 2)
    before, after = asyncio.run(_follow(runs, target, base, job))
    _wait([client])
    return [Result(f"memory for {FOLLOWERS} followers of a log", after - before, "MB", target="≤ 50 MB")]


async def _follow(runs: Runs, target: Target, base: str, job: str) -> tuple[float, float]:
    """MB before and while they follow: each has the stream open and reads the end of the log whenever there is something new."""
    limits = httpx2.Limits(max_connections=2 * FOLLOWERS)
    headers = {"Authorization": f"Bearer {runs.token}"}
    async with httpx2.AsyncClient(base_url=base, headers=headers, timeout=60, limits=limits) as http:
        await http.get(f"/api/v1/jobs/{job}/logs?tail=100")
        before = await asyncio.to_thread(target.memory_now)
        looks = [0] * FOLLOWERS

        async def follow(number: int) -> None:
            async with http.stream("GET", f"/api/v1/jobs/{job}/stream") as events:
                async for line in events.aiter_lines():
                    if line == "event: logs":
                        reply = await http.get(f"/api/v1/jobs/{job}/logs?tail=100")
                        looks[number] += reply.status_code == 200

        tasks = [asyncio.create_task(follow(number)) for number in range(FOLLOWERS)]
        await asyncio.sleep(FOLLOW_SECONDS)
        after = await asyncio.to_thread(target.memory_now)
        assert min(looks) > 0, "every follower has seen something"
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return before, after


def _many(runs: Runs, target: Target, base: str, ids: Sequence[str]) -> list[Result]:
    seconds = MINUTES * 60
    shares = [ids[number::PROCESSES] for number in range(PROCESSES)]
    with target.memory() as memory:
        found = _wait([_client(runs, base, "runners", seconds, 0, share) for share in shares], seconds)
    third = len(memory) // 3
    early, late = statistics.median(memory[third : 2 * third]), statistics.median(memory[2 * third :])
    named = f"{len(ids)} runs at once for {MINUTES:g} min"
    return [
        Result(f"{named}: requests", sum(one["requests"] for one in found), "requests"),
        Result(f"{named}: refused or failed", sum(one["errors"] + one["later"] for one in found), "", target="none"),
        Result(f"{named}: memory, last third", late, "MB", "middle third", early, "flat"),
    ]


def _client(runs: Runs, base: str, kind: str, seconds: float, rate: int, ids: Sequence[str]) -> subprocess.Popen[bytes]:
    secrets = dict(zip(runs.ids, runs.ingest, strict=True))
    targets = [part for one in ids for part in (f"{base}/ingest/v1/jobs/{one}", secrets[one])]
    argv = [sys.executable, "-m", "benchmarks.stream_clients", kind, str(seconds), str(rate), *targets]
    return subprocess.Popen(argv, stdout=subprocess.PIPE)


def _wait(clients: Sequence[subprocess.Popen[bytes]], seconds: float = PRINT_SECONDS) -> list[dict[str, float]]:
    return [json.loads(client.communicate(timeout=seconds + 240)[0]) for client in clients]


@contextmanager
def _watching(runs: Runs, base: str, ids: Sequence[str]) -> Iterator[dict[str, list[float]]]:
    """Run -> for each look at the end of its log, seconds since the oldest line was printed that this look was the first to show.

    A look is what somebody's page does: the stream says that there is something new, and the end of the log is read.
    """
    lags: dict[str, list[float]] = {one: [] for one in ids}
    ended = threading.Event()

    def watch(job: str) -> None:
        shown = 0.0  # when the newest line was printed that was seen so far
        headers = {"Authorization": f"Bearer {runs.token}"}
        with (
            httpx2.Client(base_url=base, headers=headers, timeout=60) as http,
            http.stream("GET", f"/api/v1/jobs/{job}/stream") as events,
        ):
            for line in events.iter_lines():
                if ended.is_set():
                    return
                if line != "event: logs":
                    continue
                items = http.get(f"/api/v1/jobs/{job}/logs?tail=2000").json()["items"]
                now = time.time()
                newest = max((float(one["text"][2:]) for one in items if one["text"].startswith("T ")), default=0.0)
                if newest > shown:
                    if shown:
                        lags[job].append(now - (shown + TICK))
                    shown = newest

    threads = [threading.Thread(target=watch, args=(one,), daemon=True) for one in ids]
    for thread in threads:
        thread.start()
    try:
        yield lags
    finally:
        ended.set()


def _p95(lags: Sequence[float]) -> float:
    assert len(lags) >= 10, "too few looks"
    return statistics.quantiles(lags, n=20)[-1]
