"""Cost of one `log()` of 8 scalars on the calling thread: alone beside its peers, and within a job whose console is up, down, slow
or answering 503. Every point is counted at the end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from threading import Event

from benchmarks.measure import Result
from benchmarks.peers import peer_env, peer_python
from tests.tuneplane.runner.ingest_server import IngestServer
from tests.tuneplane.runner.job_folder import JOB, JobFolder
from tuneplane.runner.leftovers import ship_leftovers

CALLS, PACED_CALLS, PER_SECOND, SCALARS = 20_000, 400, 200, 8
SLOW_SECONDS = 3.0  # how long a slow console takes for each answer

BODY = """
import json, os, sys, time, statistics
calls, paced, per_second = {calls}, {paced}, {per_second}
values = {{"train/m%d" % i: 0.5 + i for i in range({scalars})}}
def series(count, pause, first):
    costs = []
    for step in range(first, first + count):
        start = time.perf_counter()
        log(values, step)
        costs.append(time.perf_counter() - start)
        if pause: time.sleep(pause)
    return sorted(costs)
setup()
paced_costs = series(paced, 1 / per_second, 0)
full = series(calls, 0, paced)
start = time.perf_counter()
finish()
finish_s = time.perf_counter() - start
everything = sorted(paced_costs + full)
result = {{"median": statistics.median(full), "p999": everything[int(len(everything) * .999)], "paced": statistics.median(paced_costs),
    "finish": finish_s}}
if "RESULT_FILE" in os.environ:
    with open(os.environ["RESULT_FILE"], "w") as file: json.dump(result, file)
print("RESULT " + json.dumps(result))
sys.stdout.flush()
os._exit(0)  # a peer's own clean-up after finish() is not what is measured
"""
OURS = """
import tuneplane.report as report
def setup(): report.init()
def log(values, step): report.log(values, step)
def finish(): report.finish()
"""
PEERS = {
    "trackio": """
import trackio
def setup(): trackio.init(project="bench", embed=False, auto_log_gpu=False, auto_log_cpu=False)
def log(values, step): trackio.log(values, step=step)
def finish(): trackio.finish()
""",
    "wandb offline": """
import wandb
def setup():
    global run
    run = wandb.init(project="bench", mode="offline", settings=wandb.Settings(silent=True, x_disable_stats=True))
def log(values, step): run.log(values, step=step)
def finish(): run.finish()
""",
    "TensorBoard": """
from tensorboardX import SummaryWriter
def setup():
    global writer
    writer = SummaryWriter("events")
def log(values, step):
    for name, value in values.items():
        writer.add_scalar(name, value, step)
def finish(): writer.close()
""",
    "Aim": """
from aim import Run
def setup():
    global run
    run = Run(repo=".", system_tracking_interval=None, log_system_params=False, capture_terminal_logs=False)
def log(values, step):
    for name, value in values.items():
        run.track(value, name=name, step=step)
def finish(): run.close()
""",
}
Costs = dict[str, float]


def run() -> list[Result]:
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "report").mkdir()
        ours = _measure(OURS, Path(sys.executable), {**os.environ, "TUNEPLANE_REPORT_DIR": str(root / "report")}, root)
        results.append(_arrived("alone", _points(root / "report")))
        for peer, prelude in PEERS.items():
            (root / peer).mkdir()
            results += _beside(ours, peer, _measure(prelude, peer_python(), peer_env(root / peer), root / peer))
        for state in ("up", "down", "slow", "503"):
            results += _in_a_job(state, root / f"job-{state}")
    return results


def _beside(ours: Costs, peer: str, theirs: Costs) -> list[Result]:
    rows = [
        ("report.log of 8 scalars, full speed, median", "median", "≤ 5 µs"),
        ("report.log of 8 scalars, p99.9", "p999", "≤ 1000 µs"),
        ("report.log of 8 scalars, 200 a second, median", "paced", "≤ 20 µs"),
    ]
    found = [Result(name, ours[key] * 1e6, "µs", peer, theirs[key] * 1e6, target) for name, key, target in rows]
    return [
        *found,
        Result("report.finish after 20,000 calls", ours["finish"], "s", peer, theirs["finish"], "≤ 2 s"),
    ]


def _measure(prelude: str, python: Path, env: dict[str, str], folder: Path) -> Costs:
    done = subprocess.run(
        [python, "-c", prelude + _body()],
        env=env,
        cwd=folder,
        check=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        timeout=300,
    )
    line = next(line for line in done.stdout.splitlines() if line.startswith("RESULT "))
    result: Costs = json.loads(line.removeprefix("RESULT "))
    return result


class SlowConsole(IngestServer):
    """Takes its time for every batch until `hurry` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.hurry = Event()

    def _store(self, request: BaseHTTPRequestHandler, body: bytes, fault: str) -> None:
        self.hurry.wait(SLOW_SECONDS)
        super()._store(request, body, fault)


def _in_a_job(state: str, root: Path) -> list[Result]:
    """The same calls in a trainer under the real runner, whose console is in this state; it recovers before points are counted."""
    console = SlowConsole() if state == "slow" else IngestServer()
    if state != "down":
        console.start()
    if state == "503":
        console.faults.extend(["503"] * 10_000)
    files = {"train.py": OURS + _body()}
    job = JobFolder(root, {"train.sh": 'exec "$TUNEPLANE_PYTHON" train.py', **files}, console.url(JOB), _short_drain)
    result_file = root / "result.json"
    try:
        job.run(TUNEPLANE_ENV_RESULT_FILE=str(result_file))
        costs: Costs = json.loads(result_file.read_text())
        if isinstance(console, SlowConsole):
            console.hurry.set()
        console.faults.clear()
        if state == "down":
            console.start()
        ship_leftovers(job.spool, console.url(JOB), console.token, 60)
    finally:
        console.stop()
    where = f"in a job, console {state}"
    return [
        Result(f"report.log of 8 scalars, {where}, full speed, median", costs["median"] * 1e6, "µs", target="≤ 5 µs"),
        Result(f"report.log of 8 scalars, {where}, 200 a second, median", costs["paced"] * 1e6, "µs", target="≤ 20 µs"),
        Result(f"report.log of 8 scalars, {where}, p99.9", costs["p999"] * 1e6, "µs", target="≤ 1000 µs"),
        Result(f"report.finish, {where}", costs["finish"], "s", target="≤ 2 s"),
        _arrived(where, _stored(console)),
    ]


def _short_drain(capsule: dict[str, object]) -> None:
    ingest = capsule["ingest"]
    assert isinstance(ingest, dict)
    ingest["drain_seconds"] = 1.0


def _body() -> str:
    return BODY.format(calls=CALLS, paced=PACED_CALLS, per_second=PER_SECOND, scalars=SCALARS)


def _arrived(where: str, points: int) -> Result:
    expected = SCALARS * (CALLS + PACED_CALLS)
    return Result(f"points that arrived, {where}", points, "points", "points logged", expected, "all")


def _points(folder: Path) -> int:
    """Points in the reporter's files: what the runner would read."""
    total = 0
    for path in folder.glob("*.ndjson"):
        for line in path.read_text().splitlines():
            record = json.loads(line)
            if record["k"] == "m":
                total += sum(len(columns["value"]) for columns in record["series"].values())
    return total


def _stored(console: IngestServer) -> int:
    return sum(len(columns["value"]) for record in console.records("metric") for columns in record["series"].values())
