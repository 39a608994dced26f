"""Cost of one `log()` of 8 scalars on the calling thread, at full speed and paced; every point counted at the end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.measure import Result
from benchmarks.peers import peer_env, peer_python

CALLS, PACED_CALLS, PER_SECOND = 20_000, 400, 200

BODY = """
import json, sys, time, statistics
calls, paced, per_second = {calls}, {paced}, {per_second}
values = {{"train/m%d" % i: 0.5 + i for i in range(8)}}
def series(count, pause):
    costs = []
    for step in range(count):
        start = time.perf_counter()
        log(values, step)
        costs.append(time.perf_counter() - start)
        if pause: time.sleep(pause)
    return costs
setup()
paced_costs = series(paced, 1 / per_second)
full = series(calls, 0)
start = time.perf_counter()
finish()
finish_s = time.perf_counter() - start
full.sort()
print("RESULT " + json.dumps({{"median": statistics.median(full), "p999": full[int(len(full) * .999)],
    "paced": statistics.median(paced_costs), "finish": finish_s}}))
"""
OURS = """
import tuneplane.report as report
def setup(): report.init()
def log(values, step): report.log(values, step)
def finish(): report.finish()
"""
TRACKIO = """
import trackio
def setup(): trackio.init(project="bench", embed=False, auto_log_gpu=False, auto_log_cpu=False)
def log(values, step): trackio.log(values, step=step)
def finish(): trackio.finish()
"""


def run() -> list[Result]:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        ours = _measure(OURS, Path(sys.executable), {**os.environ, "TUNEPLANE_REPORT_DIR": str(root)}, calls=CALLS)
        arrived = _points(root)
        peer = _measure(TRACKIO, peer_python(), peer_env(root), calls=CALLS)
    expected = 8 * (CALLS + PACED_CALLS)
    return [
        Result(
            "report.log of 8 scalars, full speed, median",
            ours["median"] * 1e6,
            "µs",
            "trackio",
            peer["median"] * 1e6,
            "≤ 5 µs",
        ),
        Result(
            "report.log of 8 scalars, full speed, p99.9",
            ours["p999"] * 1e6,
            "µs",
            "trackio",
            peer["p999"] * 1e6,
            "≤ 1000 µs",
        ),
        Result(
            "report.log of 8 scalars, 200 a second, median",
            ours["paced"] * 1e6,
            "µs",
            "trackio",
            peer["paced"] * 1e6,
            "≤ 20 µs",
        ),
        Result("report.finish after 20,000 calls", ours["finish"], "s", "trackio", peer["finish"], "≤ 2 s"),
        Result("points that arrived", arrived, "points", "points logged", expected, "all"),
    ]


def _measure(prelude: str, python: Path, env: dict[str, str], calls: int) -> dict[str, float]:
    code = prelude + BODY.format(calls=calls, paced=PACED_CALLS, per_second=PER_SECOND)
    done = subprocess.run(
        [python, "-c", code],
        env=env,
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=300,
    )
    line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT "))
    result: dict[str, float] = json.loads(line.removeprefix("RESULT "))
    return result


def _points(folder: Path) -> int:
    """Points in the reporter's files: what the runner would read."""
    total = 0
    for path in folder.glob("*.ndjson"):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            if record["k"] == "m":
                total += sum(len(columns["value"]) for columns in record["series"].values())
    return total
