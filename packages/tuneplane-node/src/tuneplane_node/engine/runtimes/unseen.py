"""Containers that run without their engine's knowledge.

A dockerd that is killed when containerd has begun a container, and before it could write that down itself, calls it `created`
ever after, with no start time: as one that was never started (seen with Docker 20.10). Starting it is refused with "id already
in use" while it lives, and starts it again once it has ended; removing it pulls its files away under its processes. What tells
is the kernel: the processes of a container have its id in the name of their control group. That it was seen so is kept in a
file, because when it has ended nothing else tells. Where an engine's processes are not in our /proc (we are in a container
ourselves) nothing is seen; then the runner's claim keeps a second start from training twice.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from tuneplane_node.engine.requests import Observed
from tuneplane_node.engine.supervisor.procfs import PROC, ProcessIdentity, boot_id, every_process
from tuneplane_node.engine.supervisor.records import read_record, write_record

_POLL_SECONDS = 0.05
_ABANDONED_SECONDS = 3600.0
_PREPARING = b"runc:["  # what runc calls itself in a container whose own command has not begun


@dataclass(frozen=True)
class _Process:
    identity: ProcessIdentity
    parent: int
    preparing: bool


class Unseen:
    """For containers that their engine calls created. `root`: where those that were seen running are noted, one file a name.

    Blocking file work, for a thread. Raises OSError or ValueError when a note cannot be read or written.
    """

    def __init__(self, root: Path) -> None:
        self.root = root

    def look(self, name: str, container: str) -> Observed | None:
        """Running or ended, if it was ever started as far as can be known; None when it was not. `container`: the engine's id."""
        if any(not process.preparing for process in _processes(container)):
            if not self._is_noted(name, container):
                self.root.mkdir(parents=True, exist_ok=True)
                write_record(self.root / name, {"container": container})
            return Observed("running", detail="the engine does not know that it runs")
        if self._is_noted(name, container):
            return Observed("exited", detail="it ran without the engine's knowledge: nobody saw how it ended")
        return None

    def tell_first(self, container: str, number: signal.Signals) -> bool:
        """A signal to the container's first process; False when there is none."""
        found = _processes(container)
        inside = {process.identity.pid for process in found}
        told = [each.identity.signal(number) for each in found if each.parent not in inside]
        return any(told)

    def kill(self, container: str, seconds: float) -> bool:
        """SIGKILL to every process of it, also one that has not begun; True when nobody is left."""
        deadline = time.monotonic() + seconds
        while found := _processes(container):
            if time.monotonic() > deadline:
                return False
            for process in found:
                process.identity.signal(signal.SIGKILL)
            time.sleep(_POLL_SECONDS)
        return True

    def end_what_never_began(self, container: str) -> None:
        """What is only prepared stays in the way of every start, and nobody is left who would let it begin."""
        found = _processes(container)
        if all(process.preparing for process in found):
            for process in found:
                process.identity.signal(signal.SIGKILL)

    def forget(self, name: str) -> None:
        (self.root / name).unlink(missing_ok=True)

    def keep_only(self, names: Collection[str]) -> int:
        """Forget those that are not among these any more, as when somebody removed a container by hand; how many."""
        gone = 0
        for note in self.root.iterdir() if self.root.is_dir() else ():
            if note.name.removesuffix(".part") not in names and time.time() - note.stat().st_mtime > _ABANDONED_SECONDS:
                note.unlink(missing_ok=True)
                gone += 1
        return gone

    def _is_noted(self, name: str, container: str) -> bool:
        note = read_record(self.root / name)
        return note is not None and note.get("container") == container


def _processes(container: str) -> list[_Process]:
    """The living processes of a container of this machine, whatever its engine knows."""
    found: list[_Process] = []
    if not container:
        return found
    boot, mark, monitor = boot_id(), container.encode(), b"conmon-" + container.encode()
    for stat in every_process():
        if stat.state in "ZX":
            continue
        folder = Path(PROC, str(stat.pid))
        try:
            group, title = (folder / "cgroup").read_bytes(), (folder / "comm").read_bytes()
        except OSError:  # ended meanwhile
            continue
        if mark in group and monitor not in group:
            identity = ProcessIdentity(stat.pid, stat.start_time, boot)
            found.append(_Process(identity, stat.parent, title.startswith(_PREPARING)))
    return [process for process in found if process.identity.alive()]
