"""What one storm runs on: a real console on state of its own, jobs made for counting, and a runtime that can be hurt."""

from __future__ import annotations

import copy
import os
import signal
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.chaos.api import Api
from tests.chaos.processes import JobProcess, job_processes
from tests.e2e.harness import BIN, Client, Console, wait_until
from tests.services.containers import Engine
from tests.tuneplane_node.dockerd import Daemon

# Writes a line per start where a second start would write another, then prints and reports a numbered line per step; of several
# machines the first does, and each keeps the time of its last step. `IGNORE_TERM` makes it one that a cancel has to kill.
LOOP = """
import os, signal, time
if os.environ.get("IGNORE_TERM"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
out, rank = os.environ["TUNEPLANE_OUT_DIR"], os.environ["TUNEPLANE_MACHINE_RANK"]
name = "launches" if rank == "0" else f"launches-{rank}"
marker = os.open(os.path.join(out, name), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
os.write(marker, b"%f\\n" % time.monotonic())
os.close(marker)
from tuneplane import report
report.init()
count, pause = int(os.environ["STEPS"]), float(os.environ["PAUSE"])
for step in range(1, count + 1):
    print(f"line {step}" if rank == "0" else f"machine {rank} line {step}", flush=True)
    with open(os.path.join(out, f"alive-{rank}"), "w") as alive:
        alive.write(str(time.monotonic()))
    report.log({"train/loss": 1.0 / step}, step=step)
    time.sleep(pause)
report.finish()
"""


class KillableConsole(Console):
    """A console that is started by one thread, killed by it at any point of its start, and waited for by others."""

    def spawn(self) -> None:
        """Start it and do not wait."""
        with (self.folder / "console.log").open("ab") as log:
            self.process = subprocess.Popen(
                [BIN / "tuneplane-server", "serve"], env=self.env, stdout=log, stderr=log, start_new_session=True
            )

    def wait_ready(self) -> None:
        wait_until("the console answers", self._up, 90)

    @property
    def pid(self) -> int:
        return -1 if self.process is None else self.process.pid


@dataclass(frozen=True)
class Wanted:
    """What a run is to do: so many steps in so many seconds. `retries`: further attempts after a fault of the machine's."""

    steps: int
    seconds: float
    retries: int = 0
    ignore_term: bool = False
    nodes: int = 1


@dataclass
class Submitted:
    """A run the storm asked for. `cancel`: what the console answered to the cancel, None while there was none;
    `cancel_asked`: when it was first asked, Unix seconds.
    """

    key: str
    run: str
    wanted: Wanted
    cancel: dict[str, Any] | None = None
    cancel_asked: float = 0.0


@dataclass
class Bench:
    """`spec`: one run's, which is submitted in variations; `daemon`: None in process mode."""

    console: KillableConsole
    api: Api
    spec: dict[str, Any]
    daemon: Daemon | None
    temporary: Path  # TMPDIR of the console, and so of jobs in process mode
    submitted: list[Submitted] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def submit(self, key: str, wanted: Wanted) -> Submitted:
        spec = copy.deepcopy(self.spec)
        env = {"STEPS": str(wanted.steps), "PAUSE": f"{wanted.seconds / wanted.steps:.4f}"}
        spec["spec"]["env"] = env | ({"IGNORE_TERM": "1"} if wanted.ignore_term else {})
        spec["spec"]["limits"] = {"grace": 1, "retries": {"infra": wanted.retries}}
        spec["spec"]["resources"]["pools"][0]["nodes"] = wanted.nodes
        made = Submitted(key, self.api.submit(spec, key), wanted)
        with self._lock:
            self.submitted.append(made)
        return made

    def processes(self) -> list[JobProcess]:
        return job_processes(self.console.storage, without=self.console.pid)

    def records(self) -> list[Path]:
        """What the process runtime keeps of its jobs."""
        return records_in(self.console.storage / "console" / "engine")

    def temporaries(self) -> list[Path]:
        """Where jobs of the process runtime have their temporary directories."""
        return [self.temporary]

    def containers(self) -> list[tuple[str, str, int]]:
        """(id, job, attempt) of every container the daemon knows, dead or alive."""
        if self.daemon is None:
            return []
        with Engine("docker", str(self.daemon.socket)).client() as client:
            listed = client.get("/containers/json", params={"all": 1}).raise_for_status().json()
        return [
            (item["Id"], item["Labels"].get("tuneplane.job", ""), int(item["Labels"].get("tuneplane.attempt", "0")))
            for item in listed
        ]

    def kill_container(self, identifier: str) -> bool:
        """False when it has ended already."""
        assert self.daemon is not None
        with Engine("docker", str(self.daemon.socket)).client() as client:
            return client.post(f"/containers/{identifier}/kill", params={"signal": "KILL"}).status_code == 204

    def clear(self) -> None:
        """After a failed storm too, nothing of it stays on the machine; a daemon of ours ends with its containers."""
        self.console.stop()
        deadline = time.monotonic() + 60
        while (left := self.processes()) and time.monotonic() < deadline:
            for item in left:
                item.kill()
            time.sleep(0.1)


def records_in(state: Path) -> list[Path]:
    """Of one engine's state."""
    kept = state / "processes"
    return list(kept.iterdir()) if kept.is_dir() else []


def counting_spec(console: Console, folder: Path) -> tuple[Api, dict[str, Any], str]:
    """The API for somebody new, a spec as `tp` makes it, and the id of the run that was made of it, which is over."""
    token = console.add_user()
    client = Client(folder / "client", console, token).prepare()
    experiment = client.new("counting", "custom/custom")
    (experiment / "train.sh").write_text("exec python3 loop.py\n")
    (experiment / "loop.py").write_text(LOOP)
    options = ("--profile", "h200:1", "--observability", "platform", "--env", "STEPS=1", "--env", "PAUSE=0.01")
    first = client.tp("submit", "counting", *options, "--json").json["id"]
    return Api(console.url, token), client.wait(first)["spec"], first


def prepare(folder: Path, settings: dict[str, str], daemon: Daemon | None) -> Bench:
    """A running console with an account, and one run's spec as `tp` makes it, which the storm then submits in variations."""
    temporary = folder / "tmp"
    temporary.mkdir(parents=True)
    given = {"TMPDIR": str(temporary), "TUNEPLANE_SIMULATED_GPUS": "h200:4", **settings}
    console = KillableConsole(folder / "console", given)
    console.start()
    try:
        api, spec, first = counting_spec(console, folder)
    except BaseException:
        console.stop()
        raise
    submitted = [Submitted("", first, Wanted(1, 0.01))]
    return Bench(console, api, spec, daemon, temporary, submitted)


def end_console(console: KillableConsole) -> None:
    """SIGKILL, whatever it is doing; fine when it is dead."""
    if console.process is not None:
        with suppress(ProcessLookupError):
            os.kill(console.process.pid, signal.SIGKILL)
        console.process.wait(60)
