"""A Docker daemon of our own for one test run: own data, own socket, own bridge; the machine's is left alone."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.services.containers import reachable
from tests.services.packages import require_packages
from tests.services.process import ServiceMissingError, spawn, wait_ready
from tests.services.session import Service


def start(home: Path) -> Service:
    if os.geteuid() != 0:
        raise ServiceMissingError("a Docker daemon of our own needs root")
    require_packages("docker")
    socket, log = home / "docker.sock", home / "log"
    bridge = _make_bridge()
    process = spawn(
        ["dockerd", "--host", f"unix://{socket}", "--data-root", str(home / "data"), "--exec-root", str(home / "exec"),
         "--pidfile", str(home / "pid"), "--config-file", str(_empty_config(home)),
         # The machine's packet filter and routing belong to its own daemon; containers reach the host over the bridge.
         "--bridge", bridge, "--iptables=false", "--ip-forward=false", "--ip-masq=false"],
        log,
    )  # fmt: skip
    try:
        wait_ready(lambda: reachable(str(socket)), process, log, seconds=60)
    except ServiceMissingError:
        subprocess.run(["ip", "link", "delete", bridge], check=False, timeout=60)
        raise
    return Service(
        facts={"socket": str(socket), "bridge": bridge},
        processes=[process],
        before_stop=[[sys.executable, "-m", "tests.services.containers", "remove-all", str(socket)]],
        after_stop=[
            [sys.executable, "-m", "tests.services.containers", "unmount", str(home)],
            ["ip", "link", "delete", bridge],
        ],
    )


def _empty_config(home: Path) -> Path:
    """In place of the machine's own daemon.json, whose settings could clash with our flags."""
    path = home / "daemon.json"
    path.write_text("{}")
    return path


def _make_bridge() -> str:
    number = os.getpid()
    name = f"tpt{number}"[:15]
    for command in (
        ["ip", "link", "add", name, "type", "bridge"],
        ["ip", "address", "add", f"10.213.{number % 250}.1/24", "dev", name],
        ["ip", "link", "set", name, "up"],
    ):
        result = subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)
        if result.returncode:
            subprocess.run(["ip", "link", "delete", name], check=False, capture_output=True, timeout=60)
            raise ServiceMissingError(f"{' '.join(command)}: {result.stderr.strip()}")
    return name
