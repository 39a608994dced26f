"""What a job uses: from its control group where it has one of its own, else from the processes of its tree.

Blocking file work. Counts of a tree include those of children that have ended and were waited for, as the kernel keeps them;
memory of a tree is the sum of its resident pages, so what forked workers share is counted more than once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tuneplane_node.engine.supervisor import procfs

_TICKS = float(os.sysconf("SC_CLK_TCK"))
_PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class JobPlace:
    """Where a running job is on this machine: the first processes of its tree, or the id that its control group carries."""

    key: str
    labels: dict[str, str]
    pids: tuple[int, ...] = ()
    container: str = ""


@dataclass(frozen=True)
class JobUse:
    """`counts` only grow: `cpu` (seconds), `disk_read`, `disk_write` (bytes). `levels`: `memory_used` (bytes)."""

    place: JobPlace
    counts: dict[str, float]
    levels: dict[str, float]
    source: Literal["group", "tree"]

    @property
    def rate_key(self) -> tuple[str, str]:
        """Counts of a group and of a tree are not to be compared: a tree lacks what its ended processes used."""
        return self.place.key, self.source


class JobReader:
    def __init__(self, proc: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> None:
        self._proc, self._groups = proc, groups

    def read(self, places: Sequence[JobPlace]) -> list[JobUse]:
        """Use of every job that has a living process here, in one pass over the machine's processes."""
        if not places:
            return []
        below: dict[int, list[int]] = {}
        for stat in procfs.every_process():
            if stat.state not in "ZX":
                below.setdefault(stat.parent, []).append(stat.pid)
        inside = self._by_container({place.container for place in places if place.container}, below)
        found = []
        for place in places:
            pids = inside.get(place.container, []) if place.container else _tree(place.pids, below)
            use = self._of_group(place, pids) or self._of_processes(place, pids)
            if use is not None:
                found.append(use)
        return found

    def _by_container(self, containers: set[str], below: dict[int, list[int]]) -> dict[str, list[int]]:
        """Container -> its processes, told by the name of their control group."""
        inside: dict[str, list[int]] = {}
        if not containers:
            return inside
        for pid in (pid for children in below.values() for pid in children):
            try:
                group = (self._proc / str(pid) / "cgroup").read_text()
            except OSError:  # ended meanwhile
                continue
            for container in containers:
                if container in group and f"conmon-{container}" not in group:
                    inside.setdefault(container, []).append(pid)
        return inside

    # --- control groups ---------------------------------------------------------------------------------------------

    def _of_group(self, place: JobPlace, pids: Sequence[int]) -> JobUse | None:
        """None where the job has no group of its own, or where its files are not to be seen (we are in a container ourselves)."""
        if not place.container or not pids:
            return None
        try:
            paths = _group_paths((self._proc / str(pids[0]) / "cgroup").read_text(), place.container)
            return self._version_2(place, paths[""]) if "" in paths else self._version_1(place, paths)
        except (OSError, ValueError, KeyError, IndexError):
            return None

    def _version_2(self, place: JobPlace, path: str) -> JobUse:
        folder = self._groups / path
        usage = dict(line.split() for line in (folder / "cpu.stat").read_text().splitlines())
        counts = {"cpu": int(usage["usage_usec"]) / 1e6}
        memory = float((folder / "memory.current").read_text()) - _statistic(folder / "memory.stat", "inactive_file")
        counts |= _io_of_version_2(folder / "io.stat")
        return JobUse(place, counts, {"memory_used": max(0.0, memory)}, "group")

    def _version_1(self, place: JobPlace, paths: dict[str, str]) -> JobUse:
        processor, memory = self._groups / "cpuacct" / paths["cpuacct"], self._groups / "memory" / paths["memory"]
        counts = {"cpu": int((processor / "cpuacct.usage").read_text()) / 1e9}
        used = float((memory / "memory.usage_in_bytes").read_text()) - _statistic(
            memory / "memory.stat", "total_inactive_file"
        )
        if "blkio" in paths:
            counts |= _io_of_version_1(self._groups / "blkio" / paths["blkio"] / "blkio.throttle.io_service_bytes")
        return JobUse(place, counts, {"memory_used": max(0.0, used)}, "group")

    # --- processes --------------------------------------------------------------------------------------------------

    def _of_processes(self, place: JobPlace, pids: Iterable[int]) -> JobUse | None:
        seconds = memory = 0.0
        traffic: dict[str, float] | None = {"disk_read": 0.0, "disk_write": 0.0}
        seen = False
        for pid in pids:
            folder = self._proc / str(pid)
            try:
                fields = (folder / "stat").read_bytes().rpartition(b")")[2].split()
                pages = int((folder / "statm").read_text().split()[1])
            except (OSError, ValueError, IndexError):  # ended meanwhile
                continue
            seen = True
            seconds += sum(int(field) for field in fields[11:15]) / _TICKS
            memory += pages * _PAGE
            traffic = _added(traffic, folder / "io")
        counts = {"cpu": seconds, **(traffic or {})}
        return JobUse(place, counts, {"memory_used": memory}, "tree") if seen else None


def _tree(roots: Sequence[int], below: dict[int, list[int]]) -> list[int]:
    found: list[int] = []
    todo, seen = list(roots), set(roots)
    while todo:
        pid = todo.pop()
        found.append(pid)
        fresh = [child for child in below.get(pid, ()) if child not in seen]
        seen.update(fresh)
        todo += fresh
    return found


def _group_paths(text: str, container: str) -> dict[str, str]:
    """Controller ("" for version 2) -> path of the container's own group, without the leading slash."""
    paths = {}
    for line in text.splitlines():
        _number, controllers, path = line.split(":", 2)
        if container not in path:
            continue
        # The group that carries the id, not one that the container made below it.
        parts = path.strip("/").split("/")
        place = next(index for index, part in enumerate(parts) if container in part)
        for controller in controllers.split(","):
            paths[controller] = "/".join(parts[: place + 1])
    if len(paths) > 1:
        paths.pop("", None)  # a hybrid machine: version 2 has no controllers there
    return paths


def _statistic(path: Path, name: str) -> float:
    """One line of `memory.stat`; page cache that can go at once is not used memory. 0 where the kernel has no such line."""
    for line in path.read_text().splitlines():
        key, _space, value = line.partition(" ")
        if key == name:
            return float(value)
    return 0.0


def _io_of_version_2(path: Path) -> dict[str, float]:
    try:
        text = path.read_text()
    except OSError:  # the io controller is not enabled
        return {}
    read = written = 0
    for line in text.splitlines():
        values = dict(part.split("=", 1) for part in line.split()[1:] if "=" in part)
        read += int(values.get("rbytes", 0))
        written += int(values.get("wbytes", 0))
    return {"disk_read": float(read), "disk_write": float(written)}


def _io_of_version_1(path: Path) -> dict[str, float]:
    try:
        rows = [line.split() for line in path.read_text().splitlines()]
    except OSError:
        return {}
    read = sum(int(row[2]) for row in rows if len(row) == 3 and row[1] == "Read")
    written = sum(int(row[2]) for row in rows if len(row) == 3 and row[1] == "Write")
    return {"disk_read": float(read), "disk_write": float(written)}


def _added(total: dict[str, float] | None, path: Path) -> dict[str, float] | None:
    """None once a process of the tree may not be asked (another user's): a part of the whole is no figure."""
    if total is None:
        return None
    try:
        values = dict(line.split(": ", 1) for line in path.read_text().splitlines())
    except (FileNotFoundError, ProcessLookupError):
        return total
    except OSError:
        return None
    return {
        "disk_read": total["disk_read"] + int(values.get("read_bytes", 0)),
        "disk_write": total["disk_write"] + int(values.get("write_bytes", 0)),
    }
