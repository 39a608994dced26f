"""Watches over one command of process mode, outlives whoever started it, and writes down how the command ended.

Run by `supervisor_command`, the launch as JSON on standard input; answers one JSON line on standard output when the
command runs or cannot. The record directory then holds

    lock            held by the supervisor while it lives
    supervisor.log  what went wrong with the supervisor itself
    started.json    written before the command's first instruction: no command runs that no file knows
    output.log      what the command printed, cut at MAX_LOG (the part before in output.log.1)
    exit.json       written when the command and everything it started have ended

It is the reaper of orphans (PR_SET_CHILD_SUBREAPER), so a descendant cannot leave its tree, and what the command leaves
behind is killed as a container's processes are when its first one ends.
"""

# Without pathlib, which would add a third to the start of the supervisor, and each job waits for one.
# ruff: noqa: PTH108, PTH110, PTH116, PTH123
from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import sys
import time
from typing import Any, NoReturn

# This directory is the only place beside the standard library that imports look in.
from procfs import ProcessIdentity, descendants  # ty: ignore[import-not-found]
from records import write_record  # ty: ignore[import-not-found]

MAX_LOG = 8 * 1024 * 1024
TICK_SECONDS = 2.0
KILL_SECONDS = 60.0
PR_SET_CHILD_SUBREAPER = 36


def main(record: str) -> None:
    # uvloop leaves its ends of our pipes open in what it starts: the launcher would wait for the command to end.
    os.closerange(3, max(os.sysconf("SC_OPEN_MAX"), 1024))
    launch = json.loads(sys.stdin.buffer.read())  # a launcher that died half-way leaves no valid JSON
    if os.fork():
        os._exit(0)  # the launcher waits for this one; the supervisor belongs to nobody
    os.setsid()
    os.chdir("/")
    lock = os.open(f"{record}/lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        _answer_and_close(status="already")
        return
    if os.path.exists(f"{record}/started.json") or os.path.exists(f"{record}/exit.json"):
        _answer_and_close(status="already")
        return
    _supervise(record, launch)


def _supervise(record: str, launch: dict[str, Any]) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # who stops a job speaks to the command; this one has to see its end
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
    started_at = time.time()
    leader, problem = _start(record, launch, started_at)
    if problem is not None:
        os.waitpid(leader, 0)
        _remove(f"{record}/started.json")
        _answer_and_close(status="failed", **problem)
        return
    _answer_and_close(status="started")
    status = _wait_for(leader, f"{record}/output.log")
    _end_the_rest()
    _trim(f"{record}/output.log")
    code = os.waitstatus_to_exitcode(status)
    # As a shell and a container tell it: 128 + signal.
    result = {"exit_code": code if code >= 0 else 128 - code, "started_at": started_at, "finished_at": time.time()}
    _write_at_any_cost(f"{record}/exit.json", result)


def _start(record: str, launch: dict[str, Any], started_at: float) -> tuple[int, dict[str, Any] | None]:
    """Fork the command, write down who it is, then let it begin. Returns its pid and what went wrong, if anything."""
    gate_read, gate_write = os.pipe()
    error_read, error_write = os.pipe()
    leader = os.fork()
    if leader == 0:
        os.close(gate_write)
        os.close(error_read)
        _become(record, launch, gate_read, error_write)
    os.close(gate_read)
    os.close(error_write)
    identities = {
        "leader": ProcessIdentity.of(leader).to_json(),
        "supervisor": ProcessIdentity.of(os.getpid()).to_json(),
        "started_at": started_at,
    }
    try:
        write_record(f"{record}/started.json", identities)
    except OSError as problem:
        os.close(gate_write)  # the command reads the end of the pipe and leaves
        os.close(error_read)
        return leader, {"where": "record", "detail": str(problem)}
    os.write(gate_write, b"1")
    os.close(gate_write)
    with os.fdopen(error_read, "rb") as errors:
        text = errors.read()  # closed without a word by a successful exec
    return leader, json.loads(text) if text else None


def _become(record: str, launch: dict[str, Any], gate: int, errors: int) -> NoReturn:
    where = "record"
    try:
        os.setsid()
        if os.read(gate, 1) != b"1":
            os._exit(127)
        output = os.open(f"{record}/output.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((nothing, 0), (output, 1), (output, 2)):
            os.dup2(source, target)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD])
        where = "workdir"
        os.chdir(launch["workdir"])
        where = "command"
        os.execvpe(launch["command"][0], launch["command"], launch["env"])  # noqa: S606
    except OSError as problem:
        os.write(errors, json.dumps({"where": where, "detail": str(problem)}).encode())
    os._exit(127)


def _wait_for(leader: int, log: str) -> int:
    """Reap until the leader has ended; returns its wait status."""
    while True:
        for pid, status in _reap():
            if pid == leader:
                return status
        signal.sigtimedwait([signal.SIGCHLD], TICK_SECONDS)
        _trim(log)


def _end_the_rest() -> None:
    """Kill and reap what the command left. Bounded: a process stuck in the kernel is left to it."""
    deadline = time.monotonic() + KILL_SECONDS
    while time.monotonic() < deadline:
        for process in descendants([os.getpid()]):
            process.signal(signal.SIGKILL)
        if not any(True for _ in _reap()) and not _has_children():
            return
        signal.sigtimedwait([signal.SIGCHLD], 0.05)


def _reap() -> list[tuple[int, int]]:
    ended = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended.append((pid, status))


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _trim(log: str) -> None:
    """Keep the newest part: the command appends, so after the cut it goes on at the start of the file."""
    try:
        if os.stat(log).st_size <= MAX_LOG:
            return
        with open(log, "r+b") as current, open(f"{log}.1", "wb") as before:
            current.seek(-MAX_LOG // 2, os.SEEK_END)
            before.write(current.read(MAX_LOG))
            current.truncate(0)
    except OSError:
        return  # a full disk must not end the watch; the next tick tries again


def _write_at_any_cost(path: str, value: dict[str, Any]) -> None:
    """How it ended is known only here: wait for space on the disk for up to a day; stop when the record was removed."""
    for _ in range(24 * 360):
        try:
            write_record(path, value)
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(10)
        else:
            return


def _answer_and_close(**answer: Any) -> None:
    """Tell the launcher, and let go of its pipes. Standard error stays: it is a file of the record."""
    try:
        os.write(1, json.dumps(answer).encode() + b"\n")
    except BrokenPipeError:
        pass  # the launcher was killed meanwhile: the command runs, and its end is still to be seen
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1):
        os.dup2(nothing, descriptor)
    os.close(nothing)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass  # it was never written
