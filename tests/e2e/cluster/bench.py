"""What the tests of a cluster share: one console and its nodes, one experiment that can do anything, and submits without a process each."""

from __future__ import annotations

import copy
import json
import os
import sqlite3
import uuid
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.api import Api
from tests.e2e.harness import Client, wait_until
from tests.services.cluster import Cluster

# Every machine of the job runs this. It tells its place in `machine-<rank>.json`; where there are several, rank 0 listens at the main
# address and each other one says its rank there. Then it prints and reports STEPS numbered lines and points; HOLD is a file, in the
# out dir unless absolute, that it waits for in the middle. DEAF: it ignores SIGTERM, and so does a child in a session of its own, which
# holds a FIFO of the test's.
WORK = """
import json, os, signal, socket, subprocess, sys, time
from pathlib import Path

env = os.environ
out, rank, count = Path(env["TUNEPLANE_OUT_DIR"]), int(env["TUNEPLANE_MACHINE_RANK"]), int(env["TUNEPLANE_MACHINE_COUNT"])
main = env["TUNEPLANE_MAIN_PROCESS_IP"], int(env["TUNEPLANE_MAIN_PROCESS_PORT"])
with open(out / f"launches-{rank}", "a") as file:
    file.write("launched\\n")
if env.get("DEAF"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    held = f"exec 3<>{env['DEAF']}/held-{rank}; touch {env['DEAF']}/up-{rank}; while :; do sleep 1; done"
    subprocess.Popen(["sh", "-c", "trap '' TERM HUP; " + held], start_new_session=True)


def meet():
    if rank == 0:
        with socket.create_server(main) as server:
            met = []
            while len(met) < count - 1:
                connection, _ = server.accept()
                with connection:
                    met.append(int(connection.makefile().readline()))
                    connection.sendall(b"seen\\n")
        return sorted(met)
    deadline = time.monotonic() + 120
    while True:
        try:
            with socket.create_connection(main, timeout=60) as connection:
                connection.sendall(b"%d\\n" % rank)
                return [connection.makefile().readline().strip()]
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


met = meet() if count > 1 else []
names = ("TUNEPLANE_NIC", "TUNEPLANE_CLUSTER_NUM_NODES", "TUNEPLANE_CLUSTER_GPUS_PER_NODE", "GLOO_SOCKET_IFNAME", "TUNEPLANE_ATTEMPT")
told = {"rank": rank, "host": socket.gethostname(), "main": main, "met": met, **{name: env.get(name) for name in names}}
draft = out / f"machine-{rank}.tmp"
draft.write_text(json.dumps(told))
draft.rename(out / f"machine-{rank}.json")

from tuneplane import report
report.init()
steps, pause, hold = int(env.get("STEPS", "1")), float(env.get("PAUSE", "0")), env.get("HOLD")
for step in range(1, steps + 1):
    while hold and step > steps // 2 and not (out / hold).exists():
        time.sleep(0.05)
    print(f"line {step}", flush=True)
    report.log({"train/loss": 1.0 / step}, step=step)
    time.sleep(pause)
while env.get("DEAF"):
    time.sleep(1)
report.finish()
sys.exit(int(env.get("EXIT", "0")))
"""


@dataclass
class ClusterBench:
    """`spec`: a JobSpec as `tp` makes it, which is submitted in variations. `folder`: for what jobs and tests tell each other by files.
    `home`: where the runs of the project lie in the storage root.
    """

    cluster: Cluster
    client: Client
    api: Api
    spec: dict[str, Any]
    folder: Path
    home: Path
    runs: list[str] = field(default_factory=list)

    def submit(self, *, nodes: int = 1, gpus: int = 1, retries: int = 0, grace: float = 5, **env: str) -> str:
        """A job on `nodes` times `gpus` cards; the run id. `retries`: after faults of the machines."""
        spec = copy.deepcopy(self.spec)
        pool = spec["spec"]["resources"]["pools"][0]
        pool |= {"nodes": nodes, "gpus_per_node": gpus}
        spec["spec"]["env"] = env
        spec["spec"]["limits"] = {"grace": grace, "retries": {"infra": retries}}
        run = self.api.submit(spec, uuid.uuid4().hex)
        self.runs.append(run)
        return run

    def gate(self) -> Path:
        """A file that does not exist yet, for HOLD; `touch()` lets the job go on."""
        return self.folder / f"go-{uuid.uuid4().hex}"

    def show(self, run: str) -> dict[str, Any]:
        job: dict[str, Any] = self.api.get(f"/jobs/{run}")
        return job

    def wait(self, run: str, *phases: str, seconds: float = 120) -> dict[str, Any]:
        """The job once it is in one of `phases` and, if that is terminal, is cleaned up."""
        seen: dict[str, Any] = {}

        def there() -> bool:
            seen.update(self.show(run))
            return seen["phase"] in phases and (not seen.get("finished_at") or seen["cleanup"] in ("none", "confirmed"))

        try:
            wait_until(f"{run} is {' or '.join(phases)}", there, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._everything(run, seen)}") from None
        return seen

    def out(self, run: str, attempt: int = 1) -> Path:
        return self.home / run / "attempts" / str(attempt) / "out"

    def machines(self, run: str, count: int = 1, attempt: int = 1) -> list[dict[str, Any]]:
        """What each machine of the attempt told of its place, by rank."""
        files = [self.out(run, attempt) / f"machine-{rank}.json" for rank in range(count)]
        try:
            wait_until(f"{count} machines of {run} tell their place", lambda: all(file.exists() for file in files), 120)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self._everything(run, self.show(run))}") from None
        return [json.loads(file.read_text()) for file in files]

    def launches(self, run: str, rank: int = 0, attempt: int = 1) -> int:
        return len((self.out(run, attempt) / f"launches-{rank}").read_text().splitlines())

    def held(self, run: str) -> list[tuple[str, int]]:
        """(node, index) of the cards that the ledger keeps for a run."""
        ledger = f"file:{self.cluster.storage}/console/tuneplane.db?mode=ro"
        with closing(sqlite3.connect(ledger, uri=True, timeout=60)) as connection:
            query = "select node, gpu_index from gpu_holds where job_id = ? order by node, gpu_index"
            return connection.execute(query, (run,)).fetchall()

    def events(self, run: str) -> list[dict[str, Any]]:
        return list(self.api.items(f"/jobs/{run}/events", limit=200))

    def phases(self, run: str) -> list[str]:
        """Every phase that its events went through, in order."""
        seen = [event["to"] for event in self.events(run) if not event["ignored"]]
        return [phase for number, phase in enumerate(seen) if number == 0 or seen[number - 1] != phase]

    def lines(self, run: str, attempt: int = 1) -> list[int]:
        texts = [item["text"] for item in self.api.items(f"/jobs/{run}/logs", attempt=attempt, rank=0, limit=1000)]
        return [int(text.removeprefix("line ")) for text in texts if text.startswith("line ")]

    def points(self, run: str, attempt: int = 1) -> list[int]:
        series = self.api.get(f"/jobs/{run}/curves", name="train/loss", attempt=attempt)["series"].get("train/loss", [])
        return [step for part in series for step in part["step"]]

    def conditions(self, run: str) -> set[str]:
        return {item["type"] for item in self.show(run)["conditions"]}

    def end_all(self) -> None:
        """After each test nothing runs that the next one could meet."""
        for run in self.runs:
            if not self.show(run).get("finished_at"):
                self.api.cancel(run)
        for run in self.runs:
            self.wait(run, "succeeded", "failed", "cancelled", "lost")
        self.runs.clear()

    def _everything(self, run: str, job: dict[str, Any]) -> str:
        told = [json.dumps(job, indent=1), *(json.dumps(event) for event in self.events(run))]
        told += [f"--- {name}\n{node.log()[-2500:]}" for name, node in self.cluster.nodes.items()]
        told += [path.read_text(errors="replace")[-1500:] for path in self.out(run).parent.glob("spool/**/*.log")]
        return "\n".join([*told, "--- console", self.cluster.console.log()[-4000:]])


def prepare(cluster: Cluster, folder: Path) -> ClusterBench:
    token = cluster.console.add_user(f"user-{uuid.uuid4().hex[:8]}")
    client = Client(folder / "client", cluster.console, token).prepare()
    experiment = client.new("work", "custom/custom")
    (experiment / "train.sh").write_text("exec python3 work.py\n")
    (experiment / "work.py").write_text(WORK)
    shared = folder / "signals"
    shared.mkdir()
    api = Api(cluster.console.url, token)
    run = client.tp("submit", "work", "--profile", "h200:1", "--observability", "platform", "--json").json["id"]
    job = api.get(f"/jobs/{run}")
    home = cluster.storage / "projects" / job["owner"] / job["project"] / "jobs"
    bench = ClusterBench(cluster, client, api, job["spec"], shared, home)
    bench.wait(run, "succeeded")
    return bench


def is_held(fifo: Path) -> bool:
    """Whether some process has the FIFO open for reading."""
    try:
        os.close(os.open(fifo, os.O_WRONLY | os.O_NONBLOCK))
    except OSError:
        return False
    return True
