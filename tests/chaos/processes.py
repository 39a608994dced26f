"""Which processes of this machine belong to the jobs of one console: read from /proc, beside the product."""

from __future__ import annotations

import os
import re
import signal
from dataclasses import dataclass
from pathlib import Path

from tests.services.process import ProcessId

RUNNER, TRAINER, SUPERVISOR = "runner", "trainer", "supervisor"
STEP = "step"  # of a Slurm job: srun on the batch host, and what waits for its exit code
CHECK = "check"  # a Python that bootstrap.sh tries, or a digest it takes


@dataclass(frozen=True)
class JobProcess:
    """`job` and `attempt` are unknown (empty, 0) for a process that names only the storage root."""

    process: ProcessId
    kind: str
    job: str
    attempt: int
    command: str

    def kill(self) -> bool:
        """SIGKILL to exactly this process; False when it has ended already."""
        try:
            descriptor = os.pidfd_open(self.process.pid)
        except ProcessLookupError:
            return False
        try:
            if not self.process.alive():
                return False
            signal.pidfd_send_signal(descriptor, signal.SIGKILL)
        except ProcessLookupError:
            return False
        finally:
            os.close(descriptor)
        return True


def job_processes(storage: Path, *, without: int) -> list[JobProcess]:
    """Every living process that has `storage` in its command line or environment, but the console (pid `without`)."""
    root = os.fsencode(storage)
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) in (without, os.getpid()):
            continue
        try:
            process = ProcessId.of(int(entry.name))
            command, environment = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # ended meanwhile
        if root in command or root in environment:
            found.append(_named(process, command, environment))
    return [item for item in found if item.process.alive()]


def _named(process: ProcessId, command: bytes, environment: bytes) -> JobProcess:
    words = command.replace(b"\0", b" ").decode(errors="replace").strip()
    variables = dict(item.partition(b"=")[::2] for item in environment.split(b"\0"))
    job = variables.get(b"TUNEPLANE_RUN_ID", b"").decode()
    if job:
        attempt = int(variables.get(b"TUNEPLANE_ATTEMPT", b"0"))
        return JobProcess(process, _kind(words, variables), job, attempt, words)
    # A supervisor has no environment; the record it watches is named after the run.
    record = re.search(r"/engine/processes/tp-([0-9a-z]+)-(\d+)", words)
    if record is None:
        return JobProcess(process, "unknown", "", 0, words)
    return JobProcess(process, SUPERVISOR, record[1], int(record[2]), words)


def _kind(words: str, variables: dict[bytes, bytes]) -> str:
    if "--kill-on-bad-exit" in words:
        return STEP
    if "runner.pex" in words or "bootstrap.sh" in words:
        return RUNNER
    return TRAINER if b"TUNEPLANE_REPORT_DIR" in variables else CHECK  # only the runner sets that
