"""A small network of machines on this one: network namespaces, joined by two bridges, with cables that can be cut.

The management network (10.214.N.0/24) joins the machines and the host, where the console of a test runs; the fabric
(10.215.N.0/24) joins the machines alone. N is this network's own: the host's cable is made under its name or not at all.
The bridges are in a namespace of their own, the switch: on the host its packet filter would have a say in what they pass.
"""

from __future__ import annotations

import os
import random
import secrets
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.services.cluster_machine import FABRIC, MANAGEMENT, Machine, boot, entrance
from tests.services.packages import require_packages
from tests.services.process import ProcessId, ServiceMissingError
from tests.services.session import Service, ServiceSession

NUMBERS = range(1, 255)
_dice = random.SystemRandom()  # each worker draws others


@dataclass
class Network:
    """`owner`: the hardware address of the host's cable, by which whoever ends it tells it from anybody else's."""

    session: ServiceSession
    owner: str
    folder: Path
    switch: ProcessId
    number: int
    machines: dict[str, Machine] = field(default_factory=dict)

    @property
    def address(self) -> str:
        """The host's, on the management network."""
        return f"10.214.{self.number}.1"

    def machine(self, name: str) -> Machine:
        """Boot another machine and plug it in. Every machine resolves its own name to 127.0.1.1, as Debian sets it up."""
        index = len(self.machines) + 1
        folder = self.folder / f"machine-{name}"
        folder.mkdir()
        holder = boot(name, self.owner, folder)
        cables = {}
        for interface, bridge in ((MANAGEMENT, "management"), (FABRIC, "fabric")):
            cables[interface] = port = f"{bridge}-{index}"
            _ip(self.switch, "link", "add", port, "type", "veth", "peer", "name", interface, "netns", str(holder.pid))
            _ip(self.switch, "link", "set", port, "master", bridge, "up")
        addresses = [f"10.{net}.{self.number}.{10 + index}" for net in (214, 215)]
        made = Machine(name, holder, self.switch, *addresses, cables)
        for interface, address in ((MANAGEMENT, made.address), (FABRIC, made.fabric_address)):
            made.run("ip", "address", "add", f"{address}/24", "dev", interface)
            made.run("ip", "link", "set", interface, "up")
        made.run("ip", "route", "add", "default", "via", self.address)
        self.machines[name] = made
        self._tell_names()
        return made

    def _tell_names(self) -> None:
        """Every machine knows the others by name, and its own as 127.0.1.1; nobody asks a name server that is not there."""
        known = [f"127.0.0.1 localhost\n{self.address} console.test\n"]
        known += [
            f"{item.address} {item.name}\n{item.fabric_address} {item.name}-fabric\n" for item in self.machines.values()
        ]
        for name in self.machines:
            hosts = self.folder / f"machine-{name}" / "hosts"
            hosts.write_text("".join([f"127.0.1.1 {name}\n", *known]))  # in place: it is mounted there

    def close(self) -> None:
        """End everything in it, and it."""
        self.session.end(_record(self.owner))


def create(session: ServiceSession) -> Network:
    """An empty network; it ends with the test run at the latest, however that ends. Raises ServiceMissingError."""
    _require()
    owner = ":".join(["02", *(f"{byte:02x}" for byte in secrets.token_bytes(5))])
    end = [sys.executable, "-m", "tests.services.cluster_end", owner]
    folder = session.own(_record(owner), Service(facts={}, after_stop=[end]))
    try:
        (folder / "switch").mkdir()
        switch = boot("switch", owner, folder / "switch")
        return Network(session, owner, folder, switch, _wire(switch, owner))
    except (OSError, ServiceMissingError) as problem:
        session.end(_record(owner))
        raise ServiceMissingError(str(problem)) from problem


def _require() -> None:
    if os.geteuid() != 0:
        raise ServiceMissingError("network namespaces need root")
    require_packages("network")
    if missing := [name for name in ("unshare", "nsenter", "mount") if shutil.which(name) is None]:
        raise ServiceMissingError(f"there is no {', '.join(missing)} on the PATH (util-linux)")


def _record(owner: str) -> str:
    return f"network-{owner.replace(':', '')}"


def _wire(switch: ProcessId, owner: str) -> int:
    """Two bridges, and a cable from the host to the first; the network's number."""
    for bridge in ("management", "fabric"):
        _ip(switch, "link", "add", "name", bridge, "type", "bridge")
        _ip(switch, "link", "set", bridge, "up")
    for number in _dice.sample(NUMBERS, len(NUMBERS)):
        # Made with its hardware address in one step: nobody ever sees it without its owner.
        cable = ("link", "add", "name", f"tpnet{number}", "address", owner, "type", "veth")
        problem = _try(["ip", *cable, "peer", "name", "host", "netns", str(switch.pid)])
        if problem is None:
            _ip(switch, "link", "set", "host", "master", "management", "up")
            _ip(None, "address", "add", f"10.214.{number}.1/24", "dev", f"tpnet{number}")
            _ip(None, "link", "set", f"tpnet{number}", "up")
            return number
        if "File exists" not in problem:
            raise ServiceMissingError(f"a cable cannot be made: {problem}")
    raise ServiceMissingError(f"all {len(NUMBERS)} networks for tests are taken")


def _ip(where: ProcessId | None, *arguments: str) -> None:
    """On the host, or in a namespace. Raises ServiceMissingError with what it said."""
    problem = _try([*([] if where is None else entrance(where)), "ip", *arguments])
    if problem is not None:
        raise ServiceMissingError(f"ip {' '.join(arguments)}: {problem}")


def _try(command: list[str]) -> str | None:
    """What it said when it failed."""
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
    return None if done.returncode == 0 else done.stderr.strip() or f"exit code {done.returncode}"
