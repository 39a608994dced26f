"""Linux processes told apart for sure. Standard library only, and little of it: the supervisor starts with each job.

A pid is reused; a pid with its start time (clock ticks since boot) and the boot's id is not.
"""

# Without pathlib, which would add a third to the start of the supervisor, and each job waits for one.
# ruff: noqa: PTH123
from __future__ import annotations

import os
import signal
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

PROC = "/proc"


class ProcessIdentity(NamedTuple):
    """One process of one boot. `alive` is False for a zombie: it holds nothing but its exit code."""

    pid: int
    start_time: int
    boot_id: str

    @classmethod
    def of(cls, pid: int) -> ProcessIdentity:
        """Raises ProcessLookupError when there is no such process."""
        return cls(pid, _stat(pid).start_time, boot_id())

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> ProcessIdentity:
        return cls(int(value["pid"]), int(value["start_time"]), str(value["boot_id"]))

    def to_json(self) -> dict[str, Any]:
        return self._asdict()

    def alive(self) -> bool:
        if self.boot_id != boot_id():
            return False
        try:
            stat = _stat(self.pid)
        except ProcessLookupError:
            return False
        return stat.start_time == self.start_time and stat.state not in "ZX"

    def signal(self, number: int) -> bool:
        """Send a signal to exactly this process; False when it has ended."""
        descriptor = self.open()
        if descriptor is None:
            return False
        try:
            signal.pidfd_send_signal(descriptor, number)
        except ProcessLookupError:
            return False
        finally:
            os.close(descriptor)
        return True

    def open(self) -> int | None:
        """A pidfd of exactly this process, None when it has ended. It becomes readable when the process ends."""
        try:
            descriptor = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return None
        # The descriptor is bound to whatever had the pid when it was opened: look again now that it cannot change.
        if self.alive():
            return descriptor
        os.close(descriptor)
        return None


class _Stat(NamedTuple):
    pid: int
    state: str
    parent: int
    start_time: int


def boot_id() -> str:
    return _read(f"{PROC}/sys/kernel/random/boot_id").decode().strip()


def descendants(roots: Iterable[int]) -> list[ProcessIdentity]:
    """The living processes below `roots`, the roots not included."""
    boot = boot_id()
    children: dict[int, list[_Stat]] = {}
    for stat in every_process():
        children.setdefault(stat.parent, []).append(stat)
    found: list[ProcessIdentity] = []
    todo = list(roots)
    seen = set(todo)
    while todo:
        for stat in children.get(todo.pop(), ()):
            if stat.pid not in seen:
                seen.add(stat.pid)
                todo.append(stat.pid)
                if stat.state not in "ZX":
                    found.append(ProcessIdentity(stat.pid, stat.start_time, boot))
    return found


def carrying(variable: str, value: str) -> list[ProcessIdentity]:
    """The living processes that were started with this environment variable, wherever they hang in the tree."""
    boot, needle = boot_id(), f"{variable}={value}".encode()
    return [
        ProcessIdentity(stat.pid, stat.start_time, boot)
        for stat, environment in _started_with()
        if needle in environment.split(b"\0")
    ]


def environments(variable: str) -> Iterator[dict[str, str]]:
    """The environments, as they were started with, of living processes that have this variable in it."""
    needle = f"{variable}=".encode()
    for _each, environment in _started_with():
        if needle in environment:
            pairs = (entry.decode(errors="replace").partition("=") for entry in environment.split(b"\0"))
            env = {name: value for name, equals, value in pairs if equals}
            if variable in env:
                yield env


def _started_with() -> Iterator[tuple[_Stat, bytes]]:
    """Living processes with the environments that they were started with, as far as we may read these."""
    for stat in every_process():
        if stat.state in "ZX":
            continue
        try:
            yield stat, _read(f"{PROC}/{stat.pid}/environ")
        except OSError:  # ended meanwhile, or another user's
            continue


def every_process() -> Iterator[_Stat]:
    """Living ones and zombies."""
    with os.scandir(PROC) as entries:
        for entry in entries:
            if entry.name.isdecimal():
                try:
                    yield _stat(int(entry.name))
                except ProcessLookupError:
                    continue


def _stat(pid: int) -> _Stat:
    try:
        text = _read(f"{PROC}/{pid}/stat")
    except (FileNotFoundError, ProcessLookupError):
        raise ProcessLookupError(pid) from None
    # The command in parentheses may hold spaces and parentheses: fields are counted after the last one (proc(5)).
    fields = text.rpartition(b")")[2].split()
    return _Stat(pid, fields[0].decode(), int(fields[1]), int(fields[19]))


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
