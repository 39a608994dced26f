"""One machine of a test's network: a network, mount and host name namespace that one process holds open.

What runs in it is found by its network namespace, so that nothing it starts can be forgotten: daemons, their jobs, and what those fork.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import textwrap
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from tests.services.process import ProcessId

OWNER = "TUNEPLANE_TEST_NETWORK"  # in the environment of holders and consoles: the network they belong to
MANAGEMENT, FABRIC = "eth0", "eth1"
# What the machine sees of /sys must be its own interfaces; the control groups below it are the host's.
_BOOT = textwrap.dedent("""\
    set -e
    hostname "$1"
    mount --rbind /sys/fs/cgroup "$2/cgroup"
    mount -t sysfs sysfs /sys
    mount --rbind "$2/cgroup" /sys/fs/cgroup
    mount --bind "$2/hosts" /etc/hosts
    mount --bind "$2/resolv.conf" /etc/resolv.conf
    ip link set lo up
    echo up
    exec sleep infinity >/dev/null
    """)


@dataclass(frozen=True)
class Machine:
    """`address`: on the management network, which the host is in; `fabric_address`: on the one between the machines alone.

    `cables`: the switch's ports, by the interface's name inside.
    """

    name: str
    holder: ProcessId
    switch: ProcessId
    address: str
    fabric_address: str
    cables: Mapping[str, str]

    @property
    def entrance(self) -> list[str]:
        """What to put before a command so that it runs in the machine; it becomes the command, with the same pid."""
        return entrance(self.holder)

    def popen(
        self,
        argv: Sequence[str | Path],
        output: int | IO[bytes] = subprocess.DEVNULL,
        env: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """In a session of its own, with the machine's root as its working directory."""
        command = [*self.entrance, *map(str, argv)]
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=env, start_new_session=True
        )

    def run(self, *argv: str | Path, check: bool = True) -> str:
        """A command's output; AssertionError with what it said when it fails."""
        done = subprocess.run(
            [*self.entrance, *map(str, argv)], check=False, capture_output=True, text=True, timeout=60
        )
        assert not check or done.returncode == 0, f"{self.name}: {argv}: {done.stdout}{done.stderr}"
        return done.stdout

    def cut(self, interface: str = MANAGEMENT) -> None:
        """Pull the cable at the switch: the machine keeps its addresses and hears nothing any more."""
        self._at_switch("ip", "link", "set", self.cables[interface], "down")

    def mend(self, interface: str = MANAGEMENT) -> None:
        self._at_switch("ip", "link", "set", self.cables[interface], "up")

    def slow(self, rate: str, interface: str = MANAGEMENT) -> None:
        """What the switch sends to the machine comes at `rate` (`1mbit`); this kernel has no netem, so no delays or losses."""
        queue = ("root", "tbf", "rate", rate, "burst", "32k", "latency", "400ms")
        self._at_switch("tc", "qdisc", "replace", "dev", self.cables[interface], *queue)

    def full_speed(self, interface: str = MANAGEMENT) -> None:
        self._at_switch("tc", "qdisc", "delete", "dev", self.cables[interface], "root")

    def processes(self) -> list[ProcessId]:
        """Everything alive in it, but what holds it open."""
        return [item for item in inhabitants(self.holder) if item != self.holder]

    def power_off(self) -> None:
        """SIGKILL to everything in it at once, as when the current is gone. Disks and cables stay."""
        kill_all(self.processes)

    def _at_switch(self, *argv: str) -> None:
        subprocess.run([*entrance(self.switch), *argv], check=True, capture_output=True, timeout=60)


def entrance(holder: ProcessId) -> list[str]:
    return ["nsenter", f"--target={holder.pid}", "--net", "--mount", "--uts", "--"]


def boot(name: str, owner: str, folder: Path) -> ProcessId:
    """The holder of a new machine without cables. `folder` will hold its `hosts` and its `resolv.conf`."""
    (folder / "cgroup").mkdir()
    (folder / "hosts").touch()
    # Refused at once, where the host's name server would be waited for.
    (folder / "resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
    process = subprocess.Popen(
        ["unshare", "--net", "--mount", "--uts", "--", "sh", "-c", _BOOT, "sh", name, str(folder)],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
        env={**os.environ, OWNER: owner}, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    said = _first_line(process.stdout)
    process.stdout.close()
    if said != "up\n":
        process.kill()
        process.wait(60)
        raise OSError(f"a machine cannot be made: {said.strip()}")
    process.returncode = 0  # it is ended by pid later; the interpreter need not warn that it still runs
    return ProcessId.of(process.pid)


def marked(owner: str) -> list[ProcessId]:
    """The holders of one network, and what belongs to it on the host: found without anything written down."""
    mark = f"{OWNER}={owner}".encode()
    return [item for item in _living() if mark in _environment(item.pid)]


def inhabitants(holder: ProcessId) -> list[ProcessId]:
    """Every living process in the holder's network namespace, itself too; for a process on the host, that one alone."""
    home = _network_of(holder.pid)
    if home is None:
        return []
    if home == _network_of(os.getpid()):
        return [holder] if holder.alive() else []
    return [item for item in _living() if _network_of(item.pid) == home]


def kill_all(find: Any, seconds: float = 60) -> None:
    """SIGKILL to what `find()` lists, until it lists nothing: what is being killed may still fork."""
    while found := find():
        for item in found:
            _kill(item, seconds)


def _kill(item: ProcessId, seconds: float) -> None:
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(item.pid)
        try:
            if not item.alive():
                return
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
            ended = select.poll()
            ended.register(descriptor, select.POLLIN)
            if not ended.poll(seconds * 1000):
                raise AssertionError(f"process {item.pid} outlived SIGKILL for {seconds:.0f} s")
        finally:
            os.close(descriptor)


def _living() -> list[ProcessId]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) != os.getpid():
            with suppress(FileNotFoundError, ProcessLookupError):
                found.append(ProcessId.of(int(entry.name)))
    return [item for item in found if item.alive()]


def _network_of(pid: int) -> int | None:
    try:
        return Path(f"/proc/{pid}/ns/net").stat().st_ino
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None


def _environment(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []


def _first_line(stream: IO[str]) -> str:
    ready, _, _ = select.select([stream], [], [], 60)
    return stream.readline() if ready else "it says nothing"
