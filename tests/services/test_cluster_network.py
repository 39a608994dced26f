"""Machines of a test are apart from each other and from this one, and gone with the run that made them."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services import cluster_network
from tests.services.cluster_machine import FABRIC, MANAGEMENT, Machine, entrance, marked
from tests.services.cluster_network import Network
from tests.services.process import ProcessId
from tests.services.session import ServiceSession

# Answers each connection with its machine's name, for ever.
ECHO = """
import socket, sys
server = socket.create_server(("0.0.0.0", 7000))
print("listening", flush=True)
while True:
    connection, _ = server.accept()
    connection.sendall(socket.gethostname().encode())
    connection.close()
"""
ASK = """
import socket, sys
try:
    with socket.create_connection((sys.argv[1], 7000), timeout=float(sys.argv[2])) as connection:
        print(connection.recv(100).decode())
except OSError as error:
    print(type(error).__name__)
"""


@pytest.fixture(scope="module")
def network(cluster_network: Network) -> Network:
    for name in ("one", "two"):
        cluster_network.machine(name)
    return cluster_network


@pytest.fixture
def one(network: Network) -> Iterator[Machine]:
    yield network.machines["one"]
    network.machines["one"].power_off()


@pytest.fixture
def two(network: Network) -> Iterator[Machine]:
    yield network.machines["two"]
    network.machines["two"].power_off()


def listen(machine: Machine) -> ProcessId:
    with machine.popen([sys.executable, "-c", ECHO], subprocess.PIPE) as process:
        process.returncode = 0  # it is ended with its machine
        assert process.stdout is not None
        assert process.stdout.readline() == b"listening\n"
        return ProcessId.of(process.pid)


def ask(machine: Machine, address: str, seconds: float = 60) -> str:
    return machine.run(sys.executable, "-c", ASK, address, str(seconds)).strip()


def test_machines_reach_each_other_until_a_cable_is_cut(one: Machine, two: Machine) -> None:
    listen(two)
    assert ask(one, two.address) == ask(one, two.fabric_address) == "two"
    two.cut()
    assert ask(one, two.address, 0.3) in ("TimeoutError", "OSError")  # no answer, or none to ARP
    assert ask(one, two.fabric_address) == "two"
    two.mend()
    assert ask(one, two.address) == "two"
    two.cut(FABRIC)
    assert ask(one, two.fabric_address, 0.3) in ("TimeoutError", "OSError")
    two.mend(FABRIC)


def test_a_machine_has_a_name_interfaces_and_mounts_of_its_own(one: Machine, two: Machine, tmp_path: Path) -> None:
    assert (one.run("hostname"), two.run("hostname")) == ("one\n", "two\n")
    assert set(one.run("ls", "/sys/class/net").split()) >= {"lo", MANAGEMENT, FABRIC}
    (tmp_path / "there").mkdir()
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "file").touch()
    one.run("mount", "--bind", tmp_path / "here", tmp_path / "there")
    assert one.run("ls", tmp_path / "there") == "file\n"
    assert two.run("ls", tmp_path / "there") == ""
    one.run("umount", tmp_path / "there")


def test_a_slow_cable_carries_less_and_then_as_much_as_before(two: Machine) -> None:
    two.slow("1mbit")
    show = ["tc", "qdisc", "show", "dev", two.cables[MANAGEMENT]]
    shown = subprocess.run([*entrance(two.switch), *show], check=True, capture_output=True, text=True).stdout
    assert "tbf" in shown
    assert "1Mbit" in shown
    two.full_speed()


def test_without_current_nothing_of_a_machine_is_left_but_the_machine(one: Machine, two: Machine) -> None:
    first, other = listen(one), listen(two)
    one.run("sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 &")
    assert len(one.processes()) == 2
    one.power_off()
    assert one.processes() == []
    assert not first.alive()
    assert other.alive()
    assert one.holder.alive()


MAKE = """
import signal, subprocess, sys
from pathlib import Path
from tests.services import cluster_network
from tests.services.cluster_machine import OWNER
from tests.services.session import ServiceSession
network = cluster_network.create(ServiceSession(Path(sys.argv[1]), int(sys.argv[2])))
machine = network.machine("lonely")
machine.popen(["sleep", "infinity"])
beside = subprocess.Popen(["sleep", "infinity"], env={OWNER: network.owner, "PATH": "/usr/bin:/bin"})
print(network.owner, network.number, flush=True)
signal.pause()
"""


@pytest.mark.services
def test_a_killed_run_leaves_no_machine(network: Network) -> None:
    controller = subprocess.Popen(["sleep", "infinity"])
    folder = ServiceSession.create().folder
    maker = subprocess.Popen(
        [sys.executable, "-c", MAKE, str(folder), str(controller.pid)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert maker.stdout is not None
    owner, number = maker.stdout.readline().split()
    assert len(marked(owner)) == 3  # the machine, the switch, and what is on the host
    guardian = int((folder / "guardian.pid").read_text())
    watched = os.pidfd_open(guardian)
    for process in (maker, controller):
        process.kill()
        process.wait()
    assert select.select([watched], [], [], 60)[0]
    os.close(watched)
    assert marked(owner) == []
    assert not folder.exists()
    assert f"tpnet{number}" not in cables()
    assert f"tpnet{network.number}" in cables()  # another's stays


def cables() -> set[str]:
    said = subprocess.run(["ip", "-json", "link", "show", "type", "veth"], check=True, capture_output=True).stdout
    return {item["ifname"] for item in json.loads(said)}


def test_two_networks_have_nothing_in_common(pytestconfig: pytest.Config, network: Network) -> None:
    from tests.services.plugin import SESSION

    other = cluster_network.create(pytestconfig.stash[SESSION])
    try:
        assert other.number != network.number
        there = other.machine("one")
        listen(there)
        assert ask(there, there.address) == "one"
    finally:
        other.close()
    assert marked(other.owner) == []
