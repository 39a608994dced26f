"""A Docker daemon that one test may kill, starve or fill; the shared one of the run is left alone."""

from __future__ import annotations

import json
import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

from tests.services.containers import reachable, remove_all, unmount
from tests.services.process import spawn, stop, wait_ready

# Does what runc does, and then ends dockerd when a file says so: before dockerd has heard of it.
DEADLY_RUNC = """#!/bin/sh
{runc} "$@"
code=$?
for word in "$@"; do
  if [ -e "{home}/die-after-$word" ]; then
    rm "{home}/die-after-$word"
    kill -KILL "$(cat {home}/pid)"
  fi
done
exit $code
"""


class Daemon:
    """A dockerd of this test alone, which may be killed; its containerd is a process of its own, as distributions run
    it. Containers outlive dockerd, unless `live_restore` is set to False before it is started again."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.live_restore = True
        self.socket = home / "docker.sock"
        (home / "daemon.json").write_text("{}")
        (home / "containerd.toml").write_text('version = 2\ndisabled_plugins = ["io.containerd.grpc.v1.cri"]\n')
        containerd = home / "containerd.sock"
        self.containerd = spawn(
            ["containerd", "--config", str(home / "containerd.toml"), "--address", str(containerd),
             "--root", str(home / "containerd"), "--state", str(home / "containerd-state")],
            home / "containerd.log",
        )  # fmt: skip
        wait_ready(containerd.exists, self.containerd, home / "containerd.log", seconds=60)
        self.start()

    def start(self) -> None:
        self.process = spawn(
            ["dockerd", "--host", f"unix://{self.socket}", "--data-root", str(self.home / "data"), "--exec-root",
             str(self.home / "exec"), "--pidfile", str(self.home / "pid"), "--config-file", str(self.home / "daemon.json"),
             "--containerd", str(self.home / "containerd.sock"),
             f"--live-restore={str(self.live_restore).lower()}", "--bridge=none", "--iptables=false", "--ip-forward=false"],
            self.home / "log",
        )  # fmt: skip
        wait_ready(lambda: reachable(str(self.socket)), self.process, self.home / "log", seconds=60)

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        os.waitpid(self.process.pid, 0)

    def stop(self) -> None:
        """As a service manager does; without live-restore it ends its containers first."""
        stop(self.process)

    def make_mortal(self) -> None:
        """Start again over a runc that can end it: see `die_after`."""
        runc = shutil.which("runc")
        assert runc is not None
        wrapper = self.home / "runc"
        wrapper.write_text(DEADLY_RUNC.format(runc=runc, home=self.home))
        wrapper.chmod(0o755)
        settings = {"runtimes": {"deadly": {"path": str(wrapper)}}, "default-runtime": "deadly"}
        (self.home / "daemon.json").write_text(json.dumps(settings))
        self.kill()
        self.start()

    def die_after(self, word: str) -> None:
        """Once, when runc has done its next `create` or `start`, and containerd has not told of it."""
        (self.home / f"die-after-{word}").touch()

    def end(self) -> None:
        if reachable(str(self.socket)):
            remove_all(str(self.socket))
        stop(self.process)
        stop(self.containerd)
        self._end_forgotten()
        unmount(str(self.home))

    def _end_forgotten(self) -> None:
        """Shims of containers that a killed dockerd forgot, and what they still run; they name this daemon's socket."""
        mine = f"{self.home}/containerd.sock"
        for process in Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
                if "shim" not in words[0] or mine not in words:
                    continue
                children = (process / "task" / process.name / "children").read_text().split()
            except OSError:
                continue  # it has ended meanwhile
            for pid in (*children, process.name):
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
