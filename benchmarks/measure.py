"""What every benchmark needs: one result shape, timing of whole commands, memory of a process tree."""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Result:
    """One figure. `ratio` = value ÷ peer_value; `target` says what the project promises, in words."""

    name: str
    value: float
    unit: str
    peer: str | None = None
    peer_value: float | None = None
    target: str = ""

    @property
    def ratio(self) -> float | None:
        return self.value / self.peer_value if self.peer_value else None


def time_command(argv: Sequence[str], *, env: Mapping[str, str], cwd: Path, runs: int) -> float:
    """Median wall seconds of a command over `runs` runs, after one that warms the caches."""
    durations = []
    for turn in range(runs + 1):
        start = time.perf_counter()
        subprocess.run(
            argv, env=dict(env), cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, timeout=120
        )
        if turn:
            durations.append(time.perf_counter() - start)
    return statistics.median(durations)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def wait_for(what: str, condition: Callable[[], bool], seconds: float, interval: float = 0.01) -> float:
    """Seconds until `condition` holds; raises `TimeoutError` after `seconds`."""
    start = time.perf_counter()
    while not condition():
        if time.perf_counter() - start > seconds:
            raise TimeoutError(f"{what}: not within {seconds} s")
        time.sleep(interval)
    return time.perf_counter() - start


def answers(url: str) -> bool:
    """Whether a GET of `url` gives any page (redirects followed)."""
    try:
        with urllib.request.urlopen(url, timeout=5) as reply:
            reply.read()
            return bool(reply.status < 400)
    except (urllib.error.URLError, OSError, ValueError):
        return False


def tree(pid: int) -> list[int]:
    """The process and all its living descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, queue = [], [pid]
    while queue:
        current = queue.pop()
        found.append(current)
        queue.extend(children.get(current, []))
    return found


def memory_mb(pids: Sequence[int]) -> float:
    """Proportional set size (PSS) summed over processes, in MB: shared pages count once."""
    total = 0
    for pid in pids:
        try:
            text = Path(f"/proc/{pid}/smaps_rollup").read_text()
        except OSError:
            continue
        total += next((int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")), 0)
    return total / 1024


def cpu_seconds(pids: Sequence[int]) -> float:
    """User and system seconds used so far by these processes."""
    ticks = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process that a benchmark started, and what it started."""
    pids = tree(process.pid)
    process.terminate()
    try:
        process.wait(15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(5)
    for pid in pids[1:]:
        if Path(f"/proc/{pid}").exists():
            os.kill(pid, 15)
