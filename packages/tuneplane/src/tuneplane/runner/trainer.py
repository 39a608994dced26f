"""The trainer's process: start it as a group of its own, read its output, stop it with grace, learn how it ended."""

from __future__ import annotations

import fcntl
import os
import selectors
import signal
import subprocess
import sys
from time import monotonic, sleep
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from tuneplane.runner import limits
from tuneplane.runner.failures import ENTRYPOINT_MISSING, RUNNER_FAILED, StartError
from tuneplane.runner.output import OutputQueue
from tuneplane.runner.process_tree import descendants, kill_tree, reap_others, signal_group, signal_processes

_F_SETPIPE_SZ = 1031


class Ending(NamedTuple):
    """`exit_code` when it exited, `signal` when it was killed; `left_behind`: processes that outlived it and were ended;
    `held_open`: its output streams that something out of reach still holds open: what it writes there is lost."""

    exit_code: Optional[int]
    signal: Optional[int]
    left_behind: int
    held_open: Sequence[str] = ()

    @property
    def shell_code(self) -> int:
        """As a shell would say it: 128 + signal when killed."""
        return 128 + self.signal if self.signal is not None else self.exit_code or 0


class Trainer:
    """Used by the main thread only."""

    def __init__(self, argv: Sequence[str], cwd: str, environment: Mapping[str, str], output: OutputQueue) -> None:
        self._output = output
        self._selector = selectors.DefaultSelector()
        self._process = _start(argv, cwd, environment)
        self._open: Dict[int, Any] = {}
        self._names: Dict[int, str] = {}
        for stream, fd in ((self._process.stdout, "stdout"), (self._process.stderr, "stderr")):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            _widen(stream.fileno())
            self._selector.register(stream.fileno(), selectors.EVENT_READ, fd)
            self._open[stream.fileno()] = stream
            self._names[stream.fileno()] = fd

    @property
    def pid(self) -> int:
        return self._process.pid

    def watch(self, fd: int) -> None:
        """Also wake up for this descriptor (signals)."""
        self._selector.register(fd, selectors.EVENT_READ, None)

    def pump(self, seconds: float) -> None:
        """Read what is there, waiting at most `seconds`; after a little output, wait a little for more."""
        size = 0
        for key, _ in self._selector.select(seconds):
            if key.data is None:
                _empty(key.fd)
            else:
                size += self._read(key.fd, key.data)
        if 0 < size < limits.SMALL_READ_BYTES:
            sleep(min(seconds, limits.SMALL_READ_SECONDS))

    def ended(self) -> bool:
        """Whether it has ended; collects the processes it left to us on the way."""
        reap_others(self.pid)
        return self._process.poll() is not None

    def terminate(self) -> None:
        if self._process.returncode is None:
            signal_group(self.pid, signal.SIGTERM)

    def kill(self) -> None:
        if self._process.returncode is None:
            signal_group(self.pid, signal.SIGKILL)
        kill_tree(os.getpid())

    def wind_up(self) -> Ending:
        """After its end: read what is still in flight, end what it left behind, close the pipes."""
        self._pump_until_closed(limits.LINGER_SECONDS)
        left = descendants(os.getpid())
        if left:
            signal_processes(left, signal.SIGTERM)
            self._pump_until_gone(limits.LEFT_BEHIND_SECONDS)
            kill_tree(os.getpid())
        self._pump_until_closed(limits.LINGER_SECONDS)
        reap_others(0)
        held_open = tuple(sorted(self._names[fd] for fd in self._open))
        for stream in self._open.values():
            stream.close()
        self._selector.close()
        code = self._process.returncode
        return Ending(code if code >= 0 else None, -code if code < 0 else None, len(left), held_open)

    def _pump_until_closed(self, seconds: float) -> None:
        """Until both pipes are closed and, when something holds them open, until they are quiet or the time is over."""
        end = monotonic() + seconds
        while self._open and monotonic() < end:
            self.pump(0.05)

    def _pump_until_gone(self, seconds: float) -> None:
        end = monotonic() + seconds
        while monotonic() < end and descendants(os.getpid()):
            self.pump(0.1)
            if not self._open:
                self._selector.select(0.05)
            reap_others(0)

    def _read(self, fd: int, name: str) -> int:
        try:
            data = os.read(fd, limits.READ_BYTES)
        except BlockingIOError:
            return 0
        except OSError:
            data = b""
        if data:
            self._output.put(name, data)
            return len(data)
        self._selector.unregister(fd)
        self._open.pop(fd).close()
        return 0


def _start(argv: Sequence[str], cwd: str, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    options: Dict[str, Any] = {"process_group": 0} if sys.version_info >= (3, 11) else {"preexec_fn": os.setpgrp}
    try:
        process: Any = subprocess.Popen(
            list(argv),
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            close_fds=True,
            **options,
        )
        return process
    except FileNotFoundError as error:
        missing = argv[0] if os.path.isdir(cwd) else cwd
        raise StartError(
            ENTRYPOINT_MISSING, f"{missing} is not there; looked on PATH={environment.get('PATH', '')}"
        ) from error
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise StartError(RUNNER_FAILED, f"{argv[0]} cannot be started: {error}") from error


def _widen(fd: int) -> None:
    """A larger pipe lets the trainer write on while this process waits for the CPU. Best effort."""
    try:
        fcntl.fcntl(fd, getattr(fcntl, "F_SETPIPE_SZ", _F_SETPIPE_SZ), limits.PIPE_BYTES)
    except OSError:
        return


def _empty(fd: int) -> None:
    try:
        while len(os.read(fd, 4096)) == 4096:
            continue
    except OSError:
        return


def command_for_people(argv: Sequence[str]) -> List[str]:
    return [part if len(part) <= 500 else part[:499] + "…" for part in argv[:200]]
