"""Real Slurm on this machine: slurmctld, four slurmd with eight invented h200 each, slurmrestd with JWT, and slurmdbd where it is asked for.

Each cluster lives in namespaces of its own (mounts, processes, host name) on a root file system out of Debian's packages (scripts/slurm-root).
Its network is this machine's, with ports that nobody else has, so that jobs reach a console of the tests as any program here does.
Its commands (scontrol, sacctmgr) are for setting a test up; the product never runs them.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.services.containers import host_python_mounts
from tests.services.process import ProcessId
from tests.services.slurm_conf import REST_USER, USER, SlurmOptions, SlurmPorts

VERSIONS = {"22.05": "v0.0.38", "24.11": "v0.0.42"}
SECONDS = 120.0
REST_PLUGINS = {"22.05": "openapi/v0.0.36,openapi/v0.0.37,openapi/v0.0.38", "24.11": "slurmctld"}
DATABASE_PLUGINS = {"22.05": ",openapi/dbv0.0.36,openapi/dbv0.0.37,openapi/dbv0.0.38", "24.11": ",slurmdbd"}
_LOG = ">>/etc/slurm/log/{0}.log 2>&1 </dev/null & echo $! >/run/{0}.pid"
# How each is started on the cluster's machine. None keeps a pipe of whoever starts it.
DAEMONS = {
    "munged": "runuser -u munge -- munged --force; ln -sf munge/munged.pid /run/munged.pid",
    "mariadbd": (
        "mariadbd --no-defaults --user=slurm --datadir=/var/lib/mysql --socket=/var/lib/mysql/socket --bind-address=127.0.0.1 "
        "--port={database} --innodb-lock-wait-timeout=900 --innodb-flush-log-at-trx-commit=0 " + _LOG.format("mariadbd")
    ),
    "slurmdbd": "slurmdbd",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd -N {node}",
    "slurmrestd": (
        f"SLURM_JWT=daemon setsid setpriv --reuid={REST_USER} --regid={REST_USER} --clear-groups "
        "slurmrestd -s {plugins} -a rest_auth/jwt 127.0.0.1:{rest} " + _LOG.format("slurmrestd")
    ),
}


class SlurmCommandError(AssertionError):
    """A command on the cluster's machine failed; the message holds what it said."""


@dataclass(frozen=True)
class SlurmCluster:
    """One running cluster. Paths are this machine's; `folder` has the same path for jobs, and anybody may write there.

    `version` is Slurm's, 22.05 or 24.11; `api` the newest data version of its slurmrestd, v0.0.…; `url` where slurmrestd answers;
    `user` owns the jobs; `token_file` holds a token that is valid for a day.
    """

    version: str
    home: Path
    holder: ProcessId
    ports: SlurmPorts
    options: SlurmOptions

    @classmethod
    def of(cls, facts: Mapping[str, Any]) -> SlurmCluster:
        numbers: dict[str, Any] = facts["ports"] | {"nodes": tuple(facts["ports"]["nodes"])}
        ports = SlurmPorts(**numbers)
        return cls(
            facts["version"],
            Path(facts["home"]),
            ProcessId(**facts["holder"]),
            ports,
            SlurmOptions(**facts["options"]),
        )

    def facts(self) -> dict[str, Any]:
        return asdict(self) | {"home": str(self.home)}

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.ports.rest}"

    @property
    def api(self) -> str:
        return VERSIONS[self.version]

    @property
    def user(self) -> str:
        return USER

    @property
    def folder(self) -> Path:
        return self.home / "shared"

    @property
    def token_file(self) -> Path:
        return self.home / "token"

    @property
    def conf(self) -> Path:
        return self.home / "etc/slurm.conf"

    def run(self, *argv: str, user: str = "root", check: bool = True, seconds: float = 60) -> str:
        """What a command on the cluster's machine prints. SlurmCommandError when it fails, unless not `check`."""
        become = [] if user == "root" else ["runuser", "-u", user, "--"]
        done = subprocess.run(
            [*self._entrance, *become, *argv], check=False, capture_output=True, text=True, timeout=seconds, stdin=subprocess.DEVNULL,
            env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"},
        )  # fmt: skip
        if check and done.returncode:
            raise SlurmCommandError(f"{' '.join(argv)}: {(done.stderr + done.stdout).strip()[-2000:]}")
        return done.stdout

    @property
    def _entrance(self) -> list[str]:
        return ["nsenter", "--target", str(self.holder.pid), "--mount", "--pid", "--uts", "--root", "--wd"]

    def new_token(self, lifespan: int = 86_400, user: str = USER) -> str:
        """A token of this user for so many seconds."""
        said = self.run("scontrol", "token", f"username={user}", f"lifespan={lifespan}")
        return said.strip().removeprefix("SLURM_JWT=")

    def write_token(self, path: Path, lifespan: int = 86_400) -> Path:
        """A fresh token in `path`, put there in one step as whoever renews tokens does it; the path."""
        draft = path.with_name(f"{path.name}.part")
        draft.write_text(self.new_token(lifespan) + "\n")
        draft.chmod(0o600)
        return draft.replace(path)

    # Daemons: slurmctld, slurmrestd, slurmdbd, mariadbd, munged, slurmd-n1 … slurmd-n4.

    def start(self, daemon: str) -> None:
        """Start a daemon that does not run, and return when it has its pid file."""
        kind, _, node = daemon.partition("-")
        plugins = REST_PLUGINS[self.version] + (DATABASE_PLUGINS[self.version] if self.options.accounting else "")
        self._shell(
            DAEMONS[kind].format(node=node, rest=self.ports.rest, database=self.ports.database, plugins=plugins)
        )

    def stop(self, daemon: str) -> None:
        """SIGTERM; returns when it has ended."""
        self._end(daemon, "TERM")

    def kill(self, daemon: str) -> None:
        """SIGKILL to the daemon alone: what it started goes on."""
        self._end(daemon, "KILL")

    def running(self, daemon: str) -> bool:
        script = f"pid=$(cat /run/{daemon}.pid) && grep -q '^State:.[^ZX]' /proc/$pid/status && echo yes"
        return self.run("sh", "-c", script, check=False).strip() == "yes"

    def _end(self, daemon: str, signal: str) -> None:
        # Its pid is of this namespace: nothing else can be hit.
        self._shell(
            f"pid=$(cat /run/{daemon}.pid); kill -{signal} $pid; "
            f"for try in $(seq 1200); do grep -qs '^State:.[^ZX]' /proc/$pid/status || exit 0; sleep 0.05; done; exit 1"
        )

    def node_down(self, node: str, why: str = "tests") -> None:
        """As an administrator takes a node away: what runs there ends as NODE_FAIL."""
        for state in ("down", "drain"):  # down alone: its slurmd would soon bring it back
            self.run("scontrol", "update", f"nodename={node}", f"state={state}", f"reason={why}")

    def resume(self, node: str) -> None:
        """Take a node into service again, whatever it was taken out for; returns when jobs may be placed there."""
        self.run("scontrol", "update", f"nodename={node}", "state=resume", check=False)
        self.wait(f"{node} takes jobs", lambda: node in self.usable_nodes())

    def usable_nodes(self) -> set[str]:
        return set(self.run("sinfo", "-hN", "-t", "idle,mix,alloc", "-o", "%N").split())

    def jobs(self) -> dict[int, str]:
        """The state of every job that slurmctld remembers, by id."""
        return {
            int(job): state
            for job, state in (
                line.split() for line in self.run("squeue", "-ha", "-t", "all", "-o", "%A %T").splitlines()
            )
        }

    def purge(self, job: int) -> None:
        """Wait until slurmctld has forgotten a job that has ended; soon only with small `forget_seconds`."""
        self.wait(f"job {job} is forgotten", lambda: job not in self.jobs())

    def cancel_all(self) -> None:
        """End every job, and return when none is left in the queue."""
        self.run("scancel", "--user", USER)
        self.wait("no job is left", lambda: not self.run("squeue", "-h", "-o", "%A").split())

    def image(self, name: str, environment: Path) -> Path:
        """A "SIF" that the tests' apptainer takes: a Python environment of this machine, its `bin` first on the PATH."""
        path = self.folder / name
        system = [place for place in ("/usr", "/bin", "/sbin", "/lib", "/lib64") if Path(place).exists()]
        own = [
            place for place in host_python_mounts(environment / "bin/python3") if not f"{place}/".startswith("/usr/")
        ]
        places = [*system, *(place for place in own if place not in system)]
        lines = ["# image of the tests", *(f"bind {place}" for place in places)]
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        draft.write_text("\n".join([*lines, f"env PATH={environment}/bin:/usr/local/bin:/usr/bin:/bin", ""]))
        return draft.replace(path)

    def wait(self, what: str, condition: Callable[[], Any], seconds: float = SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"{what}: not within {seconds} s\n{self.log('slurmctld')[-3000:]}")
            time.sleep(0.1)

    def log(self, daemon: str) -> str:
        path = self.home / "etc/log" / f"{daemon}.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def _shell(self, script: str) -> None:
        self.run("bash", "-c", f"set -e; {script}", seconds=SECONDS)

    def answers(self) -> bool:
        """Whether slurmrestd takes the token and reaches slurmctld."""
        request = urllib.request.Request(
            f"{self.url}/slurm/{self.api}/ping",
            headers={"X-SLURM-USER-NAME": USER, "X-SLURM-USER-TOKEN": self.token_file.read_text().strip()},
        )
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return all("UP" in (ping.get("pinged"), ping.get("ping")) for ping in json.load(answer)["pings"])
        except (urllib.error.URLError, OSError):
            return False
