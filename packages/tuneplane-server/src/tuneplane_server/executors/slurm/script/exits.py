"""What the script leaves in `slurm/` for the executor to read. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

OUTPUT_FILE = "job.out"  # of the batch script; with one machine also of bootstrap and runner
STARTED_FILE = (
    "started"  # holds the id of the Slurm job that has the attempt; another one with the same script starts nothing
)
_EXIT = re.compile(r"(\d{1,3}) (\d{1,10}) ([01])\n\Z", re.ASCII)


@dataclass(frozen=True)
class MachineExit:
    """How the command of one machine ended. `code` as a shell says it; `ended_at`: Unix seconds by the clock of the batch host;
    `told`: the script had begun to end the job before, so this end only follows from another one."""

    code: int
    ended_at: int
    told: bool


def exit_file(rank: int) -> str:
    """Written whole when the machine has ended; absent as long as nobody saw its end."""
    return f"rank-{rank}.exit"


def output_file(rank: int) -> str:
    """What bootstrap and runner of this machine printed; only of jobs on several machines, else it is in `job.out`."""
    return f"rank-{rank}.out"


def parse_exit(text: str) -> MachineExit | None:
    """None for what the script did not write."""
    found = _EXIT.match(text)
    if found is None:
        return None
    code, ended_at, told = found.groups()
    return MachineExit(int(code), int(ended_at), told == "1")
