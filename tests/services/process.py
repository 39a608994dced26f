"""Start service processes, wait for them, and end exactly those, known by pid and start time."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


class ServiceMissingError(Exception):
    """The service cannot run on this machine; the message says why and what to do."""


@dataclass(frozen=True)
class ProcessId:
    """A process that stays itself: a pid is reused, a pid with its start time (clock ticks since boot) is not."""

    pid: int
    start_time: int

    @classmethod
    def of(cls, pid: int) -> ProcessId:
        return cls(pid, _start_time(pid))

    def alive(self) -> bool:
        try:
            return _start_time(self.pid) == self.start_time and _state(self.pid) not in "ZX"
        except (FileNotFoundError, ProcessLookupError):
            return False


def spawn(argv: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> ProcessId:
    """Start a service in a session of its own, so that a Ctrl-C for pytest does not reach it before its turn."""
    with log.open("ab") as output:
        # The file, not a pipe: the service outlives the xdist worker that started it.
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True, env=env,
            cwd=log.parent,  # Podman's monitor leaves a file in its working directory when a container runs out of memory
        )  # fmt: skip
    process.returncode = 0  # it is ended by pid later; the interpreter need not warn that it still runs
    return ProcessId.of(process.pid)


def wait_ready(ready: Callable[[], bool], process: ProcessId, log: Path, *, seconds: float) -> None:
    """Wait until `ready()`; raises ServiceMissingError with the log's last lines if the process ends or time is up."""
    deadline = time.monotonic() + seconds
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(process.pid)
        try:
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            while time.monotonic() < deadline:
                if ready():
                    return
                if poll.poll(50):  # readable when the process has ended
                    break
        finally:
            os.close(descriptor)
    tail = log.read_text(errors="replace")[-1500:] if log.exists() else ""
    raise ServiceMissingError(f"it did not come up within {seconds:.0f} s; its log ends:\n{tail}")


def stop(process: ProcessId, *, seconds: float = 20) -> None:
    """SIGTERM, then SIGKILL when the time is up. A process that is already gone is fine."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if not process.alive():
            return
        try:
            descriptor = os.pidfd_open(process.pid)
        except ProcessLookupError:
            return
        try:
            signal.pidfd_send_signal(descriptor, number)
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
            if poll.poll(seconds * 1000):
                with suppress(ChildProcessError):  # only our own child can be reaped here
                    os.waitpid(process.pid, os.WNOHANG)
                return
        except ProcessLookupError:
            return
        finally:
            os.close(descriptor)


def _stat_fields(pid: int) -> list[str]:
    # The command name in parentheses may hold spaces and parentheses; fields are counted after the last one.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _state(pid: int) -> str:
    return _stat_fields(pid)[0]


def _start_time(pid: int) -> int:
    return int(_stat_fields(pid)[19])
