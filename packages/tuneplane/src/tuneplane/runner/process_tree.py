"""Everything the trainer started, found through /proc: launchers give their workers sessions of their own, so the process
group is not enough."""

from __future__ import annotations

import os
import signal
from typing import Dict, List, Set

_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Orphans of the trainer become children of the runner instead of leaving its sight. Best effort: Linux only."""
    try:
        import ctypes

        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        return  # a container's first process has them anyway


def reap_others(trainer_pid: int) -> None:
    """Collect adopted children that have ended; the trainer's own exit status is left for its owner."""
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            if found is None or found.si_pid in (0, trainer_pid):
                return
            os.waitpid(found.si_pid, os.WNOHANG)
        except ChildProcessError:
            return


def descendants(root: int) -> List[int]:
    """Living processes below `root`, in no order; empty where there is no /proc."""
    parents = _parents()
    children: Dict[int, List[int]] = {}
    for pid, parent in parents.items():
        children.setdefault(parent, []).append(pid)
    found: Set[int] = set()
    pending = [root]
    while pending:
        for pid in children.get(pending.pop(), ()):
            if pid not in found:
                found.add(pid)
                pending.append(pid)
    return sorted(found)


def signal_processes(pids: List[int], number: int) -> None:
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            continue


def signal_group(leader: int, number: int) -> None:
    """Only while the leader is not reaped: its pid, and with it the group's, is then surely the trainer's."""
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        return


def kill_tree(root: int, rounds: int = 20) -> None:
    """SIGKILL everything below `root`, again while something new was started meanwhile."""
    for _ in range(rounds):
        found = descendants(root)
        if not found:
            return
        signal_processes(found, signal.SIGKILL)


def _parents() -> Dict[int, int]:
    """pid -> parent pid of every living process; zombies are left out, they hold nothing."""
    parents: Dict[int, int] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return parents
    for name in names:
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                # The command in brackets may hold anything, brackets too: what counts comes after the last one.
                state, parent = file.read(4096).rpartition(b")")[2].split()[:2]
        except (OSError, ValueError):
            continue  # ended meanwhile
        if state not in (b"Z", b"X"):
            parents[int(name)] = int(parent)
    return parents
