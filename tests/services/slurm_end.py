"""`python -m tests.services.slurm_end HOME`: end the cluster of Slurm whose folder this is, with its jobs. It may never have come up."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from tests.services.process import ProcessId


def main(home: Path, seconds: float = 30) -> None:
    """SIGKILL to the process that holds the cluster's world: the first process inside dies with it, and all others with that one."""
    with suppress(FileNotFoundError, ProcessLookupError):
        holder = ProcessId(**json.loads((home / "holder").read_text()))
        if not holder.alive():
            return
        inside = [ProcessId.of(int(pid)) for pid in children(holder.pid)]
        os.kill(holder.pid, signal.SIGKILL)
        deadline = time.monotonic() + seconds
        while any(process.alive() for process in (holder, *inside)) and time.monotonic() < deadline:
            time.sleep(0.02)
        with suppress(ChildProcessError):  # only our own child can be reaped here
            os.waitpid(holder.pid, os.WNOHANG)


def children(pid: int) -> list[str]:
    """What this process forked and has not buried."""
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
