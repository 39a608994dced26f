"""One trainer per attempt and machine, however often its container is started (a daemon that died while it started one says
afterwards that it never did, and starts it again).

`<spool>/rank-<n>/claim` says who has the attempt. It is written and synced before the trainer is started, and locked as long as
its runner lives. Where the file system has no locks, whoever made the file has the attempt; that the trainer is started at most
once holds there as well, only a living runner in another container is not seen.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from time import time
from typing import Any, Dict, Optional

from tuneplane.runner.files import sync_directory, write_all
from tuneplane.runner.segments import make_rank_directory

CLAIM_FILE = "claim"
STOP_FILE = "stop"
_HELD = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL)
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


class Claim:
    """`mine`: this process has the attempt, until it ends. Else `who` is the earlier runner, empty when it left no word."""

    def __init__(self, directory: str, fd: int, mine: bool, locks: bool, who: Dict[str, Any]) -> None:
        self.mine = mine
        self.who = who
        self._stop_path = os.path.join(directory, STOP_FILE)
        self._fd = fd  # never closed: the lock lives as long as this process
        self._locks = locks

    def held_by_another(self) -> bool:
        """Whether the runner that has the attempt lives, as far as can be known here."""
        if self.mine:
            return False
        return _lock(self._fd) is False if self._locks else is_alive(self.who)

    def pass_stop_on(self) -> None:
        """Tell the runner that has the attempt to stop. A file, because it may live in another container. Raises `OSError`."""
        os.close(os.open(self._stop_path, os.O_CREAT | os.O_WRONLY, 0o644))

    def told_to_stop(self) -> bool:
        """Whether a later runner of this attempt was told to stop and passed it on."""
        return os.path.exists(self._stop_path)


def take_claim(spool_dir: str, machine_rank: int) -> Claim:
    """The attempt for this process, or who has it. Raises `OSError` when that cannot be known or written."""
    directory = make_rank_directory(spool_dir, machine_rank)
    path = os.path.join(directory, CLAIM_FILE)
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
    try:
        fd, made = os.open(path, flags | os.O_EXCL, 0o644), True
    except FileExistsError:
        fd, made = os.open(path, flags, 0o644), False
    locked = _lock(fd)
    text = os.read(fd, 4096)
    # An empty file is of one that died before it had the attempt, and so before it started anything; without locks it may as
    # well be of one that is about to write it.
    if not text and (locked or (made and locked is None)):
        who = identify()
        _write(fd, json.dumps(who).encode("ascii"))
        sync_directory(directory)
        return Claim(directory, fd, True, locked is not None, who)
    return Claim(directory, fd, False, locked is not None, _parse(text))


def is_surely_over(directory: str) -> bool:
    """Whether a runner had this spool directory and is dead, beyond doubt."""
    try:
        fd = os.open(os.path.join(directory, CLAIM_FILE), os.O_RDWR | getattr(os, "O_CLOEXEC", 0))
    except OSError:
        return False
    try:
        return os.fstat(fd).st_size > 0 and _lock(fd) is True
    except OSError:
        return False
    finally:
        os.close(fd)


def identify() -> Dict[str, Any]:
    """This process, so that no other is taken for it: pids are reused, and counted anew in each container and at each boot."""
    pid = os.getpid()
    return {
        "pid": pid,
        "start_time": _start_time(pid),
        "pid_namespace": _pid_namespace(),
        "boot_id": _first_line(_BOOT_ID),
        "time": time(),
    }


def is_alive(who: Dict[str, Any]) -> bool:
    """False as well when it cannot be known, as for a process of another container or machine."""
    pid, start_time = who.get("pid"), who.get("start_time")
    if type(pid) is not int or start_time is None:
        return False
    if (who.get("pid_namespace"), who.get("boot_id")) != (_pid_namespace(), _first_line(_BOOT_ID)):
        return False
    return _start_time(pid) == start_time


def _lock(fd: int) -> Optional[bool]:
    """True: locked; False: another has it; None: there are no locks on this file system."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _HELD:
            return False
        if error.errno in _NO_LOCKS:
            return None
        raise
    return True


def _write(fd: int, data: bytes) -> None:
    try:
        write_all(fd, data)
        os.fsync(fd)
    except OSError:
        _empty_again(fd)
        raise


def _empty_again(fd: int) -> None:
    try:
        os.ftruncate(fd, 0)
    except OSError:
        return  # half a claim is a claim: nothing was started, and nothing will be


def _parse(text: bytes) -> Dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _start_time(pid: int) -> Optional[str]:
    """In clock ticks since boot; None when there is no such process, or it has ended and is only waited for."""
    # The command in parentheses may hold spaces and parentheses: fields are counted after the last one (proc(5)).
    fields = _first_line(f"/proc/{pid}/stat").rpartition(")")[2].split()
    return fields[19] if len(fields) > 19 and fields[0] not in "ZX" else None


def _pid_namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _first_line(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.readline().decode("utf-8", "replace").strip()
    except OSError:
        return ""
