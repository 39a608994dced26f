"""A start of a job that Slurm's record of it says nothing of, by the signs of life on the storage root. All functions block.

A slurmctld that crashed and lost its newest state takes a job that runs for one that waits, and starts it a second time. What it
says of the job is true of that start only: ending it ends nothing of the first, which has the attempt (script/batch.py).
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

import structlog

from tuneplane.runner.claim import CLAIM_FILE
from tuneplane_server.executors.slurm.intents import read_intent, tail
from tuneplane_server.executors.slurm.looking import Job
from tuneplane_server.executors.slurm.script import exit_file, parse_exit
from tuneplane_server.executors.slurm.script.exits import STARTED_FILE

log = structlog.get_logger(__name__)

SILENT_SECONDS = 90.0  # without a beat; the script gives one every ten seconds
STARTING_SECONDS = 4 * SILENT_SECONDS  # until the first beat: machines are looked for, images unpacked
CLOCKS_APART_SECONDS = 5.0  # of slurmctld and whoever stamps files
_BEAT_FILE = "beat"
_EXIT_BYTES, _ID_BYTES = 64, 64


@dataclass(frozen=True)
class Start:
    """The one that has the attempt. `directory`: `slurm/`. `machines`: how many it runs on."""

    directory: Path
    machines: int

    def is_gone(self) -> bool:
        """Whether it saw all its machines end, or gives no sign of life any more. Raises OSError."""
        if runner_lives(self.directory, self.machines):
            return False
        if all(self._has_ended(rank) for rank in range(self.machines)):
            return True
        now = _now(self.directory)
        beat = _stamp(self.directory / _BEAT_FILE)
        if beat is not None:
            return abs(now - beat) > SILENT_SECONDS
        began = _stamp(self.directory / STARTED_FILE)
        return began is None or abs(now - began) > STARTING_SECONDS

    def tell(self) -> None:
        """Tell its runners to stop, as the batch script does when it is told."""
        for rank in range(self.machines):
            if not self._has_ended(rank):
                try:
                    _leave_stop(self.directory.with_name("spool"), f"rank-{rank}")
                except OSError as error:  # it is waited for all the same
                    log.warning("a runner could not be told to stop", directory=str(self.directory), why=str(error))

    def _has_ended(self, rank: int) -> bool:
        return parse_exit(tail(self.directory / exit_file(rank), _EXIT_BYTES)) is not None


def runner_lives(directory: Path, machines: int) -> bool:
    """Whether the runner of a machine is seen to live, whatever was seen of srun, which may end before it does. `directory`: `slurm/`."""
    spool = directory.with_name("spool")
    return any(_is_locked(spool / f"rank-{rank}" / CLAIM_FILE) for rank in range(machines))


def silent_since_end(directory: Path, machines: int) -> float | None:
    """For how many seconds all machines have been seen to have ended, by the clock that stamps files; None as long as they have not.
    Raises OSError."""
    ends = []
    for rank in range(machines):
        if parse_exit(tail(directory / exit_file(rank), _EXIT_BYTES)) is None:
            return None
        ends.append(_stamp(directory / exit_file(rank)))
    if not ends or runner_lives(directory, machines):
        return None
    return _now(directory) - max(end or 0.0 for end in ends)


def begun_at(directory: Path) -> float | None:
    """When a start of the batch script took the attempt (Unix seconds); None: none has."""
    return _stamp(directory / STARTED_FILE)


def start_beside(directory: Path | None, job: Job) -> Start | None:
    """The start that lives beside what Slurm says of the job. None: there is none, or what Slurm says is said of it."""
    began = None if directory is None else begun_at(directory)
    if began is None:
        return None
    said = job[0].started_at if all(part.nodes for part in job) else None
    if said is not None and said.timestamp() <= began + CLOCKS_APART_SECONDS:
        return None
    return living_start(directory, job[0].leader_id)


def living_start(directory: Path | None, slurm_id: int | None) -> Start | None:
    """The start of this job that has the attempt and is not gone."""
    if directory is None or slurm_id is None or tail(directory / STARTED_FILE, _ID_BYTES).strip() != str(slurm_id):
        return None
    intent = read_intent(directory)
    found = Start(directory, 1 if intent is None else max(1, len(intent.nodes)))
    return None if found.is_gone() else found


def _is_locked(claim: Path) -> bool:
    """A runner locks its claim as long as it lives (runner/claim.py). Not everywhere do locks reach other machines: then nothing is
    seen. An empty one is not looked at, since whoever is about to take it must find it free."""
    try:
        fd = os.open(claim, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        if not os.fstat(fd).st_size:
            return False
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in (errno.EWOULDBLOCK, errno.EACCES)
    finally:
        os.close(fd)
    return False


def _now(directory: Path) -> float:
    """Unix seconds by the clock that stamps the beats: on a shared file system it is not always this machine's."""
    probe = directory / f".draft-{os.getpid()}-{secrets.token_hex(4)}"
    with probe.open("xb") as opened:
        opened.write(b"\n")
        opened.flush()
        found = os.fstat(opened.fileno()).st_mtime
    probe.unlink()
    return found


def _stamp(file: Path) -> float | None:
    """When it was written last. Opened for it: NFS then asks its server."""
    try:
        fd = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        return os.fstat(fd).st_mtime
    finally:
        os.close(fd)


def _leave_stop(spool: Path, name: str) -> None:
    """`spool/<name>/stop`, which the runner looks for. No link is followed: the job writes there as well."""
    folder = spool / name
    try:
        folder.mkdir()
        folder.chmod(0o777)
    except FileExistsError:
        pass
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        os.close(os.open("stop", flags, 0o644, dir_fd=fd))
    finally:
        os.close(fd)
