"""A small cluster: a real console with the executor `agent` on this machine, and real daemons, each on a machine of its own.

The console listens on the management network alone. All see one storage root under one path; on a node it is a mount of its own, which a
test may take away or make read-only there.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.e2e.harness import BIN, Client, Console, wait_until
from tests.services.cluster_machine import OWNER, Machine
from tests.services.cluster_network import Network
from tests.services.process import ProcessId

PORT = 8643
WRONG_CLOCK = Path(__file__).parent / "wrong_clock"
SECONDS = 120.0


@dataclass
class ClusterConsole(Console):
    """Listens at `address` alone, which nodes and their jobs reach as the host does."""

    address: str = "127.0.0.1"
    owner: str = ""  # of the network: what is killed without having stopped its console ends it with the network

    @property
    def url(self) -> str:
        return f"http://{self.address}:{self.port}"

    @property
    def env(self) -> dict[str, str]:
        listening = {"TUNEPLANE_HOST": self.address, "TUNEPLANE_PUBLIC_URL": self.url}
        return super().env | {OWNER: self.owner} | listening | dict(self.settings)


@dataclass(eq=False)
class Node:
    """`tuneplane-node serve` on one machine, with state of its own; can be ended in every way and started again."""

    machine: Machine
    folder: Path
    settings: Mapping[str, str]
    process: subprocess.Popen[bytes] | None = None
    _begun: int = 0

    @property
    def name(self) -> str:
        return self.machine.name

    @property
    def address(self) -> str:
        """Where the console calls it."""
        return f"http://{self.machine.address}:{PORT}"

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def env(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("TUNEPLANE_")}
        own = {"TUNEPLANE_NODE_STATE": str(self.state), "TMPDIR": str(self.folder / "tmp"), "TUNEPLANE_LANG": "en"}
        clock = {"PYTHONPATH": str(WRONG_CLOCK), "TUNEPLANE_TEST_CLOCK": str(self.folder / "clock")}
        return kept | {"PATH": f"{BIN}:{os.environ['PATH']}"} | own | clock | dict(self.settings)

    def set_clock(self, seconds: float) -> None:
        """Its daemon's time of day is off by so much from now on; its jobs', whose processes have their own, is not."""
        draft = self.folder / "clock.part"
        draft.write_text(str(seconds))
        draft.replace(self.folder / "clock")

    def spawn(self) -> Node:
        """Start it and do not wait."""
        (self.folder / "tmp").mkdir(parents=True, exist_ok=True)
        self._begun = len(self.log())
        with (self.folder / "daemon.log").open("ab") as log:
            self.process = self.machine.popen([BIN / "tuneplane-node", "serve"], log, self.env)
        return self

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def identity(self) -> ProcessId:
        assert self.process is not None
        return ProcessId.of(self.process.pid)

    def log(self) -> str:
        path = self.folder / "daemon.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def said(self) -> str:
        """Its log since it was last started."""
        return self.log()[self._begun :]

    def stop(self) -> None:
        """SIGTERM, as systemd does it."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to the daemon alone; its jobs live on."""
        self._end(signal.SIGKILL)

    def power_off(self) -> None:
        """The daemon and every job on it at once."""
        self.machine.power_off()
        if self.process is not None:
            self.process.wait(SECONDS)

    def ended(self) -> int:
        """The exit code, once it has ended by itself."""
        assert self.process is not None
        return self.process.wait(SECONDS)

    def tool(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """One `tuneplane-node` command on the machine, with the daemon's environment."""
        command = [*self.machine.entrance, str(BIN / "tuneplane-node"), *arguments]
        return subprocess.run(command, env=self.env, capture_output=True, text=True, timeout=SECONDS, check=False)

    def _end(self, number: int) -> None:
        if self.running:
            assert self.process is not None
            self.process.send_signal(number)
            self.process.wait(SECONDS)


@dataclass
class Cluster:
    """`nodes` in the order in which they were made. `token` is the one that console and nodes share."""

    network: Network
    console: ClusterConsole
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    nodes: dict[str, Node] = field(default_factory=dict)
    admin: Client | None = None

    @property
    def storage(self) -> Path:
        return self.console.storage

    def node(self, name: str, **settings: str) -> Node:
        """A node on a machine of its own, which nobody has started."""
        machine = self.network.machine(name)
        machine.run("mount", "--bind", self.storage, self.storage)
        made = Node(machine, self.network.folder / f"node-{name}", self.node_settings(machine) | settings)
        self.nodes[name] = made
        return made

    def node_settings(self, machine: Machine) -> dict[str, str]:
        return {
            "TUNEPLANE_CONSOLE_URL": self.console.url,
            "TUNEPLANE_AGENT_TOKEN": self.token,
            "TUNEPLANE_STORAGE_ROOT": str(self.storage),
            "TUNEPLANE_RUNTIME": "process",
            "TUNEPLANE_SIMULATED_GPUS": "h200:4",
            "TUNEPLANE_NODE_ADDRESS": f"http://{machine.address}:{PORT}",
        }

    def listed(self) -> dict[str, dict[str, Any]]:
        """The nodes as the console tells an administrator, by name."""
        assert self.admin is not None
        return {item["name"]: item for item in self.admin.api("/nodes")["items"]}

    def change(self, name: str, what: str) -> None:
        """`cordon`, `uncordon` or `drain` a node, as an administrator."""
        self._administer("POST", f"/nodes/{name}/{what}")

    def set_policy(self, name: str, **fields: Any) -> None:
        """What is left out takes its default."""
        assert self.admin is not None
        version = self.admin.api(f"/admin/policies/{name}")["version"]
        self._administer("PUT", f"/admin/policies/{name}", {"value": fields, "version": version})

    def _administer(self, method: str, path: str, body: dict[str, Any] | None = None) -> None:
        assert self.admin is not None
        request = urllib.request.Request(
            f"{self.console.url}/api/v1{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self.admin.token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=SECONDS):
            pass

    def wait_ready(self, *names: str) -> None:
        """Until the console would place jobs on all of these."""
        wanted = names or tuple(self.nodes)
        wait_until(f"{wanted} are ready", lambda: self._ready(wanted), SECONDS)

    def _ready(self, wanted: tuple[str, ...]) -> bool:
        for name in wanted:
            node = self.nodes[name]
            assert node.running, f"{name} ended: {node.said()[-3000:]}"
        seen = self.listed()
        return all(name in seen and seen[name]["placeable"] for name in wanted)

    def close(self) -> None:
        """The console by SIGTERM; what runs on the nodes ends with the network."""
        self.console.stop()


def start_cluster(
    network: Network,
    folder: Path,
    *names: str,
    nodes: Mapping[str, str] | None = None,
    console_class: type[ClusterConsole] = ClusterConsole,
    **settings: str,
) -> Cluster:
    """A console and ready nodes, each with four invented cards. `settings` are the console's, `nodes` those of every node."""
    token = secrets.token_urlsafe(24)
    given = {"TUNEPLANE_EXECUTOR": "agent", "TUNEPLANE_AGENT_TOKEN": token, **settings}
    console = console_class(folder / "console", given, address=network.address, owner=network.owner)
    console.storage.mkdir(parents=True)
    cluster = Cluster(network, console, token)
    console.start()
    try:
        cluster.admin = Client(folder / "admin", console, console.add_user("root", scopes=("read", "write", "admin")))
        for name in names:
            cluster.node(name, **(nodes or {})).spawn()
        if names:
            cluster.wait_ready()
    except BaseException:
        console.stop()
        raise
    return cluster
