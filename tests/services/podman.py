"""Podman's Docker-compatible API service for one test run, with storage of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests.services.containers import reachable
from tests.services.packages import require_packages
from tests.services.process import ServiceMissingError, spawn, wait_ready
from tests.services.session import Service

# runc and cgroupfs: crun and systemd need more than a container or a small virtual machine offers. Limits are equal
# pairs because podman 4.3 swaps soft and hard ones.
CONFIGURATION = """\
[containers]
default_ulimits = ["nofile=20000:20000", "nproc=4096:4096"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""


def start(home: Path) -> Service:
    if os.geteuid() != 0:
        raise ServiceMissingError("podman with storage of our own needs root")
    require_packages("podman")
    socket, log = home / "podman.sock", home / "log"
    (home / "containers.conf").write_text(CONFIGURATION)
    (home / "storage.conf").write_text(
        f'[storage]\ndriver = "overlay"\ngraphroot = "{home}/data"\nrunroot = "{home}/run"\n'
    )
    environment = {
        **os.environ,
        "CONTAINERS_CONF": str(home / "containers.conf"),
        "CONTAINERS_STORAGE_CONF": str(home / "storage.conf"),
    }
    process = spawn(
        ["podman", "--tmpdir", str(home / "tmp"), "system", "service", "--time=0", f"unix://{socket}"],
        log,
        env=environment,
    )
    wait_ready(lambda: reachable(str(socket)), process, log, seconds=60)
    return Service(
        facts={"socket": str(socket)},
        processes=[process],
        before_stop=[[sys.executable, "-m", "tests.services.containers", "remove-all", str(socket)]],
        after_stop=[[sys.executable, "-m", "tests.services.containers", "unmount", str(home)]],
    )
